// The three steps, one shown at a time.

import { at } from './asking.js';
import { onPlan, startPlan, state } from './plan.js';
import { arrangeRehearsal, describePlan, startRehearse } from './rehearse.js';
import { nameCollection, startCollect } from './collect.js';

const STEPS = ['plan', 'rehearse', 'collect'];

function go(focus) {
  const wanted = STEPS.includes(location.hash.slice(1)) ? location.hash.slice(1) : 'plan';
  for (const step of STEPS) {
    at(step).hidden = step !== wanted;
    if (step === wanted) at(`step-${step}`).setAttribute('aria-current', 'step');
    else at(`step-${step}`).removeAttribute('aria-current');
  }
  document.title = `${wanted[0].toUpperCase()}${wanted.slice(1)} · shuffledp studio`;
  arrangeRehearsal();
  if (focus) { at('main').focus(); scrollTo(0, 0); }
}

onPlan((found) => {
  describePlan(at('rehearse-question'), found);
  describePlan(at('collect-question'), found);
  nameCollection();
  arrangeRehearsal();
});
addEventListener('hashchange', () => go(true));
startPlan();
startRehearse();
startCollect();
describePlan(at('rehearse-question'), state);
describePlan(at('collect-question'), state);
nameCollection();
go(false);
