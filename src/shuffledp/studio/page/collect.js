// The third step: a task, its batches, its results and its budget.

import { at, get, make, paragraphs, post, saveExport, show, table } from './asking.js';
import { drawIntervals, short } from './charts.js';
import { readWords, state } from './plan.js';

const EVERY = 1000;
const STATES = { received: 'at the analyzer, being counted', published: 'published', deleted: 'published' };
const PLACES = { trial: 'Everything stays on this machine.',
  connect: 'Only the task goes to the two servers; everything else stays on this machine.' };
let timer = 0;

const where = () => document.querySelector('input[name="where"]:checked').value;

function problem(error) {
  show(at('collect-problem'), error.message);
  at('collect-note').textContent = '';
}

async function start(event) {
  event.preventDefault();
  if (!state.plan) { problem(new Error('There is no plan yet: go back to the first step.')); return; }
  show(at('collect-problem'), '');
  at('start').disabled = true;
  clearTimeout(timer);
  timer = 0;
  at('collect-state').hidden = true;  // it is of the collection before
  const asked = { form: { ...state.form, find: state.form.find === 'error' ? 'error' : 'messages', epsilon: state.plan.epsilon },
    purpose: readWords(), publish_noise: state.plan.publish_noise, plan: state.plan.json };
  const names = where() === 'trial' ? ['people', 'batches']
    : ['shuffler', 'shuffler_token', 'analyzer', 'analyzer_token', 'every', 'times'];
  for (const name of names) asked[name] = at(name).value.trim();
  at('collect-note').textContent = where() === 'trial'
    ? 'Starting a shuffler and an analyzer on this machine…' : 'Registering the task at both servers…';
  try {
    const answer = await post(where() === 'trial' ? '/api/trial' : '/api/connect', asked);
    paragraphs(at('collect-cautions'), answer.cautions ?? [], 'warning');
    at('shuffler_token').value = at('analyzer_token').value = '';
    at('stop').disabled = false;
    listKept().catch(problem);
    await watch();
  } catch (error) {
    await watch();  // the collection before may go on
    problem(error);
  } finally {
    at('start').disabled = false;
  }
}

async function stop() {
  clearTimeout(timer);
  timer = 0;
  at('stop').disabled = true;
  at('collect-note').textContent = 'Stopping…';
  try { await post('/api/stop', {}); } catch (error) { problem(error); return; }
  await watch();
  listKept().catch(problem);
}

// The collections at running servers that were started here, also by an earlier studio.
async function listKept() {
  const found = await get('/api/collections');
  at('kept-part').hidden = !found.length;
  at('kept').replaceChildren(...found.map(({ id, name, began, shuffler, watched }) => {
    const act = (word, path) => make('button', { type: 'button', className: 'plain', textContent: word,
      ariaLabel: `${word}: ${name}, began ${began}`,
      onclick: async () => {
        try {
          await post(path, { id });
          if (path === '/api/unwatch' && watched) at('collect-state').hidden = true;
          await watch();
        } catch (error) { problem(error); }
        listKept().catch(problem);
      } });
    const line = make('li');
    line.append(make('p', { textContent: `${name}: began ${began} at ${shuffler}${watched ? ' (shown on this page)' : ''}` }),
      ...(watched ? [] : [act('Watch', '/api/watch')]), act('Take off the list', '/api/unwatch'));
    return line;
  }));
}

async function watch() {
  clearTimeout(timer);
  timer = -1;
  try {
    const found = await get('/api/progress');
    if (timer !== -1) return;
    if (found.task) { showState(found); show(at('collect-problem'), found.trial?.problem ?? ''); }
    if (!found.task || found.stopped) { timer = 0; return; }
  } catch (error) {
    if (timer !== -1) return;
    problem(error);
  }
  timer = setTimeout(watch, EVERY);
}

function showState(found) {
  at('collect-state').hidden = false;
  at('trial-note').hidden = !found.trial;
  at('stop').disabled = Boolean(found.stopped);
  at('stop').textContent = found.trial ? 'Stop the trial' : 'Stop watching';
  const sent = found.trial ? `${found.trial.sent.toLocaleString('en')} of ${found.trial.devices.toLocaleString('en')} simulated devices have sent. ` : '';
  at('collect-note').textContent = found.stopped ? 'Stopped. The results stay here to be saved until you start again or end the studio.' : `${sent}Task ${found.task.slice(0, 16)}…, ${found.report_bytes.toLocaleString('en')} bytes per report; shuffler ${found.shuffler}, analyzer ${found.analyzer}.`;
  at('have').textContent = found.exact
    ? `${found.have.toLocaleString('en')} of ${found.need.toLocaleString('en')} reports wait for the next batch.`
    : `About ${found.have.toLocaleString('en')} of ${found.need.toLocaleString('en')} reports wait for the next batch, as the shuffler says to everybody: rounded, and 10 to 20 minutes old.`;
  at('have-bar').value = Math.min(1, found.have / found.need);
  at('batches-list').replaceChildren(...found.batches.map((batch) => make('li', {
    className: batch.problem ? 'problem-state' : batch.state,
    textContent: `${batch.when}: ${STATES[batch.state] ?? batch.state}${batch.problem ? ` (${batch.problem})` : ''}`,
  })));
  at('budget').textContent = found.trial
    ? `Nothing: these people are simulated. Of real people, each batch would cost ${found.results.length ? `those in it its ε; the same people in all ${found.results.length} would have spent ε = ${found.spent}.` : 'those in it its ε.'}`
    : `ε = ${found.spent} in published results, if the same people took part in all. The analyzer's own ledger decides how much is left.`;
  showResults(found, found.results.flatMap((one) => one.lines.map((line, place) => ({ ...one, line,
    truth: found.trial?.truth[one.number - 1]?.[place] }))));
}

function showResults(found, lines) {
  if (!lines.length) {
    at('results-table').textContent = found.results.length
      ? 'A batch is published, but no answer was frequent enough to be found.' : 'No result is published yet.';
    at('results-chart').replaceChildren();
    at('results-note').textContent = '';
  } else {
    drawIntervals(at('results-chart'), lines.map(({ line }) => line.slice(1)),
      { label: 'Published estimates with their intervals', scale: found.scale, names: lines.map(({ when, line }) => `${when}: ${line[0]}`) });
    const truth = found.trial ? [['Truth (simulated)', true]] : [];
    table(at('results-table'), [['When'], ['What'], ['Estimate', true], ['Interval', true], ['People', true], ...truth],
      lines.map((one) => [one.when, one.line[0], short(one.line[1]), `${short(one.line[2])} … ${short(one.line[3])}`,
        String(one.reports), ...truth.map(() => short(one.truth))]));
    at('results-note').textContent = 'Estimates are published as they are: noise can make one negative, or larger than the number of people. Cutting it off would make averages wrong.';
  }
  for (const button of document.querySelectorAll('[data-export]')) {
    button.disabled = !found.results.length && !['task.json', 'report.html'].includes(button.dataset.export);
  }
}

// What people will see, as it was typed in the first step.
export function nameCollection() {
  const { name, question } = readWords();
  at('collect-name').textContent = name || question ? `People see: ${[name, question].filter(Boolean).join(': ')}`
    : 'The collection has no name yet; give it one in the first step.';
}

export function startCollect() {
  at('collect-form').addEventListener('submit', start);
  at('collect-form').addEventListener('change', () => {
    for (const part of document.querySelectorAll('[data-where]')) part.hidden = part.dataset.where !== where();
    at('times-part').hidden = !at('every').value;
    at('place').textContent = PLACES[where()];
  });
  at('stop').addEventListener('click', stop);
  for (const button of document.querySelectorAll('[data-export]')) {
    button.addEventListener('click', () => saveExport(button.dataset.export, { collected: true,
      purpose: readWords() }).catch(problem));
  }
  watch();  // a collection goes on while the page is loaded again
  listKept().catch(problem);
}
