"""A plan in sentences and rows for people who do not read code: for the page and the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from shuffledp.cells.report_size import EXACT, promise
from shuffledp.numbers.exact import counted, show
from shuffledp.plans.plan import Plan
from shuffledp.protocols.fake_clients import most_unmarked, weight
from shuffledp.studio.fields import Form
from shuffledp.studio.questions import (
    confidence_of,
    groups_of,
    question_of,
    reach_of,
    wanted_error,
)
from shuffledp.tasks.rules import IMPLAUSIBLE_DEVIATIONS

Rows = list[tuple[str, str]]
MORE_PEOPLE = 10
"""The error is also forecast for this many times the planned number of people."""
SHARES = ("count", "histogram")
"""Queries about shares of people, whose cells count the values 0 and 1."""
LARGE_EPSILON = 4
"""Above this the guarantee says little about one person (docs/how-to/choose-epsilon.md)."""
HONEST_SHARE = 0.3
"""The share that fake clients move in the example."""


def short(number: float) -> str:
    """A number with three digits, or with thousands separated where it is large."""
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def size(amount: float) -> str:
    """An amount of bytes in a readable unit."""
    for unit, bytes_each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= bytes_each:
            return f"{short(amount / bytes_each)} {unit}"
    return f"{amount:.0f} bytes"


def accuracy_sentence(form: Form, plan: Plan[Any]) -> str:
    """What the plan forecasts about its error: for the planned number of people, and for more."""
    question = question_of(form).words
    about = question.about + (" in each group" if groups_of(form) else "")
    rounded = ", rounded to whole numbers," if question.whole else ""
    more = MORE_PEOPLE * plan.users
    then = f"±{short(reach_of(form, plan, more))} for {more:,}."
    why = (
        f"Every device adds noise, so the error grows with the number of people: {then}"
        if question.of_one == "sum"
        else f"With more people it becomes smaller: {then}"
    )
    return (
        f"If about {plan.users:,} people take part, {about}{rounded} is within "
        f"±{short(reach_of(form, plan))} of the truth, "
        f"{show(100 * confidence_of(form))} times in 100, {question.condition}. {why}"
    )


def found_sentences(plan: Plan[Any]) -> list[str]:
    """From how many people on words are found, if the plan looks for words."""
    found = plan.protocol.further_forecast(plan.expected).get("found_from")
    if not found:
        return []
    known = [f"{size} letters: {least:,}" for size, least in found.items() if least is not None]
    return [
        "A word is found, with a probability of 95 %, if at least this many people give it: "
        f"{', '.join(known)}. Rarer words may be missing from the result."
    ]


def people_sentence(plan: Plan[Any]) -> str:
    """For how many people the privacy guarantee holds, in one sentence."""
    return f"Everybody's answer is protected if at least {plan.users:,} honest people take part."


def fake_clients_sentences(plan: Plan[Any]) -> list[str]:
    """What devices that break the protocol can do to the result, computed from the plan."""
    protocol, each = plan.protocol, plan.report_size
    alone = short(weight(protocol, each))
    found = [
        f"Nothing stops a device that breaks the protocol: a report holds {each:,} messages, "
        f"and a device that sends all of them to one counter counts as {alone} honest people."
    ]
    if protocol.query in SHARES and not any(one.cell.sends_minus for one in protocol.members):
        fake = max(plan.users // 100, 1)
        points = most_unmarked(
            protocol, fake, each, honest_share=HONEST_SHARE, most=IMPLAUSIBLE_DEVIATIONS
        )
        found.append(
            f"If {counted(fake, 'device')} of {plan.users:,} work together, they can raise a "
            f"share of {100 * HONEST_SHARE:g} % by {short(100 * points / plan.users)} percentage "
            "points before the result is marked as implausible. Limit how many devices one party "
            "can enrol."
        )
    return found


def cost_sentence(plan: Plan[Any]) -> str:
    """What a device sends, in one sentence."""
    return (
        f"Every device sends one report of {counted(plan.report_size, 'encrypted message')} "
        f"({size(plan.encrypted_bytes)}), whatever its value."
    )


def epsilon_sentence(epsilon: Fraction, padding: str) -> str:
    """What ε means for one person, in words."""
    but = "" if padding == EXACT else ", but for a probability of 2⁻⁶⁴ in each batch"
    odds = math.exp(float(epsilon))
    return (
        f"ε = {show(epsilon)}: changing one person's answer changes the probability of anything "
        "that is published, or that the analyzer sees, by a factor of at most "
        f"{short(odds)}{but}."
    )


def plan_sentences(form: Form, plan: Plan[Any]) -> list[str]:
    """What a plan promises: accuracy, people, cost, ε."""
    return [
        accuracy_sentence(form, plan),
        *found_sentences(plan),
        people_sentence(plan),
        cost_sentence(plan),
        epsilon_sentence(plan.epsilon, plan.padding),
    ]


def suspicion_sentence(epsilon: Fraction, secret: str, prior: float = 0.01) -> str:
    """What ε means for somebody's suspicion about one person."""
    return (
        f"Someone who sees a {percentage(prior)} chance that {secret} is at most "
        f"{percentage(suspicion(float(epsilon), prior))} sure after seeing everything that the "
        "analyzer sees or publishes."
    )


def strictness_sentence(epsilon: Fraction) -> str:
    """How strict ε is, in a sentence."""
    number = show(epsilon)
    if epsilon <= 1:
        how = f"Strict: ε = {number} is within 1, which is usual for one sensitive release"
    elif epsilon <= 4:
        how = f"Moderate: ε = {number} is above 1, which is usual for one sensitive release"
    else:
        how = f"Weak: above 4, and this is ε = {number}, the guarantee says little about one person"
    return f"{how}."


def suspicion(epsilon: float, prior: float) -> float:
    """The largest probability that a suspicion can have afterwards."""
    return 1 / (1 + math.exp(-epsilon) * (1 - prior) / prior)


def percentage(share: float) -> str:
    """A probability in per cent, never rounded to 100 %."""
    if share > 0.9999:
        return "more than 99.99 %"
    digits = 2 if share > 0.995 else 1 if share < 0.1 or share > 0.95 else 0
    return (
        f"{100 * share:.{digits}f}".rstrip("0").rstrip(".") + " %"
        if digits
        else (f"{100 * share:.0f} %")
    )


def cautions(form: Form, plan: Plan[Any]) -> list[str]:
    """A sentence or two for each weakness that makes a plan hard to defend."""
    found = []
    if plan.epsilon > LARGE_EPSILON:
        found.append(
            f"ε = {show(plan.epsilon)} is large: above {LARGE_EPSILON} the guarantee protects a "
            "single person little. Write down why it is needed, or ask for less accuracy."
        )
    error, most = reach_of(form, plan), question_of(form).span(form)
    if form["find"] != "error":
        error = max(error, float(wanted_error(form)))
    if 2 * error >= most:
        found.append(
            f"An error of {short(error)} is at least half of the largest possible answer "
            f"({short(most)}): a guess without any data would be as good. Ask more people, "
            "or ask for a smaller error."
        )
    return found


def trust_rows(publish_noise: bool) -> Rows:
    """Who sees what, and whom you trust with what."""
    invented = (
        "; a shuffler that forges all other reports learns no more than ε allows from what is "
        "published, because the analyzer adds a full set of noise"
        if publish_noise
        else "; a shuffler that forges all other reports could read the last one off the result"
    )
    return [
        ("A person's device", "sees its own value and sends nothing but noisy, encrypted messages"),
        ("Shuffler", "sees who takes part and equally long encrypted reports; it cannot read them"),
        ("Analyzer", "opens the shuffled messages; it does not learn whose they are"),
        (
            "The other people",
            "at least the planned number of them must be honest: reports that one party forged or "
            "knows protect nobody",
        ),
        (
            "Must not happen",
            "shuffler and analyzer act together: then they learn every value. Let two "
            f"organisations run them{invented}",
        ),
    ]


def plan_facts(plan: Plan[Any]) -> Rows:
    """The numbers behind the sentences."""
    f = plan.forecast
    return [
        (
            "People needed",
            f"{plan.users:,} honest people, whose devices follow the protocol and who do not "
            "reveal their own reports; a batch of fewer reports is never released",
        ),
        ("Privacy", f"ε = {show(plan.epsilon)}: {promise(plan.padding)}"),
        (
            "Messages per report",
            f"{plan.report_size:,} (on average {short(f.messages_per_user)} before padding)",
        ),
        ("Bytes per report", f"{plan.encrypted_bytes:,}, encrypted"),
        (
            "Typical error (RMSE)",
            f"{short(f.rmse)} for the worst data, if about {plan.users:,} people take part",
        ),
        (
            "Central mechanism",
            f"{short(f.central_rmse)}: what a party trusted with all values would have to add for "
            "the same ε",
        ),
    ]


def certificate_rows(certificate: Mapping[str, Any]) -> list[dict[str, str]]:
    """Every inequality of a certificate: where it belongs, what it says, both sides."""
    rows = [
        {
            "where": "whole protocol",
            "says": f"{certificate['rule']} ≤ ε",
            "left": _decimal(certificate["loss"]),
            "right": _decimal(certificate["epsilon"]),
        }
    ]
    for number, cell in enumerate(certificate["cells"], start=1):
        several = f" × {cell['copies']:,}" if cell["copies"] > 1 else ""
        name = f"{cell['kind']} cell {number}{several}"
        rows += _proof_rows(name, cell["proof"])
    return rows


def _proof_rows(name: str, proof: Mapping[str, Any]) -> list[dict[str, str]]:
    """The inequalities of one cell's proof (of both directions, where it has two), or its tightest
    margin."""
    if "margin" in proof:
        where = f"{name}, change {proof['inequality']} by {proof['shift']}"
        says = f"margin at m = {proof['at']}, the tightest place, is above 0"
        return [{"where": where, "says": says, "left": "0", "right": proof["margin"]}]
    if "inequalities" in proof:
        return [_inequality_row(name, one) for one in proof["inequalities"]]
    return [
        _inequality_row(f"{name}, {side}", one)
        for side in ("up", "down")
        for one in (proof[side]["loss"], *proof[side]["inequalities"])
    ]


def _inequality_row(where: str, one: Mapping[str, Any]) -> dict[str, str]:
    at = f" at I = {one['I']}, x = {one['x']}" if "I" in one else ""
    says, right = one["statement"] + at, _decimal(one["right"])
    return {"where": where, "says": says, "left": one["left"], "right": right}


def _decimal(text: str) -> str:
    return show(Fraction(text))
