"""The jobs of the studio's worker processes: each yields its answers one by one, as JSON data.

`python -m shuffledp.studio.jobs` is such a process: it reads a line of JSON for each job and writes
a line for each answer. It ends when nobody writes to it any more, or when it is ended because
nobody wants the answer any more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from shuffledp.engines.spark.rates import measure
from shuffledp.errors import PlanningError, ShuffleDPError
from shuffledp.numbers.exact import show
from shuffledp.plans.fleet import Rates, fleet
from shuffledp.plans.plan import Plan
from shuffledp.studio.examples import example
from shuffledp.studio.fields import Form
from shuffledp.studio.frontier import frontier
from shuffledp.studio.importing import import_file
from shuffledp.studio.questions import (
    epsilon_of,
    noise_shares,
    plan_of,
    pure_cell,
    question_of,
    reach_of,
    users_of,
)
from shuffledp.studio.rehearsing import rehearse
from shuffledp.studio.suggesting import nearest_plan, smaller_epsilon, suggestions
from shuffledp.studio.words import (
    cautions,
    certificate_rows,
    plan_facts,
    plan_sentences,
    short,
    size,
    trust_rows,
)
from shuffledp.tasks.task import checked_report_size
from shuffledp.tasks.wire import MOST_BATCH_REPORTS, report_bytes

Item = dict[str, Any]
Job = Callable[..., Iterator[Item]]


def plan_json(plan: Plan[Any]) -> str:
    """The plan as `shuffledp plan --output` writes it."""
    return json.dumps(plan.to_dict(), indent=2, ensure_ascii=False) + "\n"


def plan_job(form: Form, rates: dict[str, Any] | None = None) -> Iterator[Item]:
    """First a plan that is pure without exception; then, if the form allows a probability of 2⁻⁶⁴
    for reports that overflow, a cheaper one after a longer search; then what a fleet costs."""
    pure = bool(form.get("pure"))
    plan: Plan[Any] | None = None
    try:
        plan = plan_of(form, cell=pure_cell(form))
        yield {"plan": _shown(form, plan), "final": pure}
    except PlanningError as error:
        if pure:
            yield from _impossible(form, error)
            return
        yield {"note": "The first kind of noise cannot do this; trying the other one."}
    if not pure:
        try:
            plan = _cheaper(form, plan)
        except PlanningError as error:
            yield from _impossible(form, error)
            return
        yield {"plan": _shown(form, plan), "final": True}
    assert plan is not None
    yield from _fleet(plan, None if rates is None else Rates(**rates))
    smaller = smaller_epsilon(form)
    if smaller is not None:
        yield {"smaller": {"epsilon": show(smaller.epsilon), "messages": smaller.report_size}}


def _cheaper(form: Form, plan: Plan[Any] | None) -> Plan[Any]:
    """The better of a plan and the best plan with any kind of noise."""
    try:
        best = plan_of(form)
    except PlanningError:
        if plan is None:
            raise
        return plan
    return best if plan is None or _better(form, best, plan) else plan


def _better(form: Form, one: Plan[Any], other: Plan[Any]) -> bool:
    """Whether a plan is better at what the form looks for."""
    if form["find"] == "error":
        return one.forecast.rmse < other.forecast.rmse
    if form["find"] == "epsilon":
        return one.epsilon < other.epsilon
    return one.report_size < other.report_size


def _impossible(form: Form, error: PlanningError) -> Iterator[Item]:
    """Why there is no such plan, then each target that can be reached."""
    why = str(error)
    if form["find"] != "messages":
        why += " These targets can be reached:"
    else:
        why = (
            f"No plan with ε = {show(epsilon_of(form))} is as accurate as that for "
            f"{users_of(form):,} people. These targets can be reached:"
        )
    yield {"impossible": why}
    for one in suggestions(form):
        yield {"suggestion": one}


def _shown(form: Form, plan: Plan[Any]) -> Item:
    """A plan as the page shows it."""
    f = plan.forecast
    return {
        "json": plan_json(plan),
        "sentences": plan_sentences(form, plan),
        "cautions": cautions(form, plan),
        "facts": plan_facts(plan),
        "trust": trust_rows(bool(noise_shares(form, plan.users))),
        "certificate": certificate_rows(plan.certificate.to_dict()),
        "query": question_of(form).name,
        "epsilon": show(plan.epsilon),
        "error": reach_of(form, plan),
        "span": question_of(form).span(form),
        "example": example(form, plan),
        "messages": plan.report_size,
        "average": f.messages_per_user,
        "rmse": f.rmse,
        "rmse_before": plan.protocol.rmse(plan.users),
        "publish_noise": bool(noise_shares(form, plan.users)),
    }


def _fleet(plan: Plan[Any], rates: Rates | None) -> Iterator[Item]:
    """What all devices and both servers need, at the speed measured on this machine."""
    if plan.users > MOST_BATCH_REPORTS:
        yield {"fleet": [("Too large", f"a batch holds at most {MOST_BATCH_REPORTS:,} reports")]}
        return
    if rates is None:
        yield {"note": "Measuring how fast this machine encrypts and opens messages."}
        rates = measure(plan)
    k = checked_report_size(plan.protocol, plan.users)
    needs = fleet(plan, rates, k, report_bytes(k), plan.users)
    rows = [
        (
            "On a device",
            f"{short(1000 * needs.client_seconds)} ms to encrypt a report, "
            f"{size(needs.report_bytes)} to send",
        ),
        ("All devices", f"{size(needs.collected_bytes)} for the shuffler to take in"),
        *(
            (step.what.capitalize(), f"{_duration(step.core_seconds)} on one core")
            for step in needs.steps[:2]
        ),
    ]
    yield {"fleet": rows, "rates": vars(rates)}


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{short(seconds / length)} {unit}"
    return f"{short(seconds)} seconds"


def trial_job(form: Form) -> Iterator[Item]:
    """The plan of a trial, as JSON text, and its weaknesses."""
    plan, why = nearest_plan(form)
    yield {"json": plan_json(plan), "cautions": [*filter(None, [why]), *cautions(form, plan)]}


JOBS: dict[str, Job] = {
    "plan": plan_job,
    "frontier": frontier,
    "look": import_file,
    "rehearse": rehearse,
    "trial": trial_job,
}
"""Every job by its name."""


def answers(line: str) -> Iterator[dict[str, Any]]:
    """The answers to one job: its items, then that it is done, or why it was refused."""
    asked = json.loads(line)
    try:
        for item in JOBS[asked["job"]](**asked["given"]):
            yield {"item": item}
        yield {"end": "done"}
    except ShuffleDPError as error:
        yield {"end": "refused", "why": str(error)}
    except Exception as error:  # the process goes on, and the page says that something is wrong
        why = f"{type(error).__name__}: this is a bug in shuffledp; please report it."
        yield {"end": "refused", "why": why}


def main() -> None:
    """Does jobs until standard input ends."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        for answer in answers(line):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
