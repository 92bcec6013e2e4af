"""`shuffledp plan`: from a target to certified parameters."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from shuffledp import (
    plan_by_group,
    plan_count,
    plan_frequencies,
    plan_heavy_hitters,
    plan_histogram,
    plan_integer_sum,
    plan_quantiles,
    plan_real_sum,
)
from shuffledp.cells.choice import CELL_CHOICES
from shuffledp.cli.output import Commands, add_command, add_group, facts, write_output
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
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted
from shuffledp.plans.plan import Plan
from shuffledp.plans.text import describe_plan
from shuffledp.queries.by_group.result import ANSWERS
from shuffledp.queries.histogram.crosstab_result import combined
from shuffledp.queries.histogram.protocol import checked_labels
from shuffledp.tasks.wire import MOST_REPORT_SIZE

AnyPlan = Plan[Any]
EXAMPLES = {
    "count": "",
    "integer-sum": " --largest 10",
    "real-sum": " --bounds 0,120 --rmse 400",
    "histogram": " --labels walk,bike,bus",
    "frequencies": " --domain 2^64",
    "heavy-hitters": " --length 4",
    "by-group": " --groups may,june,july --answer mean --bounds 0,120",
    "quantiles": " --bounds 0,120",
}
"""What the example of each query's plan has of its own."""


def add_to(commands: Commands) -> None:
    """Adds `plan`, with one command per query below it."""
    queries = add_group(commands, "plan", "find the cheapest certified parameters", "QUERY")
    _query(queries, "count", _count, "how many users hold 1")
    integers = _query(queries, "integer-sum", _integer_sum, "the sum of whole numbers 0..D")
    integers.add_argument("--largest", required=True, metavar="D", help="the largest value")
    real = _query(queries, "real-sum", _real_sum, "the sum of real values")
    add_bounds(real, default="0,1")
    real.add_argument("--radix", metavar="C,C,…", help="fix the digits' bases, e.g. 2,2,2,2")
    real.add_argument(
        "--dither", metavar="K", help="fix how many values the public dither has; 1: no dither"
    )
    table = _query(queries, "histogram", _histogram, "how many users hold each label")
    add_labels(table, required=False)
    add_domains(table)
    _add_by_group(queries)
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


def _add_by_group(queries: Commands) -> None:
    """Adds `plan by-group`."""
    parser = _query(
        queries, "by-group", _by_group, "a count, sum or mean for each of some private groups"
    )
    add_groups(parser, required=True)
    parser.add_argument(
        "--answer", default=ANSWERS[0], choices=ANSWERS, help="what is said about each group"
    )
    parser.add_argument("--largest", metavar="D", help="the largest value of an integer-sum")
    parser.add_argument("--bounds", metavar="LOW,HIGH", help="the range of a real-sum or mean")


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


# one planner per query


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """What every planner takes besides users and ε, as keyword arguments."""
    return {"padded": args.padded, "cell": args.cell, **targets_of(args)}


def _count(args: argparse.Namespace) -> AnyPlan:
    return plan_count(args.users, args.epsilon, **_asked(args))


def _integer_sum(args: argparse.Namespace) -> AnyPlan:
    return plan_integer_sum(args.users, args.epsilon, args.largest, **_asked(args))


def _histogram(args: argparse.Namespace) -> AnyPlan:
    given = (args.labels, args.label, args.domain)
    if sum(one is not None for one in given) != 1 or (args.domain and args.other is not None):
        raise ParameterError(
            "Give --labels (or --label) for one column, or a --domain for each of several columns."
        )
    labels: object = labels_of(args) if args.domain is None else _combinations(args)
    return plan_histogram(args.users, args.epsilon, labels, other=args.other, **_asked(args))


def _power(text: str | None) -> str | int | None:
    """A number, also written as a power: 2^64."""
    base, _, exponent = (text or "").partition("^")
    if base.isdecimal() and exponent.isdecimal() and len(base + exponent) < 6:
        power: int = int(base) ** int(exponent)
        return power
    return text


def _combinations(args: argparse.Namespace) -> tuple[Any, ...]:
    """The names of all combinations of the labels of several columns."""
    return combined([checked_labels(labels) for labels in domains_of(args).values()])


def _by_group(args: argparse.Namespace) -> AnyPlan:
    if args.relative_error is not None or args.epsilon is None:
        raise ParameterError(
            "Plans by group are made for an --epsilon and an error, without --relative-error."
        )
    return plan_by_group(
        args.users,
        args.epsilon,
        declared_groups(args),
        answer=args.answer,
        largest=args.largest,
        bounds=None if args.bounds is None else bounds_of(args),
        **_asked(args),
    )


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
    return plan_real_sum(
        args.users,
        args.epsilon,
        bounds=bounds,
        radix=radix,
        dither=args.dither,
        **_asked(args),
    )


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
        from shuffledp.engines.spark.rates import fleet_for

        fleet = fleet_for(plan)
        data["fleet"] = fleet.to_dict()
        tables.append(facts(f"Fleet for {counted(fleet.users, 'user')}", fleet.rows()))
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
