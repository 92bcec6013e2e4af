"""`shuffledp plan`: from a target to certified parameters."""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import MISSING
from typing import Any

from shuffledp.cells.search import BEST, CELL_CHOICES
from shuffledp.cli.output import Commands, Facts, add_command, add_group, write_output
from shuffledp.cli.query_arguments import add_arguments, as_phrase, given
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted
from shuffledp.plans.machine_checked import machine_checked
from shuffledp.plans.plan import Plan
from shuffledp.plans.text import describe_plan
from shuffledp.queries.base import Query
from shuffledp.queries.catalogue import CATALOGUE
from shuffledp.queries.options import TARGETS, Argument, arguments
from shuffledp.tasks.wire import MOST_REPORT_SIZE

AnyPlan = Plan[Any]
AnyQuery = type[Query[Any]]


def add_to(commands: Commands) -> None:
    """Adds `plan`, with one command per query below it."""
    queries = add_group(commands, "plan", "find the cheapest certified parameters", "QUERY")
    for query in CATALOGUE:
        if query.declaration.planner is not None:
            _add_query(queries, query)


def _add_query(queries: Commands, query: AnyQuery) -> None:
    name, said = query.name, query.declaration
    example = f"plan {name} --users 10000 --epsilon 1 {said.plan_example}".rstrip()
    parser = add_command(
        queries,
        name,
        lambda args: run(args, query),
        f"plan: {as_phrase(query.summary())}",
        examples=[example, f"{example} --padded --output plan.json"],
    )
    parser.add_argument(
        "--users", required=True, metavar="N", help="participants you can count on, all honest"
    )
    parser.add_argument(
        "--epsilon",
        metavar="E",
        help="the privacy loss allowed; without it, the smallest for --rmse and --max-messages",
    )
    add_arguments(parser, planned_arguments(query))
    parser.add_argument(
        "--padded",
        action="store_true",
        help="for the service: minimise padded reports, not the average number of messages",
    )
    parser.add_argument(
        "--cell",
        default="best",
        choices=CELL_CHOICES,
        help="the kind of cell: the cheapest one (best), or the one named",
    )
    parser.add_argument(
        "--fleet",
        action="store_true",
        help="also estimate how many machines you need, from rates measured on this one",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="also write the plan as JSON; -: JSON and nothing else"
    )


def planned_arguments(query: AnyQuery) -> list[Argument]:
    """The query's arguments that its planner takes, the planner's other arguments, and targets."""
    said = query.declaration
    assert said.planner is not None
    takes = inspect.signature(said.planner).parameters
    declared = {one.name: one for one in arguments(query)}
    own = {name: one.option for name, one in declared.items() if one.option.plans}
    found = []
    for name, option in {**own, **said.plan_options}.items():
        default = takes[name].default if name in takes else None
        if default is inspect.Parameter.empty:
            default = said.plan_defaults.get(name, MISSING)
        kind = declared[name].type if name in declared else object
        found.append(Argument(name=name, option=option, type=kind, default=default))
    return [*found, *(declared[name] for name in TARGETS)]


def make_plan(args: argparse.Namespace, query: AnyQuery) -> AnyPlan:
    """The plan that was asked for."""
    said = query.declaration
    assert said.planner is not None
    asked = given(args, planned_arguments(query))
    for name in TARGETS:
        if name in asked and name not in query.planned_for:
            raise ParameterError(
                f"{query.name} can be planned for {query.possible_targets()}; drop "
                f"--{name.replace('_', '-')}."
            )
    if args.epsilon is None and not said.finds_epsilon:
        raise ParameterError(f"{query.name} needs an epsilon; set one with --epsilon.")
    for name, text in said.plan_defaults.items():
        option = next(one.option for one in arguments(query) if one.name == name)
        asked.setdefault(name, option.read(text) if option.read else text)
    return said.planner(
        args.users, args.epsilon, **_cell_and_padding(args, query), **query.plan_arguments(asked)
    )


def _cell_and_padding(args: argparse.Namespace, query: AnyQuery) -> dict[str, Any]:
    """The options `--cell` and `--padded`, if the planner has them."""
    planner = query.declaration.planner
    assert planner is not None
    if "padded" in inspect.signature(planner).parameters:
        return {"cell": args.cell, "padded": args.padded}
    if args.cell != BEST:
        raise ParameterError(f"{query.name} has one kind of cell; leave --cell out.")
    return {}  # messages are always counted after padding


def run(args: argparse.Namespace, query: AnyQuery) -> None:
    """Makes the plan, shows it, and writes it if asked."""
    plan = make_plan(args, query)
    data, tables = plan.to_dict(), []
    if args.fleet:
        from shuffledp.engines.spark.rates import fleet_for

        fleet = fleet_for(plan)
        data["fleet"] = fleet.to_dict()
        tables.append(Facts(f"Fleet for {counted(fleet.users, 'user')}", fleet.rows()))
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    verbose = getattr(args, "verbose", False)
    write_output(
        args, text, data, lambda console: console.print(plan_table(plan, verbose=verbose), *tables)
    )


def plan_table(plan: AnyPlan, *, verbose: bool = False) -> Any:
    """A plan as a table; if `verbose`, with its parameters and whether its theorems are
    machine-checked."""
    rows = describe_plan(plan, verbose=verbose)
    if verbose:
        rows.append(("theorems", machine_checked(plan.certificate)))
    if plan.report_size > MOST_REPORT_SIZE:
        rows.append(
            ("warning", f"a report of the service has at most {MOST_REPORT_SIZE:,} messages")
        )
    return Facts(f"Plan: {plan.protocol.query}", rows)
