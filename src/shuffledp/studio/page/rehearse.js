// The second step: a file, a column, many runs beside the truth.

import { at, get, make, paragraphs, post, show, stream, table, upload } from './asking.js';
import { QUERIES } from './queries.js';
import { drawAnswers, drawBars, drawIntervals, short } from './charts.js';
import { changed, state } from './plan.js';

const FORMATS = ['sheet', 'encoding', 'delimiter', 'decimal'];
const KEPT = 'rehearsal';
let running = null, columns = [], rows = 0, ran = '';

export function describePlan(place, { plan }) {
  place.textContent = plan ? `Your plan: ${plan.sentences[0]} ε = ${plan.epsilon}.`
    : 'There is no plan yet: the first step makes one.';
}

export function arrangeRehearsal() {
  const question = at('question').value;
  document.querySelector('[data-rehearse="equals"]').hidden = question !== 'count';
  document.querySelector('[data-rehearse="clamp"]').hidden = !QUERIES[question].clamp;
  at('run').disabled = !state.plan;
  if (state.plan && !at('runs-figure').hidden && ran !== state.plan.json) {
    at('rehearse-note').textContent = 'These runs are of an earlier plan. Rehearse again to see yours.';
  }
  arrangeColumn();
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

// Shows the file that arrives, or that is there already; a long one is read with a progress bar.
async function take(arriving, format = {}) {
  clear();
  at('column-part').hidden = at('format-part').hidden = at('preview-part').hidden = true;
  at('file-name').textContent = 'Copying the file to the studio’s folder…';
  try {
    await arriving;
    at('file-progress').hidden = false;
    at('file-progress').value = 0;
    let answer = null;
    const end = await stream('/api/look', format, ({ progress, found }) => {
      if (found) answer = found;
      if (progress === undefined) return;
      at('file-progress').value = progress;
      at('file-name').textContent = `Reading: ${Math.round(100 * progress)} %`;
    });
    if (end !== 'done') return;  // another file took its place
    showFile(answer);
    at('column').focus();
    sessionStorage.removeItem(KEPT);
  } catch (error) {
    at('file-name').textContent = '';
    problem(error);
  }
  at('file-progress').hidden = true;
}

function showFile(answer) {
  const { name, format } = answer;
  columns = answer.columns;
  rows = answer.rows;
  at('file-name').textContent = `${name}: ${rows.toLocaleString('en')} rows, ${columns.length} column${columns.length > 1 ? 's' : ''}.${
    answer.left_out ? ` ${answer.left_out.toLocaleString('en')} lines have another number of columns and were left out.` : ''}`;
  for (const select of [at('column'), at('group-column')]) {
    const options = columns.map((one, number) => new Option(`${one.name} (${one.words.split(' (')[0]})`, number));
    select.replaceChildren(...(options.length > 1 ? [new Option('Choose a column…', '')] : []), ...options);
  }
  showFormat(format);
  showPreview(answer);
  at('column-part').hidden = false;
  arrangeRehearsal();
}

function showFormat(format) {
  at('format-part').hidden = !FORMATS.some((name) => name in format);
  for (const part of document.querySelectorAll('[data-format]')) part.hidden = !(part.dataset.format in format);
  if (format.sheets) at('sheet').replaceChildren(...format.sheets.map((name) => new Option(name)));
  for (const name of FORMATS) if (name in format) at(name).value = format[name];
  const said = FORMATS.filter((name) => name in format).map((name) => name === 'sheet'
    ? `sheet “${format.sheet}”` : at(name).selectedOptions[0].textContent + { delimiter: ' between columns', decimal: ' before decimals', encoding: '' }[name]);
  at('format-part').querySelector('summary').textContent = `Read as ${said.join(', ')}${format.header > 1 ? `, header in row ${format.header}` : ''}${format.header === 0 ? ', no header' : ''}`;
}

function showPreview({ preview, first_row: first }) {
  at('preview-part').hidden = false;
  at('preview-title').textContent = `The first ${preview.length} of ${rows.toLocaleString('en')} rows`;
  table(at('preview'), [['Row', true], ...columns.map((one) => [one.name])],
    preview.map((cells, row) => [String(first + row), ...cells]));
  const heads = at('preview').querySelectorAll('th');
  columns.forEach((one, number) => heads[number + 1].append(make('small', { textContent: one.words })));
}

const chosen = (id) => (at(id).value === '' ? null : columns[Number(at(id).value)]);

// What is to be known about the chosen columns: cells that do not fit, empty ones, answers.
function arrangeColumn() {
  const query = QUERIES[at('question').value], column = chosen('column'), grouped = query.groups && at('by_group').checked;
  const listed = query.texts, group = grouped ? chosen('group-column') : null;
  const reads = listed || (at('question').value === 'count' && at('equals').value.trim());
  at('group-column-part').hidden = !grouped;
  const odd = column && !reads ? column.odd : null;
  at('column-note').textContent = odd ? `${odd.count.toLocaleString('en')} cells are not ${column.words}; the first is in row ${odd.row}: “${odd.text}”. They are treated as empty.` : '';
  const empty = (column?.empty ?? 0) + (odd?.count ?? 0);
  at('empty-part').hidden = !empty;
  at('empty-title').textContent = `${empty.toLocaleString('en')} rows are empty`;
  at('empty-own').hidden = !listed;
  if (!listed && document.querySelector('input[name="empty"]:checked').value === 'own') {
    document.querySelector('input[name="empty"][value="leave"]').checked = true;
  }
  offer('take-answers', 'take-part', query.fields.includes('labels') ? column : null, 'labels', 'answers');
  offer('take-groups', 'take-groups-part', group, 'groups', 'groups');
}

// The column's own texts as the list of the plan, where it is another one.
function offer(button, part, column, field, what) {
  const mine = at(field).value.split('\n').map((one) => one.trim()).filter(Boolean);
  const others = column ? column.texts.filter((one) => !mine.includes(one)) : [];
  at(part).hidden = !others.length || column.texts.length < 2;
  if (at(part).hidden) return;
  at(button).textContent = `Use the ${column.texts.length} ${what} of this column in the plan`;
  at(button).title = 'Only if anyone may know that these exist.';
  at(button).onclick = () => { at(field).value = column.texts.join('\n'); changed(); at('run').focus(); };
}

function drawRuns(runs, ready, names) {
  at('runs-figure').hidden = false;
  if (ready.truth.length === 1) {
    at('runs-title').textContent = 'Every line is one run: its estimate and interval. The vertical line is the truth; red intervals miss it';
    drawIntervals(at('runs-chart'), runs.map((run) => run[0]), { truth: ready.truth[0],
      label: `Intervals of ${runs.length} runs beside the truth` });
  } else {
    at('runs-title').textContent = 'The last run: bars are the truth, dots the estimates with their intervals';
    drawAnswers(at('runs-chart'), names, ready.truth.slice(0, names.length), runs.at(-1),
      'Truth and estimates of the last run');
  }
}

function finish(summary, ready, runs) {
  const many = summary.names.length > 1, all = summary.found.reduce((sum, one) => sum + one, 0);
  const held = summary.held.reduce((sum, one) => sum + one, 0), first = runs[0];
  const lines = [];
  if (!many) {
    lines.push(`Truth: ${short(ready.truth[0])}. First run: ${short(first[0][0])}, interval ${short(first[0][1])} to ${short(first[0][2])}.`);
  }
  lines.push(`${held.toLocaleString('en')} of ${all.toLocaleString('en')} intervals contain the truth (${short(100 * summary.coverage)} %; promised: at least ${short(100 * summary.promised)} %, up to chance).`);
  if (at('question').value !== 'quantiles') {
    lines.push(`${short(100 * summary.within.share)} % of the estimates lie within ±${short(summary.within.error)} of the truth (forecast for ${ready.users.toLocaleString('en')} people: ${short(100 * summary.promised)} %).`);
  }
  if (ready.users !== ready.planned) {
    lines.push(`Careful: the plan promises ±${short(summary.planned)} for about ${ready.planned.toLocaleString('en')} people. With ${ready.users.toLocaleString('en')} the error is ±${short(summary.within.error)}. If that many will take part, plan for them.`);
  }
  if (all < summary.runs * summary.names.length) {
    lines.push(`Of the ${summary.names.length} most frequent words, ${short(all / summary.runs)} were found in a run on average.`);
  }
  if (ready.absent.length) {
    lines.push(`No row holds ${ready.absent.map((one) => `“${one}”`).join(', ')}: check the spelling. Capitals and spaces count.`);
  }
  paragraphs(at('rehearse-verdict'), lines);
  drawRuns(runs, ready, summary.names);
  at('bars-figure').hidden = !summary.bars && !many;
  if (summary.bars) {
    at('bars-title').textContent = 'How often each error occurred (bars) and its exact distribution (line)';
    drawBars(at('bars-chart'), summary.bars);
  } else if (many) {
    at('bars-title').textContent = 'The same run, estimate − truth: an interval that does not reach 0 misses the truth';
    const there = summary.names.map((_, row) => row).filter((row) => runs.at(-1)[row][0] !== null);
    drawIntervals(at('bars-chart'), there.map((row) => runs.at(-1)[row].map((one) => one - ready.truth[row])),
      { truth: 0, label: 'Errors of the last run', names: there.map((row) => summary.names[row]) });
  }
  table(at('rehearse-table'), [['What'], ['Truth', true], ['Last estimate', true], ['Interval', true],
    ['Error (RMSE)', true], ['Contain the truth', true]],
  summary.names.map((name, row) => {
    const [value, low, high] = runs.at(-1)[row];
    return [name, short(ready.truth[row]), ...(value === null ? ['not found', ''] : [short(value), `${short(low)} … ${short(high)}`]),
      short(summary.rmse[row]), `${summary.held[row]} of ${summary.found[row]}`];
  }));
  at('rehearse-note').textContent = `Done: ${summary.runs} runs on ${ready.users.toLocaleString('en')} rows.${
    many ? '' : ` Forecast error (RMSE): ${short(summary.forecast)}; much of it comes from rare large errors, so that few runs may show less.`} ${ready.differs}`;
}

// Keeps a rehearsal for a reload, in this tab alone.
function keep(summary, ready, runs) {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ summary, ready, runs: runs.slice(-120), plan: ran }));
  } catch { sessionStorage.removeItem(KEPT); }
}

async function restore() {
  const found = await get('/api/file');
  if (!found.columns) return;
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null');
  showFile(found);
  if (!kept) return;
  ran = kept.plan;
  finish(kept.summary, kept.ready, kept.runs);
}

async function rehearse(event) {
  event.preventDefault();
  if (!state.plan) return;
  if (!at('column').value) { problem(new Error('Choose a column first.')); return; }
  running?.abort();
  const mine = running = new AbortController(), runs = [], wanted = Number(at('runs').value);
  clear();
  at('preview-part').open = false;
  at('rehearse-note').textContent = 'Reading the column…';
  at('cancel').hidden = false;
  at('rehearse-progress').hidden = false;
  at('rehearse-progress').value = 0;
  let ready = null, drawn = 0;
  const { plan } = state;
  const form = { ...state.form, epsilon: state.plan.epsilon, equals: at('equals').value.trim(), clamp: at('clamp').checked };
  const wish = { column: at('column').value, name: chosen('column')?.name, group: at('group-column').value,
    empty: at('empty-part').hidden ? 'leave' : document.querySelector('input[name="empty"]:checked').value,
    empty_value: at('empty_value').value };
  try {
    await stream('/api/rehearse', { form, plan: state.plan.json, runs: String(wanted), chosen: wish }, (item) => {
      if (item.ready) {
        ready = item.ready;
        at('rehearse-note').textContent = `Running… ${ready.differs}`;
      }
      if (item.run) {
        runs.push(item.run);
        at('rehearse-progress').value = runs.length / wanted;
        if (ready.truth.length === 1 && Date.now() - drawn > 150) { drawn = Date.now(); drawRuns(runs, ready, []); }
      }
      if (item.summary) { ran = plan.json; finish(item.summary, ready, runs); keep(item.summary, ready, runs); }
    }, mine.signal);
  } catch (error) {
    if (error.name === 'AbortError') at('rehearse-note').textContent = 'Stopped.';
    else problem(error);
  } finally {
    if (mine === running) { at('cancel').hidden = at('rehearse-progress').hidden = true; }
  }
}

function takeFile(file) {
  if (file) take(upload(file));
}

function readAgain() {
  take(null, Object.fromEntries(FORMATS.filter((name) => !document.querySelector(`[data-format="${name}"]`).hidden)
    .map((name) => [name, at(name).value])));
}

export function startRehearse() {
  at('file').addEventListener('change', () => { if (at('file').files[0]) takeFile(at('file').files[0]); });
  for (const name of FORMATS) at(name).addEventListener('change', readAgain);
  for (const id of ['column', 'group-column', 'equals']) {
    for (const event of ['input', 'change']) at(id).addEventListener(event, arrangeColumn);
  }
  at('sample').addEventListener('click', () => take(post('/api/sample', {})));
  at('rehearse-form').addEventListener('submit', rehearse);
  at('cancel').addEventListener('click', () => running?.abort());
  at('forget').addEventListener('click', async () => {
    try { await post('/api/forget', {}); } catch (error) { problem(error); return; }
    clear();
    at('file').value = '';
    columns = [];
    at('column-part').hidden = at('format-part').hidden = at('preview-part').hidden = true;
    at('file-name').textContent = 'The file is removed.';
  });
  restore().catch(problem);
  const drop = at('drop');
  for (const name of ['dragover', 'dragleave', 'drop']) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle('over', name === 'dragover');
      if (name === 'drop' && event.dataTransfer.files[0]) takeFile(event.dataTransfer.files[0]);
    });
  }
}
