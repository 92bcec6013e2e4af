"""A query's result for the terminal: the answer first, then its privacy, then the details."""

from __future__ import annotations

import argparse
from typing import Any

import shuffledp
from shuffledp.cli.output import Facts, is_quiet
from shuffledp.numbers.exact import counted, percent, show, written
from shuffledp.plans.text import protects
from shuffledp.protocols.results import NEIGHBOURS, Estimate, Result
from shuffledp.queries.by_group.result import GroupsResult

COUNTS = ("count", "histogram", "frequencies", "heavy-hitters")
"""Queries whose numbers are numbers of users."""


def result_table(result: Result, args: argparse.Namespace) -> Any:
    """The answer with its unit and interval, and its privacy; with -q the answer alone, with -v
    also its cost and its assumptions."""
    from rich.console import Group

    answer = _one_number(result, args) if isinstance(result, Estimate) else _numbers(result, args)
    if is_quiet(args):
        return answer
    public = ("public", f"the number of users, {result.users:,}")
    rows = [("privacy", _privacy(result)), public, *_asked_for(args)]
    if getattr(args, "verbose", False):
        rows += _details(result)
    if result.clamped:
        rows.append(("clipped", "what lies beyond the bounds counts as the nearest bound"))
    if result.about:
        rows.append(("note", result.about))
    return Group(answer, Facts("", rows))


def _privacy(result: Result) -> str:
    if result.seeded:
        return "none: the seed repeats this result, so it is not private"
    return f"ε = {show(result.epsilon)}, pure, certified; {protects(result.neighbours)}"


def _asked_for(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The state of the ledger and the picture's file, if requested."""
    rows = []
    if args.ledger:
        left = shuffledp.Ledger(args.ledger).remaining()
        rows.append(("ledger", f"ε = {show(left)} remains in {args.ledger}"))
    if args.plot:
        rows.append(("picture", args.plot))
    return rows


def _details(result: Result) -> list[tuple[str, str]]:
    rows = [("users", "each row counts as one")] if result.neighbours == NEIGHBOURS else []
    return [
        *rows,
        ("error", f"RMSE {result.rmse:,.4g}{result.rmse_unit}"),
        ("messages", f"{result.messages_per_user:,.1f} per user"),
        ("cheaper", "if one party may see all rows, the central mechanism: --protocol central"),
    ]


def _unit(name: str, result: Result, column: str | None) -> str:
    """What the numbers count or measure."""
    if name in COUNTS:
        kept = "" if result.rows_kept is None else f"{counted(result.rows_kept, 'kept row')} of "
        return f"of {kept}{counted(result.users, 'user')}"
    return f"({column})" if column else ""


def _one_number(result: Estimate, args: argparse.Namespace) -> Any:
    """One number: what was asked, the estimate in bold with its unit, and its interval."""
    from rich.text import Text

    ((name, value, low, high),) = result.texts()
    column = getattr(args, "column", None)
    equals = getattr(args, "equals", None)
    asked = f"{name} of {column}" if column else name
    asked += f" = {equals}" if equals is not None else ""
    unit = f" {_unit(name, result, None)}" if name in COUNTS else ""
    sure = f"{percent(result.confidence)} interval {low} … {high}"
    return Text.assemble(f"{asked}: ", (value, "bold green"), f"{unit}\n  {sure}")


def _numbers(result: Result, args: argparse.Namespace) -> Any:
    """Several numbers as a table; the heading of the first column says what its names are."""
    from rich.table import Table
    from rich.text import Text

    column = getattr(args, "column", None)
    if isinstance(result, GroupsResult):
        first, name = result.by, result.answer
    else:
        first, name = column or "label", str(getattr(result, "query", "quantiles"))
    one = "users" if result.rows_kept is None else "rows"
    unit = one if name in COUNTS else (column or "estimate")
    if name == "quantiles":
        first = "quantile"
    of = f" of {column}" if column and column not in (first, unit) else ""
    by = f" by {first}" if isinstance(result, GroupsResult) else ""
    title = f"{name}{of}{by}, {counted(result.users, 'user')}"
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column(Text(first), overflow="fold")
    table.add_column(Text(unit), justify="right", style="bold green", no_wrap=True)
    table.add_column(f"{percent(result.confidence)} interval", justify="left", no_wrap=True)
    texts = _aligned(result) if isinstance(result, GroupsResult) else result.texts()
    width = max((len(low) for _, _, low, _ in texts), default=0)
    for label, value, low, high in texts:
        shown = Text(label.removeprefix("quantile "))  # a label is never markup
        table.add_row(shown, value, f"{low:>{width}} … {high}")
    return table


def _aligned(result: GroupsResult) -> list[tuple[str, str, str, str]]:
    """`texts` with as many decimals in every row as the most exact one has, so that they line
    up."""
    digits = max(len(value.partition(".")[2]) for _, value, _, _ in result.texts())
    rows = [
        (name, *(written(number, digits) for number in numbers))
        for name, *numbers in result.shown_rows()
    ]
    width = max(len(high) for _, _, _, high in rows)
    return [(name, value, low, f"{high:>{width}}") for name, value, low, high in rows]
