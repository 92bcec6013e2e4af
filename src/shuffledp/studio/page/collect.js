// The third step: a task, its batches, its results and its budget.

import { at, get, post, saveExport, show, table } from './asking.js';
import { drawIntervals, short } from './charts.js';
import { state } from './plan.js';

const EVERY = 1000;
let timer = 0, plan = '', publishNoise = false;

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
  publishNoise = state.plan.publish_noise;
  const asked = { form: { ...state.form, find: state.form.find === 'error' ? 'error' : 'messages', epsilon: state.plan.epsilon },
    name: at('name').value, publish_noise: publishNoise, plan: state.plan.json };
  const names = where() === 'trial' ? ['people', 'batches']
    : ['shuffler', 'shuffler_token', 'analyzer', 'analyzer_token'];
  for (const name of names) asked[name] = at(name).value.trim();
  at('collect-note').textContent = where() === 'trial'
    ? 'Starting a shuffler and an analyzer on this machine…' : 'Registering the task at both servers…';
  try {
    const answer = await post(where() === 'trial' ? '/api/trial' : '/api/connect', asked);
    plan = answer.plan ?? state.plan.json;
    at('shuffler_token').value = at('analyzer_token').value = '';
    at('stop').disabled = false;
    watch();
  } catch (error) {
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
  at('collect-state').hidden = true;
  at('collect-note').textContent = 'Stopped. The files of a trial are removed.';
}

async function watch() {
  clearTimeout(timer);
  timer = -1;
  try {
    const found = await get('/api/progress');
    if (timer !== -1) return;
    if (found.task) { showState(found); show(at('collect-problem'), found.trial?.problem ?? ''); }
  } catch (error) {
    if (timer !== -1) return;
    problem(error);
  }
  timer = setTimeout(watch, EVERY);
}

function showState(found) {
  at('collect-state').hidden = false;
  const sent = found.trial ? `${found.trial.sent.toLocaleString('en')} of ${found.trial.devices.toLocaleString('en')} simulated devices have sent. ` : '';
  at('collect-note').textContent = `${sent}Task ${found.task.slice(0, 16)}…, ${found.report_bytes.toLocaleString('en')} bytes per report; shuffler ${found.shuffler}, analyzer ${found.analyzer}.`;
  at('have').textContent = `${found.have.toLocaleString('en')} of ${found.need.toLocaleString('en')} reports wait for the next batch.`;
  at('have-bar').value = Math.min(1, found.have / found.need);
  at('batches-list').replaceChildren(...found.batches.map((batch) => {
    const line = document.createElement('li');
    line.className = batch.problem ? 'problem-state' : batch.state;
    line.textContent = `batch ${batch.number}: ${batch.state}${batch.problem ? ` (${batch.problem})` : ''}`;
    return line;
  }));
  const { spent, budget, by } = found.budget;
  at('budget').textContent = budget === null
    ? `ε = ${spent} in published results. The analyzer's own ledger decides how much is left.`
    : `ε = ${spent} of ${budget} is spent, by ${by}. Every batch has other people: for each person it is the ε of one batch.`;
  at('budget-bar').hidden = budget === null;
  if (budget !== null) at('budget-bar').value = Number(budget) ? Number(spent) / Number(budget) : 0;
  const lines = found.results.flatMap((one) => one.lines.map((line) => ({ ...one, line })));
  if (!lines.length) {
    at('results-table').textContent = 'No batch is complete yet.';
    at('results-chart').replaceChildren();
  } else {
    drawIntervals(at('results-chart'), lines.map(({ line }) => line.slice(1)),
      { label: 'Published estimates with their intervals', names: lines.map(({ number, line }) => `${number}: ${line[0]}`) });
    table(at('results-table'), [['Batch'], ['What'], ['Estimate', true], ['Interval', true], ['People', true]],
      lines.map(({ number, reports, line }) => [String(number), line[0], short(line[1]), `${short(line[2])} … ${short(line[3])}`, String(reports)]));
  }
  for (const button of document.querySelectorAll('[data-export]')) {
    button.disabled = !lines.length && button.dataset.export !== 'report.html';
  }
}

export function startCollect() {
  at('collect-form').addEventListener('submit', start);
  at('collect-form').addEventListener('change', () => {
    for (const part of document.querySelectorAll('[data-where]')) part.hidden = part.dataset.where !== where();
  });
  at('stop').addEventListener('click', stop);
  for (const button of document.querySelectorAll('[data-export]')) {
    button.addEventListener('click', () => saveExport(button.dataset.export, { plan, form: state.form,
      name: at('name').value, publish_noise: publishNoise }).catch(problem));
  }
}
