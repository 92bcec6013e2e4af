"""One page for a data-protection officer: what is asked, what is promised, by whom, and how to
check it. It holds no personal data and nothing of a rehearsal."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from html import escape
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, percent, show
from shuffledp.plans.plan import Plan
from shuffledp.plots.published import published_png
from shuffledp.studio.cautions import cautions
from shuffledp.studio.fields import Form
from shuffledp.studio.purpose import Purpose
from shuffledp.studio.questions import QUESTIONS, confidence_of
from shuffledp.studio.words import (
    Rows,
    accuracy_sentence,
    certificate_rows,
    cost_sentence,
    epsilon_sentence,
    plan_facts,
    trust_rows,
)
from shuffledp.tasks.results import NEGATIVE_NOTE, result_lines
from shuffledp.version import __version__

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2433; max-width: 52rem; margin: 2rem auto;
  padding: 0 1rem; } h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } td, th { text-align: left;
  padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
th { font-weight: 600; } code { font-size: .9em; } img { max-width: 100%; }
.lead { font-size: 1.05rem; } .banner { background: #fdf0d0; border: 2px solid #b07a00;
  padding: .6rem .9rem; } @media print { body { margin: 0; } }
"""
TRIAL = "Trial with simulated people; no real data"
NOT_PROMISED = (
    "It holds only if at least the planned number of people take part and are honest: their "
    "devices follow the protocol, and they do not tell others what they sent. Reports that one "
    "party made up or knows hide nobody.",
    "It does not hide that somebody takes part: the shuffler sees who sends a report.",
    "It protects one answer of a person to one question. Several questions to the same people add "
    "up: the ε of all of them together is what counts.",
    "It does not keep a device from lying about its own value, within what a value can be.",
    "Shuffler and analyzer acting together can read every value.",
)


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a report is about, before anything is collected."""

    plan: Plan[Any]
    digest: str
    """The SHA-256 of the plan's file."""
    form: Form
    purpose: Purpose
    publish_noise: bool

    @classmethod
    def of(cls, asked: Mapping[str, Any], plan: str) -> Written:
        """What the page asks a report about: the text of a plan file and what was typed."""
        try:
            made = Plan.from_dict(json.loads(plan))
        except (KeyError, TypeError, ValueError):
            raise ParameterError("There is no plan yet; make one in the first step.") from None
        return cls(
            plan=made,
            digest=hashlib.sha256(plan.encode()).hexdigest(),
            form=asked["form"],
            purpose=Purpose.of(asked.get("purpose")),
            publish_noise=bool(asked.get("publish_noise")),
        )


def report_page(
    written: Written, results: Sequence[Mapping[str, Any]] = (), *, trial: bool = False
) -> str:
    """The page as HTML that needs nothing else: it can be mailed and printed."""
    plan, title = written.plan, escape(written.purpose.title)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        f"<h1>{title}</h1>",
        _trial_banner(written) if trial else "",
        f"<p>Privacy report, made {when} with shuffledp {__version__}.</p>",
        f"<h2>What is asked</h2><p>{escape(QUESTIONS[plan.protocol.query].asks.capitalize())}, "
        f"from at least {plan.users:,} honest people. Values are randomized on each person's "
        "device before anything is sent.</p>" + _table(written.purpose.rows()),
        "<h2>What is promised</h2>" + _promised(written),
        "<h2>Who sees what</h2>" + _table(trust_rows(written.publish_noise)),
        "<h2>What is not promised</h2><ul>"
        + "".join(f"<li>{escape(one)}</li>" for one in NOT_PROMISED)
        + "</ul>",
        "<h2>The numbers</h2>" + _table(plan_facts(plan)),
        _certificate(written),
        _results(results, trial) if results else "",
    ]
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title>"
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _trial_banner(written: Written) -> str:
    """Says that nothing here is real, and for how many people the plan in earnest is."""
    planned = written.form.get("users")
    return (
        f"<p class=banner><strong>{TRIAL}.</strong> All values were made up, on one machine. The "
        f"plan below is the trial's own, for {counted(written.plan.users, 'person', 'people')}; "
        f"the collection itself is planned for {escape(str(planned))}.</p>"
    )


def _promised(written: Written) -> str:
    """The promise in sentences, and what makes it hard to defend."""
    plan = written.plan
    lead = [
        accuracy_sentence(plan, confidence_of(written.form)),
        cost_sentence(plan),
        epsilon_sentence(plan.epsilon, plan.padding),
    ]
    warned = [f"<p class=banner>{escape(one)}</p>" for one in cautions(written.form, plan)]
    return "".join([*(f"<p class=lead>{escape(one)}</p>" for one in lead), *warned])


def _table(rows: Rows) -> str:
    lines = (f"<tr><th>{escape(name)}<td>{escape(text)}" for name, text in rows)
    return f"<table>{''.join(lines)}</table>"


def _certificate(written: Written) -> str:
    """Every inequality of the proof, and how a stranger checks it."""
    certificate = written.plan.certificate.to_dict()
    rows = "".join(
        f"<tr><td>{escape(row['where'])}<td>{escape(row['says'])}<td>{escape(row['left'])}"
        f"<td>≤ {escape(row['right'])}"
        for row in certificate_rows(certificate)
    )
    return (
        "<h2>The proof</h2><p>The promise rests on these inequalities, decided for the very "
        f"numbers in use in exact arithmetic; neighbours: {escape(certificate['neighbours'])}. "
        "To check it, take any machine with Python 3.11 or newer, open its terminal, and run "
        "<code>pip install shuffledp</code>. Then, with the plan's file, <code>shuffledp verify "
        "plan.json</code> proves everything again from the parameters alone, and <code>python -m "
        "shuffledp_check plan.json</code> does so with a second program that shares no code with "
        "the first.</p><p>This report is about the plan file with the SHA-256 "
        f"<code>{written.digest}</code>.</p>"
        "<table><tr><th>Where<th>Inequality<th>Left side<th>Right side" + rows + "</table>"
    )


def _results(results: Sequence[Mapping[str, Any]], trial: bool) -> str:
    """The published results as a table and a picture, and what they cost together."""
    rows = "".join(
        f"<tr><td>{one['number']}<td>{escape(line.label)}<td>{line.estimate:,.1f}"
        f"<td>{line.low:,.1f} … {line.high:,.1f}"
        for one in results
        for line in result_lines(one["result"])
    )
    sure = percent(results[-1]["result"]["confidence"])
    spent = sum((Fraction(one["result"]["epsilon_exact"]) for one in results), start=Fraction(0))
    picture = base64.b64encode(published_png(results, TRIAL if trial else "")).decode()
    many = counted(len(results), "batch", "batches")
    return (
        f"<h2>Published so far</h2><p>{f'{TRIAL}. ' if trial else ''}{many}, ε = {show(spent)} in "
        "all if the same people took part in every batch; ε of one batch for a person who took "
        f"part in one. {NEGATIVE_NOTE}</p>"
        f"<table><tr><th>Batch<th>What<th>Estimate<th>{sure} interval{rows}</table>"
        f'<img alt="The same numbers as a picture" src="data:image/png;base64,{picture}">'
    )
