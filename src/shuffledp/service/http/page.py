"""The status page as HTML: tasks, waiting reports, batches, results with intervals drawn."""

from __future__ import annotations

from html import escape
from typing import Any

from shuffledp.numbers.exact import counted, percent
from shuffledp.tasks.results import result_lines

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #5b6577; --paper: #f5f3ee;
  --card: #fffdf8; --line: #ddd8cc; --accent: #0b6e63; --wait: #b7791f; --bad: #b3372f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9e6dd; --soft: #a3a99f; --paper: #14181b;
  --card: #1c2226; --line: #333b40; --accent: #55c2b2; --wait: #e0b04c; --bad: #f08078; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 2rem clamp(1rem, 5vw, 4rem); background: var(--paper);
  color: var(--ink); font: 16px/1.5 Georgia, "Iowan Old Style", serif; }
header { display: flex; align-items: baseline; gap: 1rem; flex-wrap: wrap; max-width: 60rem;
  margin: 0 auto 1.5rem; }
h1 { font-size: 1.7rem; margin: 0; } h1.role { text-transform: capitalize; }
header p { margin: 0; color: var(--soft); }
#age { margin-left: auto; font-size: .86rem; } #age::before { content: "● "; color: var(--accent); }
main { max-width: 60rem; margin: 0 auto; display: grid; gap: 1.25rem; }
article { min-width: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.1rem 1.4rem 1.3rem; }
h2 { font-size: 1.2rem; margin: 0; }
.facts { color: var(--soft); margin: .1rem 0 .9rem; font-size: .92rem; }
code { font: .85em ui-monospace, monospace; }
progress { width: 100%; height: .7rem; accent-color: var(--accent); }
.progress { display: flex; justify-content: space-between; font-variant-numeric: tabular-nums; }
.chips { list-style: none; padding: 0; margin: .8rem 0 0; display: flex; flex-wrap: wrap;
  gap: .4rem; }
.chips li { border: 1px solid var(--line); border-radius: 1rem; padding: .05rem .7rem;
  font-size: .86rem; }
.chips .deleted, .chips .published { border-color: var(--accent); color: var(--accent); }
.chips .problem { border-color: var(--bad); color: var(--bad); }
table { border-collapse: collapse; width: 100%; margin-top: .9rem; font-size: .94rem;
  font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: normal; color: var(--soft);
  border-bottom: 1px solid var(--line); }
td, th { padding: .3rem .8rem .3rem 0; }
td.number, th.number { text-align: right; }
svg { width: 100%; min-width: 8rem; height: 1.6rem; display: block; }
svg .span { stroke: var(--accent); stroke-width: 3; stroke-linecap: round; }
svg .dot { fill: var(--accent); } svg .axis { stroke: var(--line); stroke-width: 1; }
.odd { color: var(--bad); } .empty { color: var(--soft); }
a { color: var(--accent); } a:focus-visible, .wide:focus-visible, summary:focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px; }
caption { text-align: left; color: var(--soft); font-size: .86rem; } tbody th { color: inherit;
  border: 0; }
.wide { overflow-x: auto; } .wide td, .wide th { white-space: nowrap; }
svg.series { height: 15rem; margin-top: .6rem; overflow: visible; }
svg.series text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
@media (max-width: 500px) { svg.series .between { display: none; } }
svg.series .zero { stroke: var(--soft); } svg.series .join { stroke: var(--accent);
  stroke-width: 1; opacity: .45; }
svg.series .doubtful .span { stroke: var(--bad); }
svg.series .doubtful .dot { fill: var(--card); stroke: var(--bad); stroke-width: 2; }
summary { cursor: pointer; color: var(--soft); margin-top: .6rem; }
"""

SCRIPT = """
async function refresh() {
  try {
    const answer = await fetch('/', { cache: 'no-store' });
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
    document.querySelector('main').replaceWith(fresh.querySelector('main'));
    document.querySelector('#age').textContent = 'live';
  } catch (error) {
    document.querySelector('#age').textContent = 'no answer; trying again';
  }
}
document.querySelector('#age').textContent = 'live';
setInterval(refresh, 3000);
"""

MARKED_ANOMALY = 5.0
"""Standard deviations from which on a batch is marked."""
MOST_LINES = 50
MOST_BATCHES = 12


def render(status: dict[str, Any], about: str) -> str:
    """The status page of a role; `about` says in one line what the role does."""
    role = status["role"]
    cards = "".join(_card(task, role) for task in status["tasks"])
    empty = (
        '<p class="empty">No task is registered yet. The collector adds one with '
        "<code>shuffledp task register</code>.</p>"
    )
    return page_frame(role, about, cards or empty, script=True)


def page_frame(title: str, about: str, main: str, *, script: bool) -> str:
    """A page with this heading and content; with the script it follows what changes."""
    age, kind = ("<p id=age>as of loading</p>", " class=role") if script else ("", "")
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} · shuffledp</title><link rel=icon href="data:,">'
        "<link rel=stylesheet href=/page.css></head><body>"
        f"<header><h1{kind}>{escape(title)}</h1><p>{escape(about)}</p>{age}</header>"
        f"<main>{main}</main>{'<script src=/page.js></script>' if script else ''}</body></html>"
    )


def _card(task: dict[str, Any], role: str) -> str:
    """The part of the page about one task."""
    facts = (
        f"{escape(task['query'])} · ε = {escape(task['epsilon'])} · "
        f"{task['report_size']} messages per report · {escape(task['state'])} · "
        f"<code>{task['task'][:16]}…</code>"
    )
    parts = [f"<h2>{escape(task['name'])}</h2>", f'<p class="facts">{facts}</p>']
    if task.get("series"):
        parts.append(_series(task["series"], role))
    if "progress" in task:
        parts.append(_progress(task))
    if "issued" in task:
        whom = "attested enrolments" if task["attested"] else "enrolments"
        parts.append(f"<p>{counted(task['issued'], 'token')} issued to {whom}</p>")
        if task["stopped"]:
            parts.append(f"<p>No more tokens are given: {escape(task['stopped'])}.</p>")
    parts.append(_chips(task["batches"]))
    if task.get("results"):
        parts.append(_results(task["results"]))
    return f"<article>{''.join(parts)}</article>"


def _series(series: dict[str, Any], role: str) -> str:
    """Which task of its series this is; at the analyzer with the way to all results."""
    words = f"{series['place']:,} of {series['tasks']:,} of “{escape(series['name'])}”"
    if role == "analyzer":
        words = f'{words} · <a href="/series/{series["series"]}">all its results</a>'
    return f"<p>Number {words}</p>"


def _progress(task: dict[str, Any]) -> str:
    refused = sum(task["rejected"].values())
    reasons = ", ".join(f"{escape(reason)} {n:,}" for reason, n in task["rejected"].items())
    side = f"{refused:,} refused ({reasons})" if refused else ""
    return (
        f'<div class="progress"><strong>{task["progress"]}</strong><span>{side}</span></div>'
        f"<progress max={task['need']} value={min(task['have'], task['need'])}></progress>"
    )


def _chips(batches: list[dict[str, Any]]) -> str:
    chips = []
    for batch in batches[-MOST_BATCHES:]:
        problem, reason = batch.get("problem", ""), batch.get("reason", "")
        style = "problem" if problem or reason else escape(batch["state"])
        note = f" · {escape(problem.rstrip('.'))}. Trying again." if problem else ""
        note += f" · {escape(reason)}" if reason else ""
        words = f"batch {batch['number']}: {escape(batch['state'])}{note}"
        chips.append(f'<li class="{style}">{words}</li>')
    return f'<ul class="chips">{"".join(chips)}</ul>' if chips else ""


def _results(results: list[dict[str, Any]]) -> str:
    rows = [row for result in results for row in _lines(result)][-MOST_LINES:]
    low, high = min(row[2] for row in rows), max(row[3] for row in rows)
    drawn = "".join(
        f"<tr><td>{escape(name)}</td><td class=number>{value:,.2f}</td>"
        f"<td class=number>{left:,.1f} … {right:,.1f}</td>"
        f"<td>{interval_svg(value, left, right, low, high)}</td><td class=number>{odd}</td></tr>"
        for name, value, left, right, odd in rows
    )
    confidence = results[-1]["result"]["confidence"]
    return (
        f"<table><thead><tr><th>batch</th><th class=number>estimate</th>"
        f"<th class=number>{percent(confidence)} interval</th><th></th>"
        f"<th class=number>anomaly (σ)</th></tr></thead><tbody>{drawn}</tbody></table>"
    )


def _lines(result: dict[str, Any]) -> list[tuple[str, float, float, float, str]]:
    """(name, estimate, low, high, anomaly) of a published result: one line, or one per bucket."""
    z = result["anomaly"]
    odd = f'<span class="odd">{z:+.1f}</span>' if abs(z) > MARKED_ANOMALY else f"{z:+.1f}"
    found = result_lines(result["result"])
    names = [
        f"{result['number']}" if len(found) == 1 else f"{result['number']} · {line.label}"
        for line in found
    ]
    return [
        (name, line.estimate, line.low, line.high, odd)
        for name, line in zip(names, found, strict=True)
    ]


def interval_svg(value: float, left: float, right: float, low: float, high: float) -> str:
    """An estimate as a dot on its interval, on the scale low..high."""
    width = (high - low) or 1.0
    a, x, b = (3 + 94 * (number - low) / width for number in (left, value, right))
    return (
        f'<svg role="img" aria-label="{value:.2f}, interval {left:.1f} to {right:.1f}">'
        '<line class="axis" x1="0%" x2="100%" y1="50%" y2="50%"/>'
        f'<line class="span" x1="{a:.1f}%" x2="{b:.1f}%" y1="50%" y2="50%"/>'
        f'<circle class="dot" cx="{x:.1f}%" cy="50%" r="5"/></svg>'
    )
