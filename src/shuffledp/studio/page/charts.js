// Charts as SVG: the frontier on logarithmic axes, intervals, bars beside a line.

const SPACE = 'http://www.w3.org/2000/svg';

function part(name, attributes = {}, text = '') {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function canvas(width, height, label) {
  return part('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label });
}

// As wide as its place, so that letters keep their size; a hidden place has no width.
function widthOf(place) {
  return Math.max(320, Math.min(760, place.clientWidth || innerWidth - 40));
}

export function short(number) {
  if (!Number.isFinite(number)) return '';
  const size = Math.abs(number);
  if (size >= 1e7) return number.toExponential(1);
  if (size >= 1000) return Math.round(number).toLocaleString('en');
  return String(Number(number.toPrecision(3)));
}

function logScale(low, high, from, to) {
  const a = Math.log10(low), b = Math.log10(high);
  return (value) => from + (to - from) * (Math.log10(value) - a) / ((b - a) || 1);
}

function linearScale(low, high, from, to) {
  return (value) => from + (to - from) * (value - low) / ((high - low) || 1);
}

function logTicks(low, high) {
  const found = [];
  const steps = Math.log10(high / low) > 3 ? [1] : Math.log10(high / low) > 1.2 ? [1, 3] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

function niceTicks(low, high, wanted = 6) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

// Numbers below a chart that ends at `bottom`, with lines up to `top` if that is given.
function addTicks(svg, ticks, x, bottom, top = null, anchor = () => 'middle') {
  for (const tick of ticks) {
    if (top !== null) {
      svg.append(part('line', { x1: x(tick), x2: x(tick), y1: top, y2: bottom, class: 'grid' }));
    }
    svg.append(part('text', { x: x(tick), y: bottom + 17, 'text-anchor': anchor(tick), class: 'soft' },
      short(tick)));
  }
}

// An interval with a dot at its estimate, in pixels.
function addInterval(svg, y, [value, from, to], { line = 'held', dot = 'held-dot', r = 4.5 } = {}) {
  svg.append(part('line', { x1: from, x2: to, y1: y, y2: y, class: line }),
    part('circle', { cx: value, cy: y, r, class: dot }));
}

function addName(svg, left, y, name) {
  svg.append(part('text', { x: left - 10, y, 'text-anchor': 'end' }, clip(name, Math.floor(left / 7))));
}

// Labels beside points, each at the first place where it covers nothing.
function placeLabels(svg, points, taken, frame) {
  for (const point of points) {
    const width = 6.9 * point.text.length, height = 13;
    const places = [];
    for (const away of [9, 18, 30, 44, 60, 80, 105, 135, 170, 210]) {
      places.push([away, 4], [-away - width, 4], [-width / 2, -away], [-width / 2, away + 9],
        [away, -away / 2], [away, away / 2 + 9], [-away - width, -away / 2]);
    }
    const box = ([x, y]) => [point.x + x, point.y + y - height, point.x + x + width, point.y + y];
    const free = (one) => one[0] >= frame[0] && one[2] <= frame[2] && one[1] >= frame[1]
      && one[3] <= frame[3] && !taken.some((other) => one[0] < other[2] && other[0] < one[2]
      && one[1] < other[3] && other[1] < one[3]);
    const place = places.find((one) => free(box(one)));
    if (!place) continue;
    taken.push(box(place));
    if (Math.abs(place[1]) > 30) {
      svg.append(part('line', { x1: point.x, y1: point.y, class: 'leader', x2: point.x + place[0] + width / 2,
        y2: point.y + place[1] - (place[1] > 0 ? height : -3) }));
    }
    svg.append(part('text', { x: point.x + place[0], y: point.y + place[1], class: point.style },
      point.text));
  }
}

function marker(x, y, kind) {
  if (kind === 'pure') {
    return part('path', { d: `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z`, class: 'pure' });
  }
  if (kind === 'approximate') return part('circle', { cx: x, cy: y, r: 5, class: 'approximate' });
  return part('path', { d: `M${x - 5} ${y - 5}L${x + 5} ${y + 5}M${x - 5} ${y + 5}L${x + 5} ${y - 5}`,
    class: 'doubtful' });
}

export function drawFrontier(place, { ours, baselines, central, plan, unit }) {
  const all = [...ours, ...baselines.filter((one) => one.drawn)];
  const mine = plan ? [{ messages: plan.average, error: plan.rmse_before },
    { messages: plan.messages, error: plan.rmse }] : [];
  if (!all.length && !mine.length) { place.replaceChildren(); return; }
  const W = widthOf(place), H = 430, left = 62, right = W - 16, top = 14, bottom = 384;
  const xs = [...all, ...mine].map((one) => one.messages);
  const ys = [...all, ...mine].map((one) => one.error).concat(central ? [central] : []);
  const x = logScale(Math.min(...xs) / 1.6, Math.max(...xs) * 1.6, left, right);
  const y = logScale(Math.min(...ys) / 1.5, Math.max(...ys) * 1.5, bottom, top);
  const svg = canvas(W, H, `Error against messages per device for ${all.length} plans and protocols`);
  addTicks(svg, logTicks(Math.min(...xs) / 1.6, Math.max(...xs) * 1.6), x, bottom, top);
  for (const tick of logTicks(Math.min(...ys) / 1.5, Math.max(...ys) * 1.5)) {
    svg.append(part('line', { x1: left, x2: right, y1: y(tick), y2: y(tick), class: 'grid' }),
      part('text', { x: left - 7, y: y(tick) + 4, 'text-anchor': 'end', class: 'soft' }, short(tick)));
  }
  svg.append(part('text', { x: (left + right) / 2, y: H - 10, 'text-anchor': 'middle' },
    'messages per device'),
  part('text', { transform: `translate(14 ${(top + bottom) / 2}) rotate(-90)`, 'text-anchor': 'middle' },
    `typical error (RMSE${unit ? `, ${unit}` : ''})`));
  const taken = [], labels = [];
  if (central) {
    svg.append(part('line', { x1: left, x2: right, y1: y(central), y2: y(central), class: 'central' }),
      part('text', { x: right - 4, y: y(central) + 15, 'text-anchor': 'end', class: 'soft' },
        'one party trusted with all values'));
    taken.push([left, y(central) - 2, right, y(central) + 2], [right - 215, y(central), right, y(central) + 18]);
  }
  const curve = [...ours].sort((one, other) => one.messages - other.messages || other.error - one.error);
  if (curve.length) {
    const path = curve.map((one, at) => `${at ? 'L' : 'M'}${x(one.messages)} ${y(one.error)}`).join('');
    svg.append(part('path', { d: path, class: 'ours' }));
    curve.forEach((one, at) => {
      const cx = x(one.messages), cy = y(one.error);
      const dot = part('circle', { cx, cy, r: 3.5, class: 'ours-dot' });
      dot.append(part('title', {}, `${one.title}: ${short(one.messages)} messages, error ${short(one.error)}`));
      svg.append(dot);
      const next = curve[at + 1];
      for (let step = 0; next && step <= 8; step += 1) {
        const px = cx + (x(next.messages) - cx) * step / 8, py = cy + (y(next.error) - cy) * step / 8;
        taken.push([px - 5, py - 5, px + 5, py + 5]);
      }
    });
    const end = curve[0];
    labels.push({ x: x(end.messages), y: y(end.error), text: 'shuffledp (pure)', style: 'soft' });
  }
  for (const one of baselines.filter((baseline) => baseline.drawn)) {
    const cx = x(one.messages), cy = y(one.error), mark = marker(cx, cy, one.kind);
    mark.append(part('title', {}, `${one.title} (${one.privacy}): ${short(one.messages)} messages, error ${short(one.error)}`));
    svg.append(mark);
    taken.push([cx - 8, cy - 8, cx + 8, cy + 8]);
    labels.push({ x: cx, y: cy, text: one.title, style: ['pure', 'approximate'].includes(one.kind) ? one.kind : 'doubtful' });
  }
  if (plan) {
    const cx = x(plan.messages), cy = y(plan.rmse), bx = x(plan.average), by = y(plan.rmse_before);
    svg.append(part('line', { x1: cx, y1: cy, x2: bx, y2: by, class: 'mine-before' }),
      part('circle', { cx: bx, cy: by, r: 3, class: 'mine-before' }), part('circle', { cx, cy, r: 7, class: 'mine' }));
    taken.push([cx - 10, cy - 10, cx + 10, cy + 10], [bx - 5, by - 5, bx + 5, by + 5]);
    labels.unshift({ x: cx, y: cy, text: 'your plan', style: 'mine' });
  }
  placeLabels(svg, labels, taken, [left, top, right, bottom]);
  place.replaceChildren(svg);
}

// One line per run or per batch: an interval with a dot, red where it misses the truth.
// `scale`: the smallest and the largest possible number, or as the numbers need it.
export function drawIntervals(place, rows, { truth = null, label, names = null, scale = [] }) {
  const shown = rows.slice(-120);
  const each = names ? 26 : Math.max(3.2, Math.min(12, 420 / shown.length));
  const W = widthOf(place), left = names ? Math.min(190, W / 3) : 20, right = W - 20, top = 8;
  const H = top + each * shown.length + 40;
  const numbers = shown.flat().concat(truth === null ? [] : [truth], scale);
  const low = Math.min(...numbers), high = Math.max(...numbers), pad = (high - low || 1) * 0.04;
  const x = linearScale(low - pad, high + pad, left, right);
  const svg = canvas(W, H, label);
  addTicks(svg, niceTicks(low - pad, high + pad), x, H - 32, top);
  if (truth !== null) {
    svg.append(part('line', { x1: x(truth), x2: x(truth), y1: top - 4, y2: H - 32, class: 'truth' }));
  }
  shown.forEach(([value, from, to], at) => {
    const y = top + each * (at + 0.5);
    const missed = truth !== null && (truth < from || truth > to);
    const style = names ? 'span' : missed ? 'missed' : 'held';
    addInterval(svg, y, [x(value), x(from), x(to)],
      { line: style, dot: missed ? 'missed-dot' : 'held-dot', r: names ? 5 : Math.min(3, each / 2) });
    if (names) addName(svg, left, y + 4, names[at]);
  });
  place.replaceChildren(svg);
}

// Numbers with their errors on a fixed scale, from the smallest to the largest possible answer.
export function drawResult(place, { rows, scale: [low, high] }, label) {
  const W = widthOf(place), each = 32, named = rows.length > 1;
  const left = named ? Math.min(190, W / 3) : 12, right = W - 16, H = each * rows.length + 34;
  const x = linearScale(low, high, left, right), svg = canvas(W, H, label);
  addTicks(svg, niceTicks(low, high, W < 420 ? 3 : 6), x, H - 28, 0,
    (tick) => ({ [low]: 'start', [high]: 'end' })[tick] ?? 'middle');
  rows.forEach(([name, value, from, to], at) => {
    const y = each * at + 6, inside = (one) => x(Math.max(low, Math.min(high, one)));
    svg.append(part('rect', { x: left, y, width: Math.max(0, inside(value) - left), height: 20, class: 'bar' }));
    addInterval(svg, y + 10, [inside(value), inside(from), Math.max(inside(to), inside(from) + 2)]);
    if (named) addName(svg, left, y + 15, name);
  });
  place.replaceChildren(svg);
}

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Each answer's truth as a bar, its estimate as a dot on its interval.
export function drawAnswers(place, names, truth, run, label) {
  const W = widthOf(place), each = 30, left = Math.min(150, W / 3), right = W - 20, H = each * names.length + 40;
  const found = run.filter((one) => one[0] !== null);
  const most = Math.max(...truth, ...found.map((one) => one[2]), 1), least = Math.min(0, ...found.map((one) => one[1]));
  const x = linearScale(least, most * 1.03, left, right);
  const svg = canvas(W, H, label);
  addTicks(svg, niceTicks(least, most), x, H - 32, 0);
  names.forEach((name, at) => {
    const y = each * at + 6, [value, from, to] = run[at];
    svg.append(part('rect', { x: Math.min(x(0), x(truth[at])), y, width: Math.abs(x(truth[at]) - x(0)), height: 18, class: 'bar' }));
    addName(svg, left, y + 14, name);
    const line = truth[at] < from || truth[at] > to ? 'missed' : 'held';
    if (value !== null) addInterval(svg, y + 9, [x(value), x(from), x(to)], { line });
  });
  place.replaceChildren(svg);
}

export function drawBars(place, { edges, measured, expected }) {
  const W = widthOf(place), H = 240, left = 20, right = W - 20, top = 8, bottom = 205;
  const x = linearScale(edges[0], edges.at(-1), left, right);
  const y = linearScale(0, Math.max(...measured, ...expected) * 1.05, bottom, top);
  const svg = canvas(W, H, 'How often each error occurred, and its exact distribution');
  let path = '';
  measured.forEach((share, at) => {
    const a = x(edges[at]), b = x(edges[at + 1]);
    svg.append(part('rect', { x: a + 0.5, y: y(share), width: Math.max(1, b - a - 1), height: bottom - y(share), class: 'bar' }));
    path += `${at ? 'L' : 'M'}${a} ${y(expected[at])}L${b} ${y(expected[at])}`;
  });
  svg.append(part('path', { d: path, class: 'law' }),
    part('line', { x1: left, x2: right, y1: bottom, y2: bottom, class: 'axis' }));
  addTicks(svg, niceTicks(edges[0], edges.at(-1)), x, bottom);
  svg.append(part('text', { x: (left + right) / 2, y: H - 2, 'text-anchor': 'middle' }, 'estimate − truth'));
  place.replaceChildren(svg);
}
