"""A plan in sentences and rows for people who do not read code: for the page and the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from shuffledp.cells.report_size import EXACT, promise
from shuffledp.numbers.exact import counted, show
from shuffledp.plans.plan import Plan
from shuffledp.plans.within import reach
from shuffledp.studio.questions import QUESTIONS

Rows = list[tuple[str, str]]


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


def published_reach(plan: Plan[Any], confidence: float) -> float:
    """The largest distance of the published answer from the truth; whole numbers are rounded."""
    found = reach(plan, confidence)
    return math.floor(found + 0.5) if QUESTIONS[plan.protocol.query].words.whole else found


def accuracy_sentence(plan: Plan[Any], confidence: Fraction) -> str:
    """What the plan promises about its error, in one sentence."""
    question = QUESTIONS[plan.protocol.query].words
    rounded = ", rounded to whole numbers," if question.whole else ""
    return (
        f"If at least {plan.users:,} honest people take part, {question.about}{rounded} is within "
        f"±{short(published_reach(plan, float(confidence)))} of the truth, "
        f"{show(100 * confidence)} times in 100, {question.condition}."
    )


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
    sure = 100 * odds / (1 + odds)
    return (
        f"ε = {show(epsilon)}: changing one person's answer changes the probability of anything "
        "that is published, or that the analyzer sees, by a factor of at most "
        f"{short(odds)}{but}. Someone who would have guessed 50:50 about you ends up at most "
        f"{sure:.3g} % sure."
    )


def trust_rows(publish_noise: bool) -> Rows:
    """Who sees what, and whom you trust with what."""
    invented = (
        "; a shuffler that forges all other reports still learns nothing from what is published, "
        "because the analyzer adds a full set of noise"
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
        ("Typical error (RMSE)", f"{short(f.rmse)} for the worst data"),
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
    """The inequalities of one cell's proof: those of both directions, or its tightest margin."""
    if "margin" in proof:
        where = f"{name}, change {proof['inequality']} by {proof['shift']}"
        says = f"margin at m = {proof['at']}, the tightest place, is above 0"
        return [{"where": where, "says": says, "left": "0", "right": proof["margin"]}]
    rows = []
    for side in ("up", "down"):
        part = proof[side]
        for one in (part["loss"], *part["inequalities"]):
            at = f" at I = {one['I']}, x = {one['x']}" if "I" in one else ""
            where = f"{name}, {side}"
            says = one["statement"] + at
            left, right = one["left"], _decimal(one["right"])
            rows.append({"where": where, "says": says, "left": left, "right": right})
    return rows


def _decimal(text: str) -> str:
    return show(Fraction(text))
