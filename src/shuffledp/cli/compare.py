"""`shuffledp compare`: shuffledp and the protocols of the literature in one table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from shuffledp.baselines.base import DEFAULT_COUNT, Setting
from shuffledp.baselines.claim import BASES
from shuffledp.baselines.ours import PLANNERS
from shuffledp.baselines.table import Row, Table, compare
from shuffledp.baselines.words import in_words
from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from shuffledp.plots.scaling import Over

DEFAULT_DELTA = "1e-6"
DEFAULT_BUCKETS = "16"


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "compare",
        run,
        "compare with the protocols of the literature, by computed error",
        examples=[
            "compare count --users 10000 --epsilon 1 --delta 1e-6",
            "compare histogram --users 10000 --epsilon 1 --plot frontier.png",
        ],
    )
    parser.add_argument("query", choices=tuple(PLANNERS), help="the query")
    parser.add_argument("--users", required=True, metavar="N", help="users who take part")
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument(
        "--delta",
        metavar="D",
        help=f"for protocols that are only (ε, δ)-private ({DEFAULT_DELTA}); 0 leaves them out",
    )
    parser.add_argument("--buckets", metavar="B", help=f"of a histogram ({DEFAULT_BUCKETS})")
    parser.add_argument(
        "--error-at",
        metavar="F",
        help=f"of a histogram: also show the error at a bucket of F users ({DEFAULT_COUNT})",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw error against messages (.png, .svg or .pdf)"
    )
    parser.add_argument(
        "--over",
        choices=("epsilon", "users"),
        help="draw how error and messages change with this instead (with --plot)",
    )
    parser.add_argument(
        "--citations",
        action="store_true",
        help="name protocols by their papers (docs/baselines.md lists them)",
    )


def setting_of(args: argparse.Namespace) -> Setting:
    """The setting that the command line's options describe."""
    delta = DEFAULT_DELTA if args.delta is None else args.delta
    if args.query != "histogram" and args.buckets is not None:
        raise ParameterError("--buckets is only for histograms; remove it, or compare histograms.")
    if args.query != "histogram" and args.error_at is not None:
        raise ParameterError("--error-at is only for histograms; remove it.")
    buckets = (args.buckets or DEFAULT_BUCKETS) if args.query == "histogram" else None
    at = DEFAULT_COUNT if args.error_at is None else args.error_at
    none = _is_zero(delta)
    return Setting.of(args.users, args.epsilon, None if none else delta, buckets, at)


def _is_zero(delta: str) -> bool:
    try:
        return float(delta) == 0
    except ValueError:
        return False  # Setting refuses it with an explanation


def run(args: argparse.Namespace) -> None:
    """Prints the table; draws the picture if asked for."""
    setting = setting_of(args)
    if args.over is not None and args.plot is None:
        raise ParameterError("--over draws a picture; add --plot FILE to say where.")
    table = compare(args.query, setting)
    if args.plot is not None:
        _draw(table, args.over, args.plot, citations=args.citations)
    emit(args, table.to_dict(), lambda console: _show(console, table, args))


def _draw(table: Table, over: Over | None, path: str, *, citations: bool) -> None:
    from shuffledp.plots.frontier import frontier
    from shuffledp.plots.scaling import scaling

    if over is None:
        frontier(table, path, citations=citations)
    else:
        scaling(table.query, table.setting, over, path, citations=citations)


def _show(console: Console, table: Table, args: argparse.Namespace) -> None:
    console.print(as_table(table, citations=args.citations))
    if any(not row.claim.pure for row in table.rows) and table.setting.delta is not None:
        console.print(f"(ε, δ): the guarantee may fail with δ = {float(table.setting.delta):g}.")
    notes = {row.claim.basis for row in table.rows if not row.claim.holds}
    for basis in sorted(notes):
        console.print(f"? {basis}: {BASES[basis]}.")
    for name, why in table.missing:
        console.print(f"not shown: {name}. {why}")
    if args.plot:
        console.print(f"picture: {args.plot}", soft_wrap=True)


def as_table(table: Table, *, citations: bool = False) -> RichTable:
    """The comparison as a table for a terminal of 80 columns."""
    from rich.table import Table as RichTable

    setting = table.setting
    title = f"{table.query}: {counted(setting.users, 'user')}, ε = {show(setting.epsilon)}"
    if setting.buckets is not None:
        buckets, users = (
            counted(size, name)
            for size, name in ((setting.buckets, "bucket"), (setting.error_at, "user"))
        )
        title += f", {buckets}; RMSE of an empty bucket, of one with {users} and at worst"
    rich = RichTable(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    rich.add_column("protocol", overflow="fold")
    histogram = table.query == "histogram"
    at = ("at 0", f"at {setting.error_at:,}", "at worst", "messages")
    for name in at if histogram else ("RMSE", "messages", "bits"):
        rich.add_column(name, justify="right", no_wrap=True)
    rich.add_column("privacy", no_wrap=True)
    rich.add_column("trust", no_wrap=True)
    for row in table.rows:
        name = row.title if citations else in_words(row.title)
        _, error, _, messages, bits, _, trust = cells_of(row)
        kind = "pure" if row.claim.pure else "(ε, δ)"
        kind += "" if row.claim.holds else " ?"
        style = "bold green" if row.ours and row.name != "printed" else None
        figures: tuple[str, ...] = (error, messages, bits)
        if histogram:
            errors = (row.forecast.at_zero, row.forecast.at_count)
            figures = (*map(number, errors), error, messages)
        rich.add_row(name, *figures, kind, trust, style=style)
    return rich


def cells_of(row: Row) -> tuple[str, ...]:
    """The texts of a row: title, RMSE, over central, messages, bits, privacy, trust."""
    forecast = row.forecast
    return (
        row.title,
        number(forecast.rmse),
        number(row.over_central),
        number(forecast.messages_per_user),
        number(forecast.bits_per_user),
        row.privacy,
        row.claim.trust,
    )


def number(value: float) -> str:
    """A number with three digits, or with thousands separated where it is large."""
    if value >= 1e7:
        return f"{value:.1e}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
