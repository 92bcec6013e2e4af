"""`shuffledp simulate`: the whole protocol many times over, its errors beside their exact law."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from shuffledp import plan_count, plan_integer_sum
from shuffledp.accuracy.lattice import lattice_bins
from shuffledp.cli.output import Commands, add_command, emit, facts, progress_bar
from shuffledp.cli.plan import add_targets, targets_of
from shuffledp.errors import ParameterError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.numbers import whole
from shuffledp.exact.seeded import SeededEntropy
from shuffledp.planning.plan import Plan


def add_to(commands: Commands) -> None:
    """The command."""
    parser = add_command(commands, "simulate", run, "repeat a count or an integer sum, see errors")
    parser.add_argument("--users", required=True, metavar="N", help="users in every run")
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument("--true-value", metavar="T", help="what they hold in all (half of it)")
    parser.add_argument("--largest", default="1", metavar="D", help="the largest value (1)")
    parser.add_argument("--runs", default="1000", metavar="R", help="how often (1000)")
    parser.add_argument("--per-user", action="store_true", help="randomize user by user")
    parser.add_argument("--seed", metavar="S", help="the same runs again (not private)")
    parser.add_argument("--plot", metavar="FILE", help="save the picture")
    add_targets(parser)


def run(args: argparse.Namespace) -> None:
    """Runs it and shows measured beside forecast."""
    largest = whole(args.largest, "--largest")
    make = plan_count if largest == 1 else plan_integer_sum
    shape = () if largest == 1 else (largest,)
    plan = make(args.users, args.epsilon, *shape, **targets_of(args))
    total = whole(
        plan.users * largest // 2 if args.true_value is None else args.true_value,
        "--true-value",
        least=0,
        most=plan.users * largest,
    )
    runs = whole(args.runs, "--runs", most=10**7)
    if args.per_user and plan.users > 10**8:
        raise ParameterError("User by user, at most 100,000,000 users fit; leave --per-user out.")
    errors = simulate(args, plan, total, runs)
    rmse = float(np.sqrt(np.mean(errors**2)))
    forecast = plan.protocol.uses[0].cell.rmse(plan.users, total)
    data = {
        "runs": runs,
        "users": plan.users,
        "true_value": total,
        "epsilon": float(plan.epsilon),
        "mean_error": float(errors.mean()),
        "rmse": rmse,
        "forecast_rmse": forecast,
        "messages_per_user": plan.forecast.messages_per_user,
        "seeded": args.seed is not None,
    }
    law = plan.protocol.uses[0].cell.error_law(plan.users, total)
    if args.plot:
        from shuffledp.plots.results import plot_simulation

        plot_simulation(plan, errors, law, args.plot)
    emit(args, data, lambda console: console.print(_table(data, errors, law)))


def simulate(
    args: argparse.Namespace, plan: Plan, total: int, runs: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The errors of so many independent runs."""
    entropy: Entropy = SYSTEM if args.seed is None else SeededEntropy(args.seed)
    tally = np.zeros(plan.protocol.uses[0].cell.largest + 1, np.int64)
    full, rest = divmod(total, plan.protocol.uses[0].cell.largest)
    tally[-1] += full
    tally[rest] += rest > 0
    tally[0] += plan.users - tally.sum()
    values = np.repeat(np.arange(len(tally)), tally) if args.per_user else None
    errors = np.empty(runs)
    with progress_bar(args, f"{runs:,} runs of {plan.users:,} users", runs) as progress:
        for place in range(runs):
            if values is None:
                batch = plan.protocol.aggregate_tally(tally, entropy)
            else:
                batch = plan.randomize_all(values, entropy)
            view = plan.release(batch)
            plain = int(view.plus[0] - view.minus[0])
            errors[place] = float(plan.protocol.uses[0].cell.estimate(plain, 0, view.users)) - total
            progress(1)
    return errors


def _table(data: dict[str, Any], errors: Any, law: tuple[Any, Any]) -> Any:
    from rich.console import Group
    from rich.table import Table

    rows = [
        ("runs", f"{data['runs']:,} of {data['users']:,} users, true value {data['true_value']:,}"),
        ("mean error", f"{data['mean_error']:+.4f} (forecast 0)"),
        ("RMSE", f"{data['rmse']:.4f} (forecast {data['forecast_rmse']:.4f})"),
    ]
    if data["seeded"]:
        rows.append(("seeded", "these runs can be repeated by anybody: not private"))
    table = Table(title="errors: measured beside the exact law", title_justify="left", box=None)
    for name in ("error", "measured", "exact", ""):
        table.add_column(name, justify="left" if name == "" else "right")
    edges = lattice_bins(law[0], 0.5 * data["forecast_rmse"])
    edges = edges[np.abs(edges) < 4 * data["forecast_rmse"]]
    measured, _ = np.histogram(errors, bins=edges)
    exact, _ = np.histogram(law[0], bins=edges, weights=law[1])
    for place in range(len(measured)):
        part = measured[place] / data["runs"]
        middle = (edges[place] + edges[place + 1]) / 2
        bar = "█" * round(60 * part)
        table.add_row(f"{middle:+.2f}", f"{part:.3f}", f"{exact[place]:.3f}", bar)
    return Group(facts("Simulation", rows), table)
