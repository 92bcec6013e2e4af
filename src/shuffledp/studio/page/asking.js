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

export const make = (tag, properties) => Object.assign(document.createElement(tag), properties);

export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = make('a', { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

export async function saveExport(kind, data) {
  save(kind, await (await send(`/api/export/${kind}`, json(data))).blob());
}

export function paragraphs(place, texts, className = '') {
  place.replaceChildren(...texts.map((textContent) => make('p', { textContent, className })));
}

export function list(place, rows) {
  place.replaceChildren(...rows.flatMap(([name, text]) => [make('dt', { textContent: name }),
    make('dd', { textContent: text })]));
}

// A table; columns are [heading, isNumber].
export function table(place, columns, rows) {
  const made = make('table'), style = columns.map(([, number]) => (number ? 'number' : ''));
  made.createTHead().insertRow().append(...columns.map(([textContent], column) => make('th',
    { scope: 'col', textContent, className: style[column] })));
  const body = made.createTBody();
  for (const row of rows) {
    body.insertRow().append(...row.map((textContent, column) => make('td',
      { textContent, className: style[column] })));
  }
  place.classList.add('scroll');
  place.tabIndex = 0;  // so that keys can scroll it
  place.replaceChildren(made);
}
