"""A query's result as a table for the terminal."""

from __future__ import annotations

import argparse
from typing import Any

import shuffledp
from shuffledp.cli.output import facts
from shuffledp.numbers.exact import counted, percent, show
from shuffledp.protocols.results import NEIGHBOURS, Result
from shuffledp.queries.by_group.result import GroupsResult


def result_table(result: Result, args: argparse.Namespace) -> Any:
    """A result as a table, with the assumptions that it rests on."""
    from rich.console import Group

    rows = [
        ("privacy", _privacy(result)),
        ("users", _users(result)),
        ("messages", f"{result.messages_per_user:,.1f} per user"),
        ("RMSE", f"{result.rmse:,.4g}{result.rmse_unit}"),
        ("note", "who may see all rows anyway gets this more cheaply from the central mechanism"),
    ]
    if result.about:
        rows.append(("about", result.about))
    if args.ledger:
        left = shuffledp.Ledger(args.ledger).remaining()
        rows.append(("ledger", f"ε = {show(left)} remains in {args.ledger}"))
    if args.plot:
        rows.append(("picture", args.plot))
    return Group(_numbers(result), facts("", rows))


def _users(result: Result) -> str:
    if result.neighbours == NEIGHBOURS:
        return f"{result.users:,}: every row is taken for one user, and their number is public"
    return f"{counted(result.users, 'value')} randomized; hidden is: {result.neighbours}"


def _privacy(result: Result) -> str:
    if result.seeded:
        return "none: the seed repeats this result, so that it is not private"
    return f"ε = {show(result.epsilon)}, pure, in the shuffle model; certified"


def _numbers(result: Result) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{percent(result.confidence)} intervals", title_justify="left")
    table.add_column("group" if isinstance(result, GroupsResult) else "query")
    for name in ("estimate", "from", "to"):
        table.add_column(name, justify="right")
    for name, *numbers in result.texts():
        table.add_row(Text(name), *numbers)  # a label may look like markup
    return table
