"""`shuffledp count|integers|histogram|sum|mean|quantiles FILE`: a query on a column of a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import shuffledp
from shuffledp.cli.output import Commands, add_command, emit, facts, progress_bar
from shuffledp.cli.plan import add_bounds, add_targets, aim, bounds_of, labels_of
from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import exact, show, whole
from shuffledp.plots.figures import checked_picture
from shuffledp.protocols.results import Result
from shuffledp.queries.columns import column_of


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
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="where to run (local)"
    )
    parser.add_argument("--master", metavar="URL", help="Spark master or Connect server (local[*])")
    parser.add_argument("--ledger", metavar="FILE", help="draw on this budget, refuse beyond it")
    parser.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")
    return parser


def run(args: argparse.Namespace, name: str) -> None:
    """Answers the query, here or on a cluster."""
    if args.plot:
        checked_picture(args.plot)
    how: dict[str, Any] = {
        "users": args.users,
        "confidence": args.confidence,
        "ledger": args.ledger,
        "per_user": args.per_user,
        **aim(args),
    }
    result = (_on_spark if args.engine == "spark" else _here)(args, name, how)
    if args.protocol is not None:
        emit(args, result.to_dict(), lambda console: console.print(str(result)))
        return
    if args.plot:
        result.plot(args.plot)
    emit(args, result.to_dict(), lambda console: console.print(result_table(result, args)))


def _here(args: argparse.Namespace, name: str, how: dict[str, Any]) -> Any:
    if args.protocol is not None and args.plot:
        raise ParameterError("Pictures are of our own protocol; leave --plot out.")
    column = column_of(args.file, args.column)
    first = next(iter(column.batches()))
    asked = _asked(args, name, whole_numbers=first.dtype.kind in "iu")
    asks: dict[str, Callable[..., Any]] = {
        "count": shuffledp.count,
        "integers": shuffledp.total,
        "histogram": shuffledp.histogram,
        "sum": shuffledp.total,
        "mean": shuffledp.mean,
        "quantiles": shuffledp.quantiles,
    }
    rival = {"protocol": args.protocol, "delta": args.delta}
    with progress_bar(args, f"{name} of {column.rows:,} rows", column.rows) as progress:
        return asks[name](
            args.file,
            args.epsilon,
            column=args.column,
            progress=progress,
            **asked,
            **how,
            **rival,
        )


def _on_spark(args: argparse.Namespace, name: str, how: dict[str, Any]) -> Any:
    if args.protocol is not None:
        raise ParameterError("Other protocols run on one machine; leave --engine out.")
    from shuffledp import spark

    labels = [part.strip() for part in getattr(args, "buckets", "x").split(",")]
    asked = _asked(args, name, whole_numbers=all(_is_whole(label) for label in labels))
    return spark.query(
        name, args.file, args.column, args.master, epsilon=args.epsilon, **asked, **how
    )


def _asked(args: argparse.Namespace, name: str, whole_numbers: bool) -> dict[str, Any]:
    """What a query asks beyond ε, as keyword arguments."""
    if name == "count":
        return {"equals": args.equals}
    if name == "integers":
        return {"largest": whole(args.largest, "--largest")}
    if name == "histogram":
        labels: Any = labels_of(args.buckets)
        if whole_numbers and not isinstance(labels, int):
            labels = [int(label) if _is_whole(label) else label for label in labels]
        return {"buckets": labels, "other": args.other}
    if name != "quantiles":
        return {"bounds": bounds_of(args), "clamp": args.clamp}
    if args.max_messages is not None:
        raise ParameterError("Quantiles are planned for an error; --max-messages does not apply.")
    return {
        "bounds": bounds_of(args),
        "clamp": args.clamp,
        "bins": args.bins,
        "probabilities": [float(exact(part, "a quantile")) for part in args.at.split(",")],
    }


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


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
