"""One page for a data-protection officer: what is asked, what is promised, by whom, and how to
check it. It holds no personal data and nothing of a rehearsal."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from html import escape
from typing import Any

from shuffledp.exact.numbers import percent, show
from shuffledp.planning.plan import Plan
from shuffledp.plots.published import published_png
from shuffledp.sealed.results import result_lines
from shuffledp.studio.questions import QUESTIONS
from shuffledp.studio.words import (
    Rows,
    accuracy_sentence,
    certificate_rows,
    cost_sentence,
    epsilon_sentence,
    plan_facts,
    trust_rows,
)
from shuffledp.version import __version__

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2433; max-width: 52rem; margin: 2rem auto;
  padding: 0 1rem; } h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } td, th { text-align: left;
  padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
th { font-weight: 600; } code { font-size: .9em; } img { max-width: 100%; }
.lead { font-size: 1.05rem; } @media print { body { margin: 0; } }
"""
NOT_PROMISED = (
    "It does not hide that somebody takes part: the shuffler sees who sends a report.",
    "It protects one answer of a person to one question. Several questions to the same people add "
    "up: the ε of all of them together is what counts.",
    "It does not keep a device from lying about its own value, within what a value can be.",
    "Shuffler and analyzer acting together can read every value.",
)


def report_page(
    plan: Plan[Any],
    title: str,
    confidence: Fraction,
    publish_noise: bool,
    results: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page as HTML that needs nothing else: it can be mailed and printed."""
    question = QUESTIONS[plan.protocol.query]
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    shown = escape(title.strip() or "Collection without a name")
    lead = [
        accuracy_sentence(plan, confidence),
        cost_sentence(plan),
        epsilon_sentence(plan.epsilon, plan.padding),
    ]
    parts = [
        f"<h1>{shown}</h1><p>Privacy report, made {when} with shuffledp {__version__}.</p>",
        f"<h2>What is asked</h2><p>{escape(question.asks.capitalize())}, from at least "
        f"{plan.users:,} people. Values are randomized on each person's device before anything "
        "is sent.</p>",
        "<h2>What is promised</h2>" + "".join(f"<p class=lead>{escape(one)}</p>" for one in lead),
        "<h2>Who sees what</h2>" + _table(trust_rows(publish_noise)),
        "<h2>What is not promised</h2><ul>"
        + "".join(f"<li>{escape(one)}</li>" for one in NOT_PROMISED)
        + "</ul>",
        "<h2>The numbers</h2>" + _table(plan_facts(plan)),
        _certificate(plan),
        _results(results) if results else "",
    ]
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{shown}</title>"
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _table(rows: Rows) -> str:
    lines = (f"<tr><th>{escape(name)}<td>{escape(text)}" for name, text in rows)
    return f"<table>{''.join(lines)}</table>"


def _certificate(plan: Plan[Any]) -> str:
    """Every inequality of the proof, and how a stranger checks it."""
    certificate = plan.certificate.to_dict()
    rows = "".join(
        f"<tr><td>{escape(row['where'])}<td>{escape(row['says'])}<td>{escape(row['left'])}"
        f"<td>≤ {escape(row['right'])}"
        for row in certificate_rows(certificate)
    )
    return (
        "<h2>The proof</h2><p>The promise rests on these inequalities, decided for the very "
        f"numbers in use in exact arithmetic; neighbours: {escape(certificate['neighbours'])}. "
        "To check it, save the plan from the studio and run <code>shuffledp verify plan.json"
        "</code>: everything is proved again from the parameters alone. A second program that "
        "shares no code with the first comes with the package.</p>"
        "<table><tr><th>Where<th>Inequality<th>Left side<th>Right side" + rows + "</table>"
    )


def _results(results: Sequence[Mapping[str, Any]]) -> str:
    """The published results as a table and a picture, and what they cost together."""
    rows = "".join(
        f"<tr><td>{one['number']}<td>{escape(line.label)}<td>{line.estimate:,.1f}"
        f"<td>{line.low:,.1f} … {line.high:,.1f}"
        for one in results
        for line in result_lines(one["result"])
    )
    sure = percent(results[-1]["result"]["confidence"])
    spent = sum((Fraction(one["result"]["epsilon_exact"]) for one in results), start=Fraction(0))
    picture = base64.b64encode(published_png(results)).decode()
    return (
        f"<h2>Published so far</h2><p>{len(results)} batches, ε = {show(spent)} in all if the "
        "same people took part in every batch; ε of one batch for a person who took part in one."
        f"</p><table><tr><th>Batch<th>What<th>Estimate<th>{sure} interval{rows}</table>"
        f'<img alt="The same numbers as a picture" src="data:image/png;base64,{picture}">'
    )
