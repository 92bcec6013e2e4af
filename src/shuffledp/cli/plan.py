"""`shuffledp plan`: from a target to certified parameters."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shuffledp import (
    plan_count,
    plan_frequencies,
    plan_heavy_hitters,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.cli.output import Commands, add_command, add_group, facts, write_output
from shuffledp.errors import ParameterError
from shuffledp.planning.choice import CELL_CHOICES
from shuffledp.planning.frequencies import DEFAULT_SPREAD
from shuffledp.planning.heavy_hitters import DEFAULT_LENGTH, DEFAULT_TREE_SPREAD, LETTERS
from shuffledp.planning.plan import Plan
from shuffledp.planning.plan_text import describe_plan
from shuffledp.sealed.wire import MOST_REPORT_SIZE

AnyPlan = Plan[Any]
EXAMPLES = {
    "count": "",
    "integer-sum": " --largest 10",
    "real-sum": " --bounds 0,120 --rmse 400",
    "histogram": " --labels walk,bike,bus",
    "frequencies": " --domain 2^64",
    "heavy-hitters": " --length 4",
    "quantiles": " --bounds 0,120",
}
"""What the example of each query's plan has of its own."""
TARGETS = ("mse_overhead", "rmse", "relative_error", "max_messages")


def add_to(commands: Commands) -> None:
    """Adds `plan`, with one command per query below it."""
    queries = add_group(commands, "plan", "find the cheapest certified parameters", "QUERY")
    _query(queries, "count", _count, "how many users hold 1")
    integers = _query(queries, "integer-sum", _integer_sum, "the sum of whole numbers 0..D")
    integers.add_argument("--largest", required=True, metavar="D", help="the largest value")
    real = _query(queries, "real-sum", _real_sum, "the sum of real values")
    add_bounds(real, default="0,1")
    real.add_argument("--radix", metavar="C,C,…", help="fix the digits' bases, e.g. 2,2,2,2")
    add_labels(_query(queries, "histogram", _histogram, "how many users hold each label"))
    any_label = _query(queries, "frequencies", _frequencies, "how many hold a label of any domain")
    add_candidates(any_label)
    any_label.add_argument(
        "--domain",
        metavar="D",
        help="values are whole numbers below D, for example 1e6 or 2^64 (default: any value)",
    )
    words = _query(queries, "heavy-hitters", _heavy_hitters, "which words are frequent")
    add_tree(words)
    ranges = _query(queries, "quantiles", _quantiles, "quantiles and range counts")
    add_bounds(ranges, default="0,1")
    ranges.add_argument("--bins", default=64, metavar="N", help="parts of the range (64)")
    ranges.add_argument("--points", action="store_true", help="values are whole numbers")


def _query(
    queries: Commands, name: str, make: Callable[[argparse.Namespace], AnyPlan], summary: str
) -> argparse.ArgumentParser:
    example = f"plan {name} --users 10000 --epsilon 1{EXAMPLES[name]}"
    parser = add_command(
        queries,
        name,
        lambda args: run(args, make),
        f"plan: {summary}",
        examples=[example, f"{example} --padded --output plan.json"],
    )
    parser.add_argument(
        "--users", required=True, metavar="N", help="honest users who are sure to take part"
    )
    parser.add_argument(
        "--epsilon",
        metavar="E",
        help="the privacy loss allowed; without it, the least for --rmse and --max-messages",
    )
    add_expected(parser)
    add_targets(parser)
    parser.add_argument(
        "--padded",
        action="store_true",
        help="for the service: count messages after padding, not on average before it",
    )
    parser.add_argument(
        "--cell",
        default="best",
        choices=CELL_CHOICES,
        help="the kind of cell: the cheaper one (best), or the one named",
    )
    parser.add_argument(
        "--fleet", action="store_true", help="also size a fleet, from rates measured here"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="also write the plan as JSON; -: JSON and nothing else"
    )
    return parser


# arguments that queries take too


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which error or cost a plan is asked for."""
    group = parser.add_argument_group("target (one; or an error with --relative-error beside it)")
    group.add_argument(
        "--mse-overhead", metavar="RHO", help="MSE within 1 + RHO of the central optimum"
    )
    group.add_argument("--rmse", metavar="R", help="root mean squared error at most R")
    group.add_argument(
        "--relative-error", metavar="R", help="or within R of the true value, e.g. 0.01"
    )
    group.add_argument(
        "--max-messages", metavar="M", help="best error with at most M messages per user"
    )


def add_expected(parser: argparse.ArgumentParser) -> None:
    """Adds --expected."""
    parser.add_argument(
        "--expected", metavar="N", help="users who may take part (the error is forecast for them)"
    )


def targets_of(args: argparse.Namespace) -> dict[str, Any]:
    """The targets that were given, as keyword arguments of planners and queries."""
    names = (*TARGETS, "expected")
    return {name: value for name in names if (value := getattr(args, name, None)) is not None}


def add_bounds(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Adds --bounds LOW,HIGH."""
    parser.add_argument(
        "--bounds",
        default=default,
        required=default is None,
        metavar="LOW,HIGH",
        help="the values' range" + (f" ({default})" if default else ""),
    )


def bounds_of(args: argparse.Namespace) -> tuple[str, str]:
    """The two numbers of --bounds."""
    parts = args.bounds.split(",")
    if len(parts) != 2:
        raise ParameterError("--bounds needs two numbers with a comma between, e.g. 0,100.")
    return parts[0], parts[1]


def add_labels(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Adds --labels, --label and --other."""
    named = parser.add_mutually_exclusive_group(required=required)
    named.add_argument(
        "--labels",
        metavar="L,L,…",
        help='labels, how many numbers from 0 on, a JSON list ["a, b", "c"], or @FILE with a '
        "label on each line",
    )
    named.add_argument(
        "--label", action="append", metavar="L", help="one label, as it is; to be repeated"
    )
    parser.add_argument("--other", metavar="LABEL", help="a bucket for all other labels")


def add_candidates(parser: argparse.ArgumentParser) -> None:
    """Adds --candidates and --spread."""
    parser.add_argument(
        "--candidates",
        metavar="L,L,…",
        help="labels to show, a JSON list, or @FILE with a label on each line",
    )
    parser.add_argument(
        "--spread",
        default=str(DEFAULT_SPREAD),
        metavar="S",
        help=f"plan the error as if values were spread evenly over S labels ({DEFAULT_SPREAD})",
    )


def add_tree(parser: argparse.ArgumentParser) -> None:
    """Adds --alphabet, --length and --spread of a tree of prefixes."""
    parser.add_argument(
        "--alphabet", default=LETTERS, metavar="A…", help="characters that are told apart (a–z'-)"
    )
    parser.add_argument(
        "--length", default=DEFAULT_LENGTH, metavar="N", help=f"of words ({DEFAULT_LENGTH})"
    )
    parser.add_argument(
        "--spread",
        default=str(DEFAULT_TREE_SPREAD),
        metavar="S",
        help=f"plan the error as if prefixes were spread evenly over S ({DEFAULT_TREE_SPREAD})",
    )


def candidates_of(args: argparse.Namespace) -> list[Any]:
    """What --candidates says: a list of labels, empty where it is not given."""
    return [] if args.candidates is None else _listed(args.candidates.strip(), "--candidates")


def _power(text: str | None) -> str | int | None:
    """A number, also written as a power: 2^64."""
    base, _, exponent = (text or "").partition("^")
    if base.isdecimal() and exponent.isdecimal() and len(base + exponent) < 6:
        power: int = int(base) ** int(exponent)
        return power
    return text


def labels_of(args: argparse.Namespace) -> int | list[Any]:
    """What --labels or --label say: a number of buckets, or a list of labels."""
    if args.label is not None:
        return list(args.label)
    text = args.labels.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    return _listed(text, "--labels")


def _listed(text: str, option: str) -> list[Any]:
    """Labels between commas, a JSON list of them, or the lines of a file."""
    if text.startswith("@"):
        return _labels_in(Path(text[1:]))
    if text.startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            raise ParameterError(
                f'{option} begins with [ but is no JSON list; write ["a", "b"], or use @FILE.'
            ) from None
        return list(found)
    return [label.strip() for label in text.split(",")]


def _labels_in(path: Path) -> list[str]:
    """The lines of a file, without empty ones."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except UnicodeError:
        raise ParameterError(f"{path} is not in the encoding UTF-8; convert it first.") from None
    return [line for line in lines if line.strip()]


# one planner per query


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """What every planner takes besides users and ε, as keyword arguments."""
    return {"padded": args.padded, "cell": args.cell, **targets_of(args)}


def _count(args: argparse.Namespace) -> AnyPlan:
    return plan_count(args.users, args.epsilon, **_asked(args))


def _integer_sum(args: argparse.Namespace) -> AnyPlan:
    return plan_integer_sum(args.users, args.epsilon, args.largest, **_asked(args))


def _histogram(args: argparse.Namespace) -> AnyPlan:
    labels = labels_of(args)
    return plan_histogram(args.users, args.epsilon, labels, other=args.other, **_asked(args))


def _check_grouped(args: argparse.Namespace) -> None:
    """Refuses what queries by groups of users are not planned for."""
    if args.mse_overhead is not None or args.relative_error is not None:
        raise ParameterError(
            "Such queries are planned for --rmse or --max-messages; drop the other target."
        )
    if args.epsilon is None:
        raise ParameterError("Such queries are planned for an epsilon; give one with --epsilon.")


def _heavy_hitters(args: argparse.Namespace) -> AnyPlan:
    _check_grouped(args)
    return plan_heavy_hitters(
        args.users,
        args.epsilon,
        alphabet=args.alphabet,
        length=args.length,
        spread=args.spread,
        **_asked(args),
    )


def _frequencies(args: argparse.Namespace) -> AnyPlan:
    _check_grouped(args)
    return plan_frequencies(
        args.users,
        args.epsilon,
        candidates=candidates_of(args),
        domain=_power(args.domain),  # type: ignore[arg-type]
        spread=args.spread,
        **_asked(args),
    )


def _real_sum(args: argparse.Namespace) -> AnyPlan:
    radix = None if args.radix is None else args.radix.split(",")
    bounds = bounds_of(args)
    return plan_real_sum(args.users, args.epsilon, bounds=bounds, radix=radix, **_asked(args))


def _quantiles(args: argparse.Namespace) -> AnyPlan:
    if args.max_messages is not None:
        raise ParameterError("Quantiles are planned for an error; --max-messages does not apply.")
    if args.epsilon is None:
        raise ParameterError("Quantiles are planned for an epsilon; give one with --epsilon.")
    bounds = bounds_of(args)
    return plan_quantiles(
        args.users, args.epsilon, bounds, bins=args.bins, points=args.points, **_asked(args)
    )


def run(args: argparse.Namespace, make: Callable[[argparse.Namespace], AnyPlan]) -> None:
    """Makes the plan, shows it, and writes it if asked."""
    plan = make(args)
    data, tables = plan.to_dict(), []
    if args.fleet:
        from shuffledp.spark.rates import fleet_for

        fleet = fleet_for(plan)
        data["fleet"] = fleet.to_dict()
        tables.append(facts(f"Fleet for {fleet.users:,} users", fleet.rows()))
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    write_output(args, text, data, lambda console: console.print(plan_table(plan), *tables))


def plan_table(plan: AnyPlan) -> Any:
    """A plan as a table."""
    rows = describe_plan(plan)
    if plan.report_size > MOST_REPORT_SIZE:
        rows.append(
            ("warning", f"the service takes at most {MOST_REPORT_SIZE:,} messages in a report")
        )
    return facts(f"Plan: {plan.protocol.query}", rows)
