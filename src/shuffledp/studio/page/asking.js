// Asking the studio's server: streams of lines, files to save, and what to do when nobody answers.

export const at = (id) => document.getElementById(id);

export function show(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

function answered(yes) {
  at('offline').hidden = yes;
}

// Each tab has its own file and jobs at the server, also after a reload.
const TAB = sessionStorage.getItem('tab') ?? String(crypto.randomUUID());
sessionStorage.setItem('tab', TAB);

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { ...options.headers, 'X-Tab': TAB } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    answered(false);
    throw new Error('The studio does not answer.');
  }
  answered(true);
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Error(problem.detail ?? `The studio answered with an error (${answer.status}).`);
  }
  return answer;
}

const json = (data) => ({ method: 'POST', headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(data) });

export async function post(path, data) {
  return (await send(path, json(data))).json();
}

export async function get(path) {
  return (await send(path, {})).json();
}

export async function upload(file) {
  const headers = { 'X-File-Name': encodeURIComponent(file.name) };
  await send('/api/upload', { method: 'POST', headers, body: file });
}

// Calls take(item) for each line; gives 'done' or 'outdated', throws what was refused.
export async function stream(path, data, take, signal) {
  const answer = await send(path, { ...json(data), signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      answered(false);
      throw new Error('The studio stopped answering.');
    }
    if (piece.done) throw new Error('The studio stopped answering.');
    const lines = (rest + piece.value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const item = JSON.parse(line);
      if (item.end === 'refused') throw new Error(item.why);
      if (item.end) return item.end;
      take(item);
    }
  }
}

export function save(name, content, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

export async function saveExport(kind, data) {
  save(kind, await (await send(`/api/export/${kind}`, json(data))).blob());
}

export function paragraphs(place, texts, style = '') {
  place.replaceChildren(...texts.map((text) => {
    const line = document.createElement('p');
    line.textContent = text;
    line.className = style;
    return line;
  }));
}

export function list(place, rows) {
  place.replaceChildren(...rows.flatMap(([name, text]) => {
    const dt = document.createElement('dt'), dd = document.createElement('dd');
    dt.textContent = name;
    dd.textContent = text;
    return [dt, dd];
  }));
}

// A table; columns are [heading, isNumber].
export function table(place, columns, rows) {
  const made = document.createElement('table');
  const head = made.createTHead().insertRow();
  for (const [heading, number] of columns) {
    const cell = document.createElement('th');
    cell.scope = 'col';
    cell.textContent = heading;
    if (number) cell.className = 'number';
    head.append(cell);
  }
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((text, column) => {
      const cell = line.insertCell();
      cell.textContent = text;
      if (columns[column][1]) cell.className = 'number';
    });
  }
  place.classList.add('scroll');
  place.tabIndex = 0;  // so that keys can scroll it
  place.replaceChildren(made);
}
