"""`shuffledp count|integers|histogram|sum|mean|quantiles FILE`: a query on a column of a file."""

from __future__ import annotations

import argparse
from typing import Any

import shuffledp
from shuffledp.cli.output import Commands, add_command, emit, facts, progress_bar
from shuffledp.cli.plan import add_bounds, add_targets, aim, bounds_of, labels_of
from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import exact, show
from shuffledp.frames import column_of
from shuffledp.plots import checked_picture
from shuffledp.protocols.ranges import RangesEstimate
from shuffledp.protocols.results import Result


def add_to(commands: Commands) -> None:
    """The commands, one per query."""
    count = _query(commands, "count", "how many rows are true, 1, or equal to a value")
    count.add_argument("--equals", metavar="VALUE", help="count the rows with this value")
    integers = _query(commands, "integers", "the sum of a column of whole numbers 0..D")
    integers.add_argument("--largest", required=True, metavar="D", help="the largest value")
    histogram = _query(commands, "histogram", "how many rows hold each label")
    histogram.add_argument(
        "--buckets", required=True, metavar="B", help="how many, or labels separated by commas"
    )
    histogram.add_argument("--other", metavar="LABEL", help="a bucket for all other labels")
    for name, summary in (("sum", "the sum of a column"), ("mean", "the mean of a column")):
        real = _query(commands, name, f"{summary} of real values")
        add_bounds(real)
        real.add_argument("--clamp", action="store_true", help="move values into the bounds")
    ranges = _query(commands, "quantiles", "quantiles of a column")
    add_bounds(ranges)
    ranges.add_argument("--clamp", action="store_true", help="move values into the bounds")
    ranges.add_argument("--at", default="0.25,0.5,0.75", metavar="P,P,…", help="which quantiles")
    ranges.add_argument("--bins", default=64, metavar="N", help="parts of the range (64)")


def _query(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    parser = add_command(commands, name, lambda args: run(args, name), summary)
    parser.add_argument("file", metavar="FILE", help="a CSV or Parquet file; one row, one user")
    parser.add_argument("--column", metavar="C", help="which column (if there are several)")
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument(
        "--users", metavar="N", help="rows the guarantee may count on (default: all of them)"
    )
    add_targets(parser)
    parser.add_argument("--confidence", default="0.95", metavar="P", help="of the interval (0.95)")
    parser.add_argument("--per-user", action="store_true", help="randomize row by row")
    parser.add_argument(
        "--protocol", metavar="NAME", help="another protocol (see `shuffledp compare`)"
    )
    parser.add_argument("--delta", metavar="D", help="δ of a protocol that needs one")
    parser.add_argument("--ledger", metavar="FILE", help="draw on this budget, refuse beyond it")
    parser.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")
    return parser


def run(args: argparse.Namespace, name: str) -> None:
    """Answers the query."""
    from shuffledp.exact.numbers import whole

    column = column_of(args.file, args.column)
    rows = column.rows
    if args.plot:
        checked_picture(args.plot)
    how: dict[str, Any] = {
        "column": args.column,
        "confidence": float(exact(args.confidence, "--confidence")),
        "ledger": args.ledger,
        "per_user": args.per_user,
        "protocol": args.protocol,
        "delta": args.delta,
        **aim(args),
    }
    if args.users is not None:
        how["users"] = whole(args.users, "--users")
    with progress_bar(args, f"{name} of {rows:,} rows", rows) as progress:
        result = _answer(args, name, {**how, "progress": progress})
    if args.protocol is not None:
        if args.plot:
            raise ParameterError("Pictures are of our own protocol; leave --plot out.")
        emit(args, result.to_dict(), lambda console: console.print(str(result)))
        return
    if args.plot:
        result.plot(args.plot)
    emit(args, result.to_dict(), lambda console: console.print(result_table(result, args)))


def _answer(args: argparse.Namespace, name: str, how: dict[str, Any]) -> Any:
    if name == "count":
        return shuffledp.count(args.file, args.epsilon, equals=args.equals, **how)
    if name == "integers":
        return shuffledp.total(args.file, args.epsilon, largest=args.largest, **how)
    if name == "histogram":
        labels = _like_the_column(labels_of(args.buckets), args)
        return shuffledp.histogram(args.file, args.epsilon, labels, other=args.other, **how)
    if name == "quantiles":
        return _quantiles(args, how)
    bounds = bounds_of(args)
    if name == "sum":
        return shuffledp.total(args.file, args.epsilon, bounds=bounds, clamp=args.clamp, **how)
    return shuffledp.mean(args.file, args.epsilon, bounds, clamp=args.clamp, **how)


def _like_the_column(labels: int | list[str], args: argparse.Namespace) -> Any:
    """Labels as whole numbers where the column holds whole numbers."""
    if isinstance(labels, int):
        return labels
    first = next(iter(column_of(args.file, args.column).batches()))
    if first.dtype.kind not in "iu":
        return labels
    return [int(label) if label.lstrip("-").isdecimal() else label for label in labels]


def _quantiles(args: argparse.Namespace, how: dict[str, Any]) -> RangesEstimate:
    if how.pop("max_messages", None) is not None:
        raise ParameterError("Quantiles are planned for an error; --max-messages does not apply.")
    wanted = [float(exact(part, "a quantile")) for part in args.at.split(",")]
    return shuffledp.quantiles(
        args.file, args.epsilon, bounds_of(args), wanted, bins=args.bins, clamp=args.clamp, **how
    )


def result_table(result: Result, args: argparse.Namespace) -> Any:
    """A result for people, with what it assumes."""
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

    table = Table(title=f"{result.confidence:.0%} intervals", title_justify="left")
    table.add_column("query")
    for name in ("estimate", "from", "to"):
        table.add_column(name, justify="right")
    for name, *numbers in result.rows():
        table.add_row(name, *(f"{number:,.2f}" for number in numbers))
    return table
