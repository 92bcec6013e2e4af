// The second step: a file, a column, many runs beside the truth.

import { at, post, show, stream, table, upload } from './asking.js';
import { QUERIES } from './queries.js';
import { drawAnswers, drawBars, drawIntervals, short } from './charts.js';
import { state } from './plan.js';

let running = null, written = {}, last = null;

export function describePlan(place, { plan }) {
  place.textContent = plan ? `Your plan: ${plan.sentences[0]} ε = ${plan.epsilon}.`
    : 'There is no plan yet: the first step makes one.';
}

export function arrangeRehearsal() {
  const question = at('question').value;
  document.querySelector('[data-rehearse="equals"]').hidden = question !== 'count';
  document.querySelector('[data-rehearse="clamp"]').hidden = !QUERIES[question].clamp;
  at('run').disabled = !state.plan;
}

function problem(error) {
  show(at('rehearse-problem'), error.message);
  at('rehearse-note').textContent = '';
}

function clear() {
  show(at('rehearse-problem'), '');
  at('rehearse-verdict').replaceChildren();
  at('rehearse-table').replaceChildren();
  at('runs-figure').hidden = at('bars-figure').hidden = true;
}

async function take(found) {
  clear();
  at('column-part').hidden = true;
  at('file-name').textContent = 'Reading…';
  try {
    const { name, columns, format } = await found;
    written = format;
    at('file-name').textContent = `${name}: ${columns.length} column${columns.length > 1 ? 's' : ''}`;
    const options = columns.map((one) => new Option(`${one.name} (${one.holds})`, one.name));
    at('column').replaceChildren(...(options.length > 1 ? [new Option('Choose a column…', '')] : []), ...options);
    at('column-part').hidden = false;
    arrangeRehearsal();
    at('column').focus();
  } catch (error) {
    at('file-name').textContent = '';
    problem(error);
  }
}

function verdict(lines) {
  at('rehearse-verdict').replaceChildren(...lines.map((text) => {
    const line = document.createElement('p');
    line.textContent = text;
    return line;
  }));
}

function drawRuns(runs, ready, names) {
  at('runs-figure').hidden = false;
  if (ready.truth.length === 1) {
    at('runs-title').textContent = 'Every line is one run: its estimate and interval. The upright line is the truth; red intervals miss it';
    drawIntervals(at('runs-chart'), runs.map((run) => run[0]), { truth: ready.truth[0],
      label: `Intervals of ${runs.length} runs beside the truth` });
  } else {
    at('runs-title').textContent = 'The last run: bars are the truth, dots the estimates with their intervals';
    drawAnswers(at('runs-chart'), names, ready.truth.slice(0, names.length), runs.at(-1),
      'Truth and estimates of the last run');
  }
}

function differs(ready) {
  const rows = `The file has ${ready.users.toLocaleString('en')} rows`;
  if (ready.replanned) return `${rows}, fewer than the plan needs: a plan for as many people, with the same ε and target, is rehearsed instead.`;
  if (ready.users === ready.planned) return '';
  return `${rows}, but the plan is for ${ready.planned.toLocaleString('en')} people. Every row adds noise, so these errors are larger than those of the plan.`;
}

function finish(summary, ready, runs) {
  const many = summary.names.length > 1, all = summary.runs * summary.held.length;
  const held = summary.held.reduce((sum, one) => sum + one, 0), first = runs[0];
  const lines = [];
  if (!many) {
    lines.push(`Truth: ${short(ready.truth[0])}. First run: ${short(first[0][0])}, interval ${short(first[0][1])} to ${short(first[0][2])}.`);
  }
  lines.push(`${held.toLocaleString('en')} of ${all.toLocaleString('en')} intervals hold the truth (${short(100 * summary.coverage)} %; promised: at least ${short(100 * summary.promised)} %, up to chance).`);
  if (at('question').value !== 'quantiles') {
    lines.push(`${short(100 * summary.within.share)} % of the estimates lie within ±${short(summary.within.error)} of the truth (forecast for ${ready.users.toLocaleString('en')} people: ${short(100 * summary.promised)} %).`);
  }
  if (!ready.replanned && ready.users !== ready.planned) {
    lines.push(`Careful: the plan promises ±${short(summary.planned)} for about ${ready.planned.toLocaleString('en')} people. With ${ready.users.toLocaleString('en')} the error is ±${short(summary.within.error)}. If that many will take part, plan for them.`);
  }
  if (ready.absent.length) {
    lines.push(`No row holds ${ready.absent.map((one) => `“${one}”`).join(', ')}: check the spelling. Capitals and spaces count.`);
  }
  verdict(lines);
  drawRuns(runs, ready, summary.names);
  at('bars-figure').hidden = !summary.bars && !many;
  if (summary.bars) {
    at('bars-title').textContent = 'How often each error came (bars), beside the exact law (line)';
    drawBars(at('bars-chart'), summary.bars);
  } else if (many) {
    at('bars-title').textContent = 'The same run, estimate − truth: an interval that does not reach 0 misses the truth';
    drawIntervals(at('bars-chart'), runs.at(-1).map((run, row) => run.map((one) => one - ready.truth[row])),
      { truth: 0, label: 'Errors of the last run', names: summary.names });
  }
  table(at('rehearse-table'), [['What'], ['Truth', true], ['Last estimate', true], ['Interval', true],
    ['Error (RMSE)', true], ['Intervals that hold', true]],
  summary.names.map((name, row) => {
    const [value, low, high] = runs.at(-1)[row];
    return [name, short(ready.truth[row]), short(value), `${short(low)} … ${short(high)}`,
      short(summary.rmse[row]), `${summary.held[row]} of ${summary.runs}`];
  }));
  at('rehearse-note').textContent = `Done: ${summary.runs} runs on ${ready.users.toLocaleString('en')} rows.${
    many ? '' : ` Forecast error (RMSE): ${short(summary.forecast)}; much of it comes from rare large errors, so that few runs may show less.`} ${differs(ready)}`;
}

async function rehearse(event) {
  event.preventDefault();
  if (!state.plan) return;
  if (!at('column').value) { problem(new Error('Choose a column first.')); return; }
  running?.abort();
  const mine = running = new AbortController(), runs = [], wanted = Number(at('runs').value);
  clear();
  at('rehearse-note').textContent = 'Reading the column…';
  at('cancel').hidden = false;
  at('rehearse-progress').hidden = false;
  at('rehearse-progress').value = 0;
  let ready = null, drawn = 0;
  const form = { ...state.form, epsilon: state.plan.epsilon, equals: at('equals').value.trim(), clamp: at('clamp').checked };
  try {
    await stream('/api/rehearse', { form, plan: state.plan.json, column: at('column').value, runs: String(wanted), written }, (item) => {
      if (item.ready) {
        ready = item.ready;
        at('rehearse-note').textContent = `Running… ${differs(ready)}`;
      }
      if (item.run) {
        runs.push(item.run);
        at('rehearse-progress').value = runs.length / wanted;
        if (ready.truth.length === 1 && Date.now() - drawn > 150) { drawn = Date.now(); drawRuns(runs, ready, []); }
      }
      if (item.summary) finish(item.summary, ready, runs);
    }, mine.signal);
  } catch (error) {
    if (error.name === 'AbortError') at('rehearse-note').textContent = 'Stopped.';
    else problem(error);
  } finally {
    if (mine === running) { at('cancel').hidden = at('rehearse-progress').hidden = true; }
  }
}

function takeFile(file) {
  last = file;
  if (file) take(upload(file, at('encoding').value));
}

export function startRehearse() {
  at('file').addEventListener('change', () => { if (at('file').files[0]) takeFile(at('file').files[0]); });
  at('encoding').addEventListener('change', () => takeFile(last));
  at('sample').addEventListener('click', () => take(post('/api/sample', {})));
  at('rehearse-form').addEventListener('submit', rehearse);
  at('cancel').addEventListener('click', () => running?.abort());
  at('forget').addEventListener('click', async () => {
    try { await post('/api/forget', {}); } catch (error) { problem(error); return; }
    clear();
    at('file').value = '';
    last = null;
    at('column-part').hidden = true;
    at('file-name').textContent = 'The file is removed.';
  });
  const drop = at('drop');
  for (const name of ['dragover', 'dragleave', 'drop']) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle('over', name === 'dragover');
      if (name === 'drop' && event.dataTransfer.files[0]) takeFile(event.dataTransfer.files[0]);
    });
  }
}
