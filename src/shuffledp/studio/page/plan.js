// The first step: the form, its sliders, and the plan that is found for it.

import { at, list, make, paragraphs, save, saveExport, show, stream, table } from './asking.js';
import { drawFrontier, drawResult, short } from './charts.js';
import { LABELS, QUERIES } from './queries.js';

const SLIDERS = { epsilon: [0.05, 8], error: [1, 1e5], messages: [1, 1e4] };
const WORDS = { name: 'name', question: 'asked', collector: 'collector_name', shuffler: 'shuffler_name',
  analyzer: 'analyzer_name', decided: 'decided', afterwards: 'afterwards' };
const PRIORS = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];
const WAIT = 180, KEPT = 'plan-form';

for (const [name, { asks }] of Object.entries(QUERIES)) at('question').append(new Option(asks, name));
for (const label of document.querySelectorAll('label[data-name]')) label.textContent = LABELS[label.htmlFor];

export const state = { plan: null, form: null };
const frontier = { key: '', ours: [], baselines: [], missing: [], central: 0 };
let timer = 0, planning = null, drawing = null, listeners = [];

export function onPlan(listener) { listeners.push(listener); }

export function readForm() {
  const form = new FormData(at('plan-form')), data = Object.fromEntries(form);
  data.labels = data.labels.split('\n').map((one) => one.trim()).filter(Boolean);
  data.groups = data.groups.split('\n').map((one) => one.trim()).filter(Boolean);
  data.by_group = form.has('by_group');
  data.other = form.has('other');
  data.publish_noise = form.has('publish_noise');
  data.pure = form.has('pure');
  for (const name of Object.values(WORDS)) delete data[name];
  return data;
}

// What the collection is for, in words: for the report and the task.
export function readWords() {
  return Object.fromEntries(Object.entries(WORDS).map(([word, id]) => [word, at(id).value.trim()]));
}

// Reloading the page keeps the form, in this tab alone and until it is closed.
function keep() {
  const fields = [...at('plan-form').elements].filter((one) => one.name);
  const kept = fields.map((one) => [one.name, one.type, one.value, one.checked]);
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
}

function restore() {
  for (const [name, type, value, checked] of JSON.parse(sessionStorage.getItem(KEPT) ?? '[]')) {
    const fields = [...document.getElementsByName(name)];
    const field = type === 'radio' ? fields.find((one) => one.value === value) : fields[0];
    if (!field) continue;
    if (type === 'radio' || type === 'checkbox') field.checked = checked;
    else field.value = value;
  }
}

const plainNumber = (text) => Number(text.replace(/[,\s]/g, ''));

function place(slider, value) {
  const [low, high] = SLIDERS[slider];
  const part = Math.log(Math.max(low, Math.min(high, value)) / low) / Math.log(high / low);
  at(`${slider}-slide`).value = Math.round(200 * part);
}

function slid(slider) {
  const [low, high] = SLIDERS[slider];
  const value = low * (high / low) ** (at(`${slider}-slide`).value / 200);
  at(slider).value = slider === 'epsilon' ? Number(value.toPrecision(2))
    : value < 100 ? Math.round(value) || 1 : Number(value.toPrecision(2));
}

function arrange() {
  const { about, fields, finds, noise } = QUERIES[at('question').value];
  for (const part of document.querySelectorAll('[data-field]')) {
    part.hidden = !fields.includes(part.dataset.field);
  }
  at('about').textContent = about[0].toUpperCase() + about.slice(1);
  for (const radio of document.querySelectorAll('input[name="find"]')) {
    radio.disabled = !finds.includes(radio.value);
    if (radio.checked && radio.disabled) document.querySelector(`input[name="find"][value="${finds[0]}"]`).checked = true;
  }
  at('third-hint').textContent = finds.length > 1 ? 'Set two of these three; the third is found for you.'
    : `For this question, ${{ messages: 'the number of messages', error: 'the error', epsilon: 'ε' }[finds[0]]} is found from the other two.`;
  at('noise-label').hidden = !noise;
  at('group-part').hidden = !QUERIES[at('question').value].groups;
  at('groups-part').hidden = !at('by_group').checked;
  at('crosstab').hidden = !fields.includes('labels');
  at('error_unit').hidden = !QUERIES[at('question').value].percent;
  if (at('error_unit').hidden) at('error_unit').value = '';
  const find = document.querySelector('input[name="find"]:checked').value;
  for (const part of document.querySelectorAll('[data-slider]')) {
    const found = part.dataset.slider === find;
    part.classList.toggle('found', found);
    part.querySelector('input[type="range"]').disabled = found;
    const number = at(part.dataset.slider);
    number.readOnly = found;
  }
  for (const slider of ['epsilon', 'error', 'messages']) {
    // not the one that is being moved: its number is rounded, and it would never leave its place
    if (document.activeElement !== at(`${slider}-slide`)) place(slider, plainNumber(at(slider).value) || 1);
  }
  at('error-shown').textContent = at('error').value + (at('error_unit').value ? ' %' : '');
  const epsilon = plainNumber(at('epsilon').value);
  at('epsilon-slide').setAttribute('aria-valuetext', `ε = ${at('epsilon').value}: a 1 % suspicion becomes at most ${percent(suspicion(epsilon, 0.01))}`);
  at('error-slide').setAttribute('aria-valuetext', `an error of ${at('error-shown').textContent}`);
  at('messages-slide').setAttribute('aria-valuetext', `${at('messages').value} messages per device`);
}

const percent = (one) => one > 0.9999 ? 'more than 99.99 %' : `${Number((100 * one).toPrecision(one > 0.99 ? 4 : 2))} %`;
const suspicion = (epsilon, prior) => 1 / (1 + Math.exp(-epsilon) * (1 - prior) / prior);

// The largest probability of a suspicion afterwards, for the prior that is chosen.
function showPrior() {
  const prior = PRIORS[at('prior').value], after = suspicion(Number(state.plan?.epsilon ?? NaN), prior);
  const secret = QUERIES[at('question').value].secret;
  const words = state.plan ? `A ${percent(prior)} suspicion that ${secret} becomes at most ${percent(after)}, whatever else is known and however the result comes out.` : '';
  at('prior-words').textContent = words;
  at('prior').setAttribute('aria-valuetext', words || percent(prior));
}

// Targets that can be reached, as buttons that set the fields.
function suggest({ label, set }) {
  const onclick = () => {
    for (const [name, value] of Object.entries(set)) {
      if (name === 'find') document.querySelector(`input[name="find"][value="${value}"]`).checked = true;
      else at(name).value = value;
    }
    changed();
  };
  at('suggestions').append(make('button', { type: 'button', textContent: label, onclick }));
}

function impossible(why) {
  refused(new Error(''));
  at('plan-impossible').hidden = false;
  at('plan-why').textContent = why;
  at('suggestions').replaceChildren();
}

function fill(form, plan) {
  const found = form.find;
  const error = at('error_unit').value ? 100 * plan.error / plan.span : plan.error;
  const value = { epsilon: plan.epsilon, error: short(error), messages: plan.messages }[found];
  at(found).value = String(value).replaceAll(',', '');
  place(found, plainNumber(at(found).value));
  arrange();
}

function shown(form, plan, final) {
  state.plan = plan;
  state.form = form;
  show(at('plan-problem'), '');
  at('plan-impossible').hidden = true;
  at('example-part').hidden = at('prior-part').hidden = false;
  at('example-headline').textContent = plan.example.headline;
  drawResult(at('example'), plan.example, `An example of the result: ${plan.example.headline}`);
  for (const id of ['plan-answer', 'plan-more']) at(id).classList.remove('outdated');
  at('plan-more').hidden = false;
  paragraphs(at('plan-sentences'), plan.sentences);
  paragraphs(at('plan-cautions'), plan.cautions, 'warning');
  at('smaller').textContent = '';
  at('plan-note').textContent = final ? 'Certified.' : 'Certified. Looking for a cheaper plan…';
  list(at('facts'), plan.facts);
  list(at('trust'), plan.trust);
  table(at('certificate'), [['Where'], ['Inequality'], ['Left', true], ['at most', true]],
    plan.certificate.map((row) => [row.where, row.says, row.left, row.right]));
  fill(form, plan);
  showPrior();
  at('save-plan').disabled = at('save-report').disabled = false;
  redraw();
  for (const listener of listeners) listener(state);
}

// What is shown no longer belongs to the form; nothing can be saved or rehearsed until it does.
function outdate() {
  state.plan = null;
  for (const id of ['plan-answer', 'plan-more']) at(id).classList.add('outdated');
  at('save-plan').disabled = at('save-report').disabled = true;
  for (const listener of listeners) listener(state);
}

function refused(error) {
  outdate();
  at('plan-answer').classList.remove('outdated');
  show(at('plan-problem'), error.message);
  at('plan-impossible').hidden = at('example-part').hidden = at('prior-part').hidden = true;
  at('plan-note').textContent = at('smaller').textContent = '';
  for (const id of ['plan-sentences', 'plan-cautions']) at(id).replaceChildren();
  at('plan-more').hidden = true;
}

async function askPlan() {
  planning?.abort();
  const mine = planning = new AbortController(), form = readForm(), began = Date.now();
  at('plan-note').textContent = 'Planning…';
  const clock = setInterval(() => {
    const slow = ['real-sum', 'mean', 'quantiles', 'integer-sum'].includes(form.question) || form.by_group;
    at('plan-note').textContent = `Planning for ${Math.round((Date.now() - began) / 1000)} s${
      slow ? '; sums, quantiles and groups take some seconds' : ''}…`;
  }, 1000);
  try {
    await stream('/api/plan', form, (item) => {
      if (mine !== planning) return;
      if (item.note) at('plan-note').textContent = item.note;
      if (item.impossible) { clearInterval(clock); impossible(item.impossible); }
      if (item.suggestion) suggest(item.suggestion);
      if (item.plan) shown(form, item.plan, item.final);
      if (item.final) { clearInterval(clock); askFrontier(); }
      if (item.smaller) at('smaller').textContent = smallerNote(item.smaller);
      if (item.fleet) { list(at('fleet'), item.fleet); at('plan-note').textContent = 'Certified.'; }
    }, mine.signal);
  } catch (error) {
    if (error.name !== 'AbortError' && mine === planning) refused(error);
  } finally {
    clearInterval(clock);
  }
}

function smallerNote({ epsilon, messages }) {
  return `With this error ε could be as low as ${epsilon}, at ${messages.toLocaleString('en')} messages per device: more privacy for the same answer, if your devices can send that many.`;
}

// Only for those who look: it takes long.
async function askFrontier() {
  if (!at('experts').open || !state.plan) return;
  const form = { ...state.form, epsilon: state.plan.epsilon };
  const { question, users, epsilon, delta, labels, other, low, high, largest, bins, publish_noise: noise } = form;
  const key = JSON.stringify([question, users, epsilon, delta, labels.length, other, form.by_group, form.groups.length, low, high, largest, bins, noise]);
  if (key === frontier.key) return;
  drawing?.abort();
  const mine = drawing = new AbortController();
  Object.assign(frontier, { key, ours: [], baselines: [], missing: [], central: 0 });
  at('frontier-note').textContent = 'Computing the other plans and protocols…';
  try {
    await stream('/api/frontier', form, (item) => {
      if (mine !== drawing) return;
      if (item.central) frontier.central = item.central;
      if (item.ours) frontier.ours.push(item.ours);
      if (item.baseline) frontier.baselines.push(item.baseline);
      if (item.missing) frontier.missing.push(item.missing);
      redraw();
    }, mine.signal);
    if (mine === drawing) at('frontier-note').textContent = frontierNote();
  } catch (error) {
    if (error.name === 'AbortError' || mine !== drawing) return;
    frontier.key = '';
    at('frontier-note').textContent = error.message;
  }
}

function frontierNote() {
  const added = state.plan?.publish_noise ? ' and with the analyzer’s own noise' : '';
  const ours = `Your plan and the line are as the service runs them: with reports filled up to one length${added}. The small dot is your plan without that.`;
  if (!frontier.baselines.length) return `${ours} No protocol of the literature answers this question here.`;
  return `${ours} Protocols of the literature are drawn without it, too: messages on average. Filled: pure privacy. Hollow: only (ε, δ)-privacy, which may fail. Crosses: the claim is not supported.`;
}

function redraw() {
  drawFrontier(at('frontier'), { ...frontier, plan: state.plan });
  const rows = [...frontier.ours, ...frontier.baselines].sort((one, other) => one.error - other.error);
  table(at('frontier-table'), [['Protocol'], ['Error', true], ['Messages', true], ['Privacy'], ['Trusted']],
    [...rows.map((one) => [one.title, short(one.error), short(one.messages), one.privacy, one.trust]),
      ...frontier.missing.map((one) => [one.title, '', '', one.why, ''])]);
}

export function changed() {
  keep();
  arrange();
  outdate();
  planning?.abort();
  planning = null;
  at('plan-note').textContent = 'Planning…';
  clearTimeout(timer);
  timer = setTimeout(askPlan, WAIT);
}

export function startPlan() {
  at('plan-form').addEventListener('input', (event) => {
    const slider = event.target.id.endsWith('-slide') ? event.target.id.slice(0, -6) : '';
    if (slider) slid(slider);
    if (!event.target.closest('[data-words]')) { changed(); return; }
    keep();
    for (const listener of listeners) listener(state);
  });
  for (const id of ['question', 'confidence', 'error_unit']) at(id).addEventListener('change', changed);
  at('plan-form').addEventListener('submit', (event) => { event.preventDefault(); askPlan(); });
  at('save-plan').addEventListener('click', () => save('plan.json', state.plan.json, 'application/json'));
  at('save-report').addEventListener('click', () => saveExport('report.html', {
    plan: state.plan.json, form: state.form, purpose: readWords(), publish_noise: state.plan.publish_noise,
  }).catch(refused));
  addEventListener('resize', () => {
    redraw();
    if (state.plan) drawResult(at('example'), state.plan.example, at('example-headline').textContent);
  });
  at('experts').addEventListener('toggle', askFrontier);
  at('prior').addEventListener('input', showPrior);
  restore();
  arrange();
  askPlan();
}
