"""`shuffledp count|integer-sum|real-sum|mean|histogram|… FILE`: a query."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import shuffledp
from shuffledp import samples
from shuffledp.cli.cluster import cluster
from shuffledp.cli.output import STANDARD, Commands, add_command, emit, progress_bar, standard_input
from shuffledp.cli.query_arguments import add_arguments, as_phrase, given
from shuffledp.cli.query_table import result_table
from shuffledp.data.arrays import ColumnType
from shuffledp.data.columns import FileFormat, column_of
from shuffledp.data.sources import Source
from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.numbers.exact import counted
from shuffledp.protocols.results import Result
from shuffledp.queries.base import Query
from shuffledp.queries.catalogue import CALLED
from shuffledp.queries.checks import is_whole, labels_of_type
from shuffledp.queries.options import arguments

AnyQuery = type[Query[Any]]


def add_to(commands: Commands) -> None:
    """Adds one command per query."""
    for query in CALLED.values():
        _add_query(commands, query)


def _add_query(commands: Commands, query: AnyQuery) -> None:
    name, example = query.name, query.declaration.example
    parser = add_command(
        commands,
        name,
        lambda args: run(args, query),
        as_phrase(query.summary()),
        examples=[
            f"{name} sample:commute --epsilon 1 {example}",
            f"{name} s3://bucket/people.parquet --epsilon 1 {example}",
            f"{name} - --epsilon 1 {example} < people.csv",
        ],
        needs=lambda args: ["spark"] if args.engine == "spark" else ["frames"],
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="CSV, TSV or Parquet, or a folder of Parquet files, also in an object store (s3://…); "
        "- is standard input, sample:commute comes with the program",
    )
    add_arguments(parser, arguments(query))
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local", help="where to run. Default local"
    )
    parser.add_argument(
        "--master", metavar="URL", help="Spark master or Connect server. Default local[*]."
    )
    parser.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")


def _asked(args: argparse.Namespace, query: AnyQuery) -> dict[str, Any]:
    """The keyword arguments of the query that were given."""
    declared = list(arguments(query))
    found = given(args, declared)
    if args.engine == "spark":  # which reads the file itself
        found = {name: one for name, one in found.items() if name not in ("encoding", "delimiter")}
    for one in declared:
        value = found.get(one.name)
        if one.option.as_column and isinstance(value, list):
            found[one.name] = _in_the_columns_type(args, value)
    return found


def _in_the_columns_type(args: argparse.Namespace, labels: list[str]) -> list[Any]:
    """Labels as numbers or true/false if that is the column's type; on Spark the labels themselves
    decide, because the column is not read here."""
    if not all(isinstance(label, str) for label in labels):
        return labels
    if args.engine == "spark":
        holds: ColumnType = "whole" if all(is_whole(label) for label in labels) else "text"
    else:
        holds = column_of(args.file, args.column, _file_format(args)).holds
    return labels_of_type(labels, holds, getattr(args, "other", None))


def _source(args: argparse.Namespace) -> str | Source:
    """The file, or the contents of standard input."""
    name = str(args.file)
    if name == STANDARD:
        if args.engine == "spark":
            raise ParameterError("Spark does not read standard input; name a file.")
        return Source.of_bytes(standard_input(), "Standard input")
    if args.engine == "spark" and name.startswith(samples.PREFIX):
        return str(samples.path(name.removeprefix(samples.PREFIX)))
    return name


def _file_format(args: argparse.Namespace) -> FileFormat:
    return FileFormat(encoding=args.encoding, delimiter=args.delimiter)


def run(args: argparse.Namespace, query: AnyQuery) -> None:
    """Answers the query, on this machine or on a cluster, and shows the result."""
    if args.master is not None and args.engine != "spark":
        raise ParameterError("--master names a Spark cluster; add --engine spark.")
    args.file = _source(args)
    asked = _asked(args, query)
    ask: Callable[..., Result] = getattr(shuffledp, query.name.replace("-", "_"))
    execute = _on_spark if args.engine == "spark" else _on_this_machine
    result = execute(args, ask, asked)
    if args.ledger is None:
        _show(args, result)
        return
    try:
        _show(args, result)
    except (OSError, UnicodeError, MemoryError, ShuffleDPError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".") or "no memory is left"
        raise ShuffleDPError(
            f"The ledger was charged, but the result was not fully shown ({why}). To see it again: "
            f"shuffledp ledger show {args.ledger} --entry last"
        ) from None


def _show(args: argparse.Namespace, result: Result) -> None:
    """Prints the result, and draws its picture last."""
    if args.protocol is not None:
        emit(args, result.to_dict(), str(result))
    else:
        emit(args, result.to_dict(), lambda console: console.print(result_table(result, args)))
    if args.plot:
        from shuffledp.plots.results import plot

        plot(result, args.plot, args.column or "")


def _on_this_machine(
    args: argparse.Namespace, ask: Callable[..., Result], asked: dict[str, Any]
) -> Result:
    if args.protocol is not None:
        return ask(args.file, **asked)
    by = asked.get("by")
    first = by[0] if isinstance(by, list) else args.column
    rows = column_of(args.file, first, _file_format(args)).rows
    with progress_bar(args, f"{ask.__name__} of {counted(rows, 'row')}", rows) as progress:
        return ask(args.file, progress=progress, **asked)


def _on_spark(
    args: argparse.Namespace, ask: Callable[..., Result], asked: dict[str, Any]
) -> Result:
    from shuffledp.engines.spark.columns import read

    with cluster(args.master) as session:
        frame = read(session, args.file, encoding=args.encoding, delimiter=args.delimiter)
        return ask(frame, **asked)
