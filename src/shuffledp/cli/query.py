"""`shuffledp count|integer-sum|real-sum|mean|histogram|quantiles FILE`: a query on a column."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import shuffledp
from shuffledp.cli.cluster import cluster
from shuffledp.cli.output import Commands, add_command, emit, facts, progress_bar
from shuffledp.cli.plan import (
    add_bounds,
    add_expected,
    add_labels,
    add_targets,
    bounds_of,
    labels_of,
    targets_of,
)
from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import percent, show
from shuffledp.plots.figures import checked_picture
from shuffledp.protocols.results import Result
from shuffledp.queries.columns import column_of

Asked = dict[str, Any]
"""Keyword arguments of a query."""


def add_to(commands: Commands) -> None:
    """Adds one command per query."""
    count = _query(commands, "count", _count, "how many rows are true, 1, or equal to a value")
    count.add_argument("--equals", metavar="VALUE", help="count the rows with this value")
    integers = _query(
        commands, "integer-sum", _integer_sum, "the sum of a column of whole numbers 0..D"
    )
    integers.add_argument("--largest", required=True, metavar="D", help="the largest value")
    _add_clamp(integers)
    for name, summary in (("real-sum", "the sum of a column"), ("mean", "the mean of a column")):
        real = _query(commands, name, _real, f"{summary} of real values")
        add_bounds(real)
        _add_clamp(real)
    add_labels(_query(commands, "histogram", _histogram, "how many rows hold each label"))
    ranges = _query(commands, "quantiles", _quantiles, "quantiles of a column")
    add_bounds(ranges)
    _add_clamp(ranges)
    ranges.add_argument("--at", default="0.25,0.5,0.75", metavar="P,P,…", help="which quantiles")
    ranges.add_argument("--bins", default=64, metavar="N", help="parts of the range (64)")
    ranges.add_argument(
        "--points",
        action=argparse.BooleanOptionalAction,
        help="values are whole numbers (default: as the column's type says)",
    )


def _query(
    commands: Commands, name: str, asked: Callable[[argparse.Namespace], Asked], summary: str
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, lambda args: run(args, name, asked), summary)
    parser.add_argument("file", metavar="FILE", help="a CSV or Parquet file; one row, one user")
    parser.add_argument("--column", metavar="C", help="which column (if there are several)")
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument(
        "--users", metavar="N", help="rows the guarantee may count on (default: all of them)"
    )
    add_expected(parser)
    add_targets(parser)
    parser.add_argument("--confidence", default="0.95", metavar="P", help="of the interval (0.95)")
    parser.add_argument("--per-user", action="store_true", help="randomize row by row")
    parser.add_argument(
        "--protocol", metavar="NAME", help="another protocol (see `shuffledp compare`)"
    )
    parser.add_argument("--delta", metavar="D", help="δ of a protocol that needs one")
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="where to run (local)"
    )
    parser.add_argument("--master", metavar="URL", help="Spark master or Connect server (local[*])")
    parser.add_argument("--ledger", metavar="FILE", help="draw on this budget, refuse beyond it")
    parser.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")
    return parser


def _add_clamp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clamp", action="store_true", help="move values into the range")


# what each query asks beyond the shared options


def _count(args: argparse.Namespace) -> Asked:
    return {"equals": args.equals}


def _integer_sum(args: argparse.Namespace) -> Asked:
    return {"largest": args.largest, "clamp": args.clamp}


def _real(args: argparse.Namespace) -> Asked:
    return {"bounds": bounds_of(args), "clamp": args.clamp}


def _histogram(args: argparse.Namespace) -> Asked:
    labels: int | list[Any] = labels_of(args.labels)
    if isinstance(labels, list) and _holds_whole_numbers(args, labels):
        labels = [int(label) if _is_whole(label) else label for label in labels]
    return {"labels": labels, "other": args.other}


def _quantiles(args: argparse.Namespace) -> Asked:
    return {
        "bounds": bounds_of(args),
        "clamp": args.clamp,
        "bins": args.bins,
        "points": args.points,
        "probabilities": args.at.split(","),
    }


def _holds_whole_numbers(args: argparse.Namespace, labels: list[str]) -> bool:
    """Whether the column's labels are numbers; on Spark judged by the labels that were asked for,
    because the column is not read here."""
    if args.engine == "spark":
        return all(_is_whole(label) for label in labels)
    first = next(iter(column_of(args.file, args.column).batches()))
    return first.dtype.kind in "iu"


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def run(args: argparse.Namespace, name: str, asked: Callable[[argparse.Namespace], Asked]) -> None:
    """Answers the query, on this machine or on a cluster, and shows the result."""
    if args.plot:
        checked_picture(args.plot)
    if args.plot and args.protocol is not None:
        raise ParameterError("Pictures are of our own protocol; leave --plot out.")
    if args.master is not None and args.engine != "spark":
        raise ParameterError("--master names a Spark cluster; add --engine spark.")
    words = {**asked(args), **_options(args)}
    execute = _on_spark if args.engine == "spark" else _on_this_machine
    result = execute(args, name.replace("-", "_"), words)
    if args.protocol is not None:
        emit(args, result.to_dict(), lambda console: console.print(str(result)))
        return
    if args.plot:
        result.plot(args.plot)
    emit(args, result.to_dict(), lambda console: console.print(result_table(result, args)))


def _options(args: argparse.Namespace) -> Asked:
    """The options of every query that were given, as keyword arguments."""
    names = ("column", "epsilon", "users", "confidence", "ledger", "protocol", "delta")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    return {**given, "per_user": args.per_user, **targets_of(args)}


def _on_this_machine(args: argparse.Namespace, name: str, words: Asked) -> Result:
    ask: Callable[..., Result] = getattr(shuffledp, name)
    if args.protocol is not None:
        return ask(args.file, **words)
    rows = column_of(args.file, args.column).rows
    with progress_bar(args, f"{name} of {rows:,} rows", rows) as progress:
        return ask(args.file, progress=progress, **words)


def _on_spark(args: argparse.Namespace, name: str, words: Asked) -> Result:
    from shuffledp import spark
    from shuffledp.spark.columns import read

    ask: Callable[..., Result] = getattr(spark, name)
    with cluster(args.master) as session:
        return ask(read(session, args.file), **words)


def result_table(result: Result, args: argparse.Namespace) -> Any:
    """A result as a table, with the assumptions that it rests on."""
    from rich.console import Group

    rows = [
        ("privacy", f"ε = {show(result.epsilon)}, pure, in the shuffle model; certified"),
        ("users", f"{result.users:,}: every row is taken for one user, and their number is public"),
        ("messages", f"{result.messages_per_user:,.1f} per user"),
        ("RMSE", f"{result.rmse:,.4g}"),
        ("note", "who may see all rows anyway gets this more cheaply from the central mechanism"),
    ]
    if args.ledger:
        left = shuffledp.Ledger(args.ledger).remaining()
        rows.append(("ledger", f"ε = {show(left)} remains in {args.ledger}"))
    if args.plot:
        rows.append(("picture", args.plot))
    return Group(_numbers(result), facts("", rows))


def _numbers(result: Result) -> Any:
    from rich.table import Table

    table = Table(title=f"{percent(result.confidence)} intervals", title_justify="left")
    table.add_column("query")
    for name in ("estimate", "from", "to"):
        table.add_column(name, justify="right")
    for texts in result.texts():
        table.add_row(*texts)
    return table
