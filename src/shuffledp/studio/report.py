"""A page for a board, with an annex: what is asked, what is promised, by whom, and how to check it.
It holds no personal data and nothing of a rehearsal."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import show
from shuffledp.plans.plan import Plan
from shuffledp.plots.results import published_png
from shuffledp.service.http.templates import templates
from shuffledp.studio.collecting import Purpose, when
from shuffledp.studio.examples import answer_lines
from shuffledp.studio.fields import Form
from shuffledp.studio.questions import question_of
from shuffledp.studio.words import (
    accuracy_sentence,
    cautions,
    certificate_rows,
    cost_sentence,
    fake_clients_sentences,
    plan_facts,
    plan_sentences,
    strictness_sentence,
    suspicion_sentence,
    trust_rows,
)
from shuffledp.tasks.results import UNBIASED_NOTE
from shuffledp.version import __version__

TRIAL = "Trial with simulated people; no real data"
_PAGES = templates("shuffledp.studio")


def report_page(
    asked: Mapping[str, Any],
    plan: str,
    results: Sequence[Mapping[str, Any]] = (),
    *,
    trial: bool = False,
) -> str:
    """The page as HTML that needs nothing else: it can be mailed and printed. `asked` is what was
    typed on the studio's page; `plan` is the text of a plan file."""
    try:
        made: Plan[Any] = Plan.from_dict(json.loads(plan))
    except (KeyError, TypeError, ValueError):
        raise ParameterError("There is no plan yet; make one in the first step.") from None
    form: Form = asked["form"]
    purpose, words = Purpose.of(asked.get("purpose")), question_of(form).words
    certificate = made.certificate.to_dict()
    return _PAGES.get_template("report.html").render(
        title=purpose.title,
        trial=TRIAL if trial else "",
        planned=form.get("users"),
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        plan=made,
        asks=words.asks.capitalize(),
        accuracy=accuracy_sentence(form, made),
        suspicion=suspicion_sentence(made.epsilon, words.secret),
        strictness=strictness_sentence(made.epsilon),
        purpose=purpose,
        operators=purpose.operators,
        cost=cost_sentence(made),
        promises=plan_sentences(form, made),
        cautions=cautions(form, made),
        trust=trust_rows(bool(asked.get("publish_noise"))),
        fake_clients=fake_clients_sentences(made),
        facts=plan_facts(made),
        neighbours=certificate["neighbours"],
        digest=hashlib.sha256(plan.encode()).hexdigest(),
        inequalities=certificate_rows(certificate),
        results=results,
        **(_published(form, results, trial) if results else {}),
    )


def _published(form: Form, results: Sequence[Mapping[str, Any]], trial: bool) -> dict[str, Any]:
    """The published results as lines and as a chart, and what they cost together."""
    spent = sum((Fraction(one["result"]["epsilon_exact"]) for one in results), start=Fraction(0))
    return {
        "spent": show(spent),
        "unbiased_note": UNBIASED_NOTE,
        "confidence": results[-1]["result"]["confidence"],
        "lines": [(when(one), line) for one in results for line in answer_lines(form, one)],
        "chart": base64.b64encode(published_png(results, TRIAL if trial else "")).decode(),
    }
