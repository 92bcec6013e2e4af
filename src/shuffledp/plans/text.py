"""A plan in words, for terminals and notebooks: names and values, line by line."""

from __future__ import annotations

import html
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from shuffledp.cells.report_size import promise
from shuffledp.numbers.exact import counted, show
from shuffledp.plans.certificate import Certificate
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import NEIGHBOURS

Lines = list[tuple[str, str]]


def describe_plan(plan: Plan[Any]) -> Lines:
    """What a plan promises, costs and gives, as (name, text); a line without a name goes on with
    the one before."""
    f = plan.forecast
    bits = counted(f.bits_per_message, "bit")
    padded = "" if plan.target.padded else " (padded=True, --padded: plan for the fewest)"
    return [
        ("privacy", f"ε = {show(plan.epsilon)}, pure, in the shuffle model; certified"),
        ("", f"neighbours: {NEIGHBOURS}"),
        ("users", f"{plan.users:,} must take part; error forecast for {plan.expected:,}"),
        ("target", str(plan.target)),
        (
            "messages",
            f"{f.messages_per_user:,.2f} per user on average, {bits} each "
            f"(no protocol with this kind of cell needs fewer than {f.limit_messages:,.2f})",
        ),
        ("", _at_most(plan)),
        ("bytes", f"{f.bytes_per_user:,.1f} per user, not encrypted"),
        (
            "in the service",
            f"{plan.report_size:,} messages in every report, so that its size says nothing: "
            f"{plan.encrypted_bytes:,} bytes encrypted{padded}",
        ),
        ("", f"then {promise(plan.padding)}"),
        (
            "RMSE",
            f"{_at_count(plan)}{f.rmse:,.4g} at worst, {f.rmse_at_zero:,.4g} at zero "
            f"(central mechanism: {f.central_rmse:,.4g})",
        ),
        *([("", plan.protocol.assumption)] if plan.protocol.assumption else []),
        ("95 % of errors", f"{f.error_low:,.4g} … {f.error_high:,.4g}"),
        *plan.protocol.forecast_lines(plan.expected),
        *_printed_constants(plan.printed),
        *_warnings(plan),
        *_cells(plan),
    ]


def plan_in_words(plan: Plan[Any]) -> str:
    """`describe_plan` as lines of text."""
    lines = describe_plan(plan)
    width = max(len(name) for name, _ in lines)
    return "\n".join(
        [f"plan: {plan.protocol.query}", *(f"  {name:<{width}}  {text}" for name, text in lines)]
    )


def plan_as_html(plan: Plan[Any]) -> str:
    """`describe_plan` as an HTML table."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for name, text in describe_plan(plan)
    )
    return f"<table><caption>plan: {html.escape(plan.protocol.query)}</caption>{rows}</table>"


def _at_count(plan: Plan[Any]) -> str:
    """The error at the count that the target names; nothing where it names none."""
    count, error = plan.target.error_at, plan.forecast.rmse_at
    if count is None or error is None:
        return ""
    return f"{error:,.4g} at a bucket of {counted(int(count), 'user')}, "


def _at_most(plan: Plan[Any]) -> str:
    """How many messages a user sends at most."""
    most = plan.protocol.most_messages
    return f"at most {most:,}" if most is not None else "no upper limit; large numbers are rare"


def proof_lines(certificate: Certificate) -> list[str]:
    """For each cell, what its proof shows and by what margin."""
    return [cell.proof.summary() for cell in certificate.proofs]


def _printed_constants(printed: Mapping[str, Any] | None) -> Lines:
    """The same task with the constants that the paper prints."""
    if printed is None:
        return []
    if "refused" in printed:
        return [("paper's constants", printed["refused"])]
    text = f"{printed['messages_per_user']:,.0f} messages per user, RMSE {printed['rmse']:,.4g}"
    if not printed["keeps_its_error"]:
        text += ": more than the paper promises for its own constants (erratum 3)"
    return [("paper's constants", text)]


def _warnings(plan: Plan[Any]) -> Lines:
    """A warning if the error is as large as the answer can be."""
    largest = plan.protocol.largest_answer(plan.expected)
    if largest is not None and plan.forecast.rmse > largest / 2:
        return [("warning", "the error exceeds half the range: the answer would say nothing")]
    return []


def _cells(plan: Plan[Any]) -> Lines:
    """Every cell's parameters, and what its proof shows."""
    lines: Lines = []
    for member, proof in zip(plan.protocol.members, proof_lines(plan.certificate), strict=True):
        copies = f" × {member.copies}" if member.copies > 1 else ""
        lines.append((f"{member.cell.kind} cell{copies}", _parameters(member.cell.to_dict())))
        lines.append(("", proof))
    return lines


def _parameters(values: Mapping[str, Any]) -> str:
    """A cell's parameters in few digits."""
    shown = {name: value for name, value in values.items() if name not in ("kind", "users")}
    flat = [f"{name} {_short(value)}" for name, value in shown.items() if not _nested(value)]
    nested = [f"{name}: {_parameters(value)}" for name, value in shown.items() if _nested(value)]
    return "; ".join([", ".join(flat), *nested])


def _nested(value: object) -> bool:
    return isinstance(value, Mapping)


def _short(value: object) -> str:
    """A parameter in few digits; exact text becomes a decimal."""
    if isinstance(value, Mapping):
        return f"({_parameters(value)})"
    if isinstance(value, list):
        first = ", ".join(_short(one) for one in value[:3])
        return f"{first}, … ({len(value)})" if len(value) > 3 else first
    try:
        return show(Fraction(value)) if isinstance(value, str) else str(value)
    except ValueError:
        return str(value)
