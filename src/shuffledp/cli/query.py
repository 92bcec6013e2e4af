"""`shuffledp count|integer-sum|real-sum|mean|histogram|… FILE`: a query."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import shuffledp
from shuffledp import samples
from shuffledp.cli.cluster import cluster
from shuffledp.cli.needs import STANDARD
from shuffledp.cli.output import Commands, add_command, emit, progress_bar, standard_input
from shuffledp.cli.plan_arguments import (
    add_bounds,
    add_candidates,
    add_domains,
    add_expected,
    add_groups,
    add_labels,
    add_targets,
    add_tree,
    bounds_of,
    candidates_of,
    declared_groups,
    domains_of,
    labels_of,
    targets_of,
)
from shuffledp.cli.query_table import result_table
from shuffledp.data.arrays import ColumnType
from shuffledp.data.columns import FileFormat, column_of
from shuffledp.data.sources import Source
from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.numbers.exact import counted
from shuffledp.protocols.results import Result
from shuffledp.queries.checks import is_whole, labels_of_type

EXAMPLES = {
    "count": "--column bikes",
    "integer-sum": "--column bikes --largest 1",
    "real-sum": "--column minutes --bounds 0,120",
    "mean": "--column minutes --bounds 0,120",
    "histogram": "--column way --labels walk,bike,bus,train,car",
    "frequencies": "--column way --candidates walk,bike",
    "heavy-hitters": "--column way --length 4",
    "quantiles": "--column minutes --bounds 0,120",
}
"""What the example of each query has of its own."""

Asked = dict[str, Any]
"""Keyword arguments of a query."""


def add_to(commands: Commands) -> None:
    """Adds one command per query."""
    count = _query(commands, "count", _count, "how many rows are true, 1, or equal to a value")
    count.add_argument("--equals", metavar="VALUE", help="count the rows with this value")
    _add_by(count)
    integers = _query(
        commands, "integer-sum", _integer_sum, "the sum of a column of whole numbers 0..D"
    )
    integers.add_argument("--largest", required=True, metavar="D", help="the largest value")
    _add_clamp(integers)
    _add_by(integers)
    for name, summary in (("real-sum", "the sum of a column"), ("mean", "the mean of a column")):
        real = _query(commands, name, _real, f"{summary} of real values")
        add_bounds(real)
        _add_clamp(real)
        _add_by(real)
    table = _query(commands, "histogram", _histogram, "how many rows hold each label")
    add_labels(table, required=False)
    table.add_argument("--by", metavar="C,C,…", help="several columns: count their combinations")
    add_domains(table)
    add_candidates(
        _query(commands, "frequencies", _frequencies, "how many rows hold a label of any domain")
    )
    add_tree(_query(commands, "heavy-hitters", _heavy_hitters, "which words are frequent"))
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
    parser = add_command(
        commands,
        name,
        lambda args: run(args, name, asked),
        summary,
        examples=[
            f"{name} sample:commute --epsilon 1 {EXAMPLES[name]}",
            f"{name} s3://bucket/people.parquet --epsilon 1 {EXAMPLES[name]}",
            f"{name} - --epsilon 1 {EXAMPLES[name]} < people.csv",
        ],
        needs=lambda args: ["spark"] if args.engine == "spark" else ["frames"],
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="CSV, TSV or Parquet, or a folder of Parquet files, also in an object store (s3://…); "
        "- is standard input, sample:commute comes with the program",
    )
    parser.add_argument("--column", metavar="C", help="which column (if there are several)")
    parser.add_argument("--encoding", metavar="NAME", help="of a CSV file, e.g. latin-1 (utf-8)")
    parser.add_argument(
        "--delimiter",
        type=lambda text: "\t" if text in ("\\t", "tab") else text,
        metavar="C",
        help="between a CSV file's columns: a character or tab (a comma)",
    )
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument(
        "--users", metavar="N", help="rows the guarantee may count on (default: all of them)"
    )
    parser.add_argument("--user", metavar="C", help="the column that says whose row it is")
    parser.add_argument(
        "--rows-per-user", metavar="K", help="keep K rows of each user at random (sums: add all)"
    )
    parser.add_argument(
        "--missing", metavar="VALUE", help='stands for missing values; "bucket" in a histogram'
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
    parser.add_argument("--note", metavar="TEXT", help="what the ledger keeps beside the release")
    parser.add_argument("--seed", metavar="S", help="the same result again (not private)")
    parser.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")
    return parser


def _add_clamp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clamp", action="store_true", help="move values into the range")


def _add_by(parser: argparse.ArgumentParser) -> None:
    """Adds --by, --groups and --groups-public."""
    parser.add_argument("--by", metavar="C", help="the column of groups: one answer for each group")
    add_groups(parser)
    parser.add_argument(
        "--groups-public", action="store_true", help="everybody may know who is in which group"
    )


def _groups(args: argparse.Namespace) -> Asked:
    """What is said about groups; nothing where all rows are asked about together."""
    if args.by is None and args.groups is None and not args.groups_public:
        return {}
    return {"by": args.by, "groups": declared_groups(args), "groups_public": args.groups_public}


# what each query asks beyond the shared options


def _count(args: argparse.Namespace) -> Asked:
    return {"equals": args.equals, **_groups(args)}


def _integer_sum(args: argparse.Namespace) -> Asked:
    return {"largest": args.largest, "clamp": args.clamp, **_groups(args)}


def _real(args: argparse.Namespace) -> Asked:
    return {"bounds": bounds_of(args), "clamp": args.clamp, **_groups(args)}


def _histogram(args: argparse.Namespace) -> Asked:
    if args.by is not None or args.domain is not None:
        return _crosstab(args)
    if args.labels is None and args.label is None:
        raise ParameterError("Give --labels for one column, or --by and --domain for several.")
    labels = labels_of(args)
    if isinstance(labels, list) and all(isinstance(label, str) for label in labels):
        labels = _in_the_columns_type(args, labels)
    return {"labels": labels, "other": args.other}


def _crosstab(args: argparse.Namespace) -> Asked:
    """Combinations of several columns, with the labels of each."""
    if args.labels is not None or args.label is not None or args.other is not None:
        raise ParameterError("For several columns give --by and --domain alone.")
    return {"by": (args.by or "").split(","), "domains": domains_of(args)}


def _frequencies(args: argparse.Namespace) -> Asked:
    names = candidates_of(args)
    if all(isinstance(label, str) for label in names):
        names = _in_the_columns_type(args, names)
    return {"candidates": names, "spread": args.spread}


def _heavy_hitters(args: argparse.Namespace) -> Asked:
    return {"alphabet": args.alphabet, "length": args.length, "spread": args.spread}


def _quantiles(args: argparse.Namespace) -> Asked:
    return {
        "bounds": bounds_of(args),
        "clamp": args.clamp,
        "bins": args.bins,
        "points": args.points,
        "probabilities": args.at.split(","),
    }


def _in_the_columns_type(args: argparse.Namespace, labels: list[str]) -> list[Any]:
    """Labels as numbers or true/false where the column holds such; on Spark judged by the labels
    themselves, because the column is not read here."""
    if args.engine == "spark":
        holds: ColumnType = "whole" if all(is_whole(label) for label in labels) else "text"
    else:
        holds = column_of(args.file, args.column, _file_format(args)).holds
    return labels_of_type(labels, holds, getattr(args, "other", None))


def _source(args: argparse.Namespace) -> str | Source:
    """The file, or what standard input holds."""
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


def run(args: argparse.Namespace, name: str, asked: Callable[[argparse.Namespace], Asked]) -> None:
    """Answers the query, on this machine or on a cluster, and shows the result."""
    if args.master is not None and args.engine != "spark":
        raise ParameterError("--master names a Spark cluster; add --engine spark.")
    args.file = _source(args)
    words = {**asked(args), **_options(args)}
    execute = _on_spark if args.engine == "spark" else _on_this_machine
    result = execute(args, name.replace("-", "_"), words)
    if args.ledger is None:
        _show(args, result)
        return
    try:
        _show(args, result)
    except (OSError, UnicodeError, MemoryError, ShuffleDPError) as error:
        why = getattr(error, "strerror", None) or str(error).rstrip(".") or "no memory is left"
        raise ShuffleDPError(
            f"The result was paid for but not all of it was shown ({why}); the ledger keeps it: "
            f"shuffledp ledger show {args.ledger} --entry last"
        ) from None


def _show(args: argparse.Namespace, result: Result) -> None:
    """Prints the result, and draws its picture last."""
    if args.protocol is not None:
        emit(args, result.to_dict(), lambda console: console.print(str(result), markup=False))
    else:
        emit(args, result.to_dict(), lambda console: console.print(result_table(result, args)))
    if args.plot:
        result.plot(args.plot)


def _options(args: argparse.Namespace) -> Asked:
    """The options of every query that were given, as keyword arguments."""
    names = ["column", "epsilon", "users", "confidence", "ledger", "note", "seed", "protocol"]
    names += ["user", "rows_per_user"]
    names += ["delta"] if args.engine == "spark" else ["delta", "encoding", "delimiter"]
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.missing is not None:
        given["missing"] = _typed(args.missing)
    return {**given, "per_user": args.per_user, **targets_of(args)}


def _typed(text: str) -> Any:
    """A whole number, a real number or a text, as it is written."""
    if is_whole(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _on_this_machine(args: argparse.Namespace, name: str, words: Asked) -> Result:
    ask: Callable[..., Result] = getattr(shuffledp, name)
    if args.protocol is not None:
        return ask(args.file, **words)
    by = words.get("by")
    first = by[0] if isinstance(by, list) else args.column
    rows = column_of(args.file, first, _file_format(args)).rows
    with progress_bar(args, f"{name} of {counted(rows, 'row')}", rows) as progress:
        return ask(args.file, progress=progress, **words)


def _on_spark(args: argparse.Namespace, name: str, words: Asked) -> Result:
    from shuffledp import spark
    from shuffledp.engines.spark.columns import read

    ask: Callable[..., Result] = getattr(spark, name)
    with cluster(args.master) as session:
        frame = read(session, args.file, encoding=args.encoding, delimiter=args.delimiter)
        return ask(frame, **words)
