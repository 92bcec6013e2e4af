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
PROTECTED = {
    "replace one user's value": "any one user's value",
    "replace the values of all rows of one user": "all rows of any one user",
    "replace all rows of one user": "all rows of any one user",
}
"""How neighbouring relations begin, and what they protect."""


def describe_plan(plan: Plan[Any], *, verbose: bool = False) -> Lines:
    """A plan's error, privacy and cost, as (name, text); if `verbose`, also its parameters. A
    line without a name continues the one before."""
    f = plan.forecast
    lines = [
        *_errors(plan),
        *([("", plan.protocol.assumption)] if plan.protocol.assumption else []),
        ("privacy", f"ε = {show(plan.epsilon)}, pure, in the shuffle model; certified"),
        ("", protects(NEIGHBOURS)),
        ("users", _users(plan)),
        ("each sends", f"{f.messages_per_user:,.4g} messages on average, {_at_most(plan)}"),
        (
            "in the service",
            f"{plan.report_size:,} messages in every report, "
            f"{plan.encrypted_bytes:,} bytes encrypted",
        ),
        *plan.protocol.forecast_lines(plan.expected),
        *_warnings(plan),
    ]
    return [*lines, *_parameter_lines(plan)] if verbose else lines


def _users(plan: Plan[Any]) -> str:
    more = f"; error forecast for {plan.expected:,}" if plan.expected != plan.users else ""
    return f"{plan.users:,} must take part{more}"


def _parameter_lines(plan: Plan[Any]) -> Lines:
    """The plan's target, how far it is from the best possible, and its cells."""
    f = plan.forecast
    padded = "" if plan.target.padded else "; --padded (padded=True) minimises the size of reports"
    least = f.limit_messages
    bound = [] if least is None else [("", f"lower bound for this design: {least:,.2f} messages")]
    return [
        ("target", f"{plan.target}{padded}"),
        *bound,
        ("at zero", f"RMSE {f.rmse_at_zero:,.4g} if the true answer is 0"),
        (
            "bare messages",
            f"{counted(f.bits_per_message, 'bit')} each, {f.bytes_per_user:,.1f} bytes per user "
            "before padding and encryption",
        ),
        ("padded reports", promise(plan.padding)),
        *_printed_constants(plan.printed),
        *_cells(plan),
    ]


def protects(neighbours: str) -> str:
    """What a neighbouring relation protects, in words for people.

    >>> protects("replace one user's value")
    "protects any one user's value"
    """
    for begin, said in PROTECTED.items():
        if neighbours.startswith(begin):
            return f"protects {said}{neighbours.removeprefix(begin)}"
    return f"protects against: {neighbours}"


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


def _errors(plan: Plan[Any]) -> Lines:
    """The worst-case error, after the error at the target's count, if there is one."""
    count, f = plan.target.error_at, plan.forecast
    plus = "+" if f.error_high > 0 else ""
    far = f"95 % of results err by {_figure(f.error_low)} … {plus}{_figure(f.error_high)}"
    central = f"(with a trusted central party: {_figure(f.central_rmse)})"
    if count is None or f.rmse_at is None:
        return [("error", far), ("", f"RMSE {_figure(f.rmse)} {central}")]
    return [
        ("error", f"RMSE {_figure(f.rmse_at)} at a bucket of {counted(int(count), 'user')}"),
        ("", f"{_figure(f.rmse_at_zero)} at an empty one, {_figure(f.rmse)} at worst {central}"),
        ("", f"at worst, {far}"),
    ]


def _figure(number: float) -> str:
    """A number with three digits, or all before the decimal point."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _at_most(plan: Plan[Any]) -> str:
    """How many messages a user sends at most."""
    most = plan.protocol.most_messages
    return f"at most {most:,}" if most is not None else "without an upper limit"


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
        return [("warning", "the error exceeds half the range, so the answer would be useless")]
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
