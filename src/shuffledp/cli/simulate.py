"""`shuffledp simulate`: many runs of a protocol, and their errors next to the exact law."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import plan_count, plan_integer_sum
from shuffledp.cli.output import Commands, Facts, add_command, emit, progress_bar
from shuffledp.cli.query_arguments import TARGET_ARGUMENTS, add_arguments, given
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy, SeededEntropy
from shuffledp.numbers.exact import counted, whole
from shuffledp.numbers.lattice import lattice_bins
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import ErrorLaw, Estimate

if TYPE_CHECKING:
    from rich.console import RenderableType


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "simulate",
        run,
        "run a count or an integer sum many times and show the errors",
        examples=[
            "simulate --users 10000 --epsilon 1",
            "simulate --users 10000 --epsilon 1 --largest 5 --runs 200 --plot errors.png",
        ],
    )
    parser.add_argument("--users", required=True, metavar="N", help="users in every run")
    parser.add_argument("--epsilon", required=True, metavar="E", help="the privacy loss allowed")
    parser.add_argument(
        "--true-value",
        metavar="T",
        help="the true count or sum (default: half of the largest possible)",
    )
    parser.add_argument("--largest", default="1", metavar="D", help="the largest value (1)")
    parser.add_argument("--runs", default="1000", metavar="R", help="how many runs (1000)")
    parser.add_argument("--per-user", action="store_true", help="randomize user by user")
    parser.add_argument("--seed", metavar="S", help="repeat the same runs (not private)")
    parser.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")
    add_arguments(parser, TARGET_ARGUMENTS)


def run(args: argparse.Namespace) -> None:
    """Runs the protocol many times and shows measured errors next to the forecast."""
    largest = whole(args.largest, "--largest")
    make = plan_count if largest == 1 else plan_integer_sum
    shape = () if largest == 1 else (largest,)
    plan = make(args.users, args.epsilon, *shape, **given(args, TARGET_ARGUMENTS))
    total = whole(
        plan.users * largest // 2 if args.true_value is None else args.true_value,
        "--true-value",
        least=0,
        most=plan.users * largest,
    )
    runs = whole(args.runs, "--runs", most=10**7)
    if args.per_user and plan.users > 10**8:
        raise ParameterError("--per-user takes at most 100,000,000 users; remove it.")
    errors = simulate(args, plan, total, runs)
    rmse = float(np.sqrt(np.mean(errors**2)))
    forecast = plan.protocol.members[0].cell.rmse(plan.users, total)
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
    law = plan.protocol.members[0].cell.error_law(plan.users, total)
    if args.plot:
        from shuffledp.plots.simulation import plot_simulation

        plot_simulation(plan, errors, law, args.plot)
    emit(args, data, lambda console: console.print(_table(data, errors, law)))


def simulate(
    args: argparse.Namespace, plan: Plan[Estimate], total: int, runs: int
) -> NDArray[np.float64]:
    """The errors, estimate − truth, of `runs` independent runs."""
    entropy: Entropy = SYSTEM if args.seed is None else SeededEntropy(args.seed)
    cell = plan.protocol.members[0].cell
    tally = tally_of(total, plan.users, cell.largest)
    values = np.repeat(np.arange(len(tally)), tally) if args.per_user else None
    sums = np.empty(runs, np.int64)
    with progress_bar(
        args, f"{counted(runs, 'run')} of {counted(plan.users, 'user')}", runs
    ) as progress:
        for run_number in range(runs):
            if values is None:
                batch = plan.protocol.aggregate_tally(tally, entropy)
            else:
                batch = plan.randomize_all(values, entropy)
            view = plan.release(batch)
            sums[run_number] = view.plus[0] - view.minus[0]
            progress(1)
    return cell.estimates(sums, plan.users) - total


def tally_of(total: int, users: int, largest: int) -> NDArray[np.int64]:
    """How many users hold each of 0..largest, if almost all hold 0 or the largest value and the
    values add up to `total`."""
    tally = np.zeros(largest + 1, np.int64)
    full, rest = divmod(total, largest)
    tally[-1] += full
    tally[rest] += rest > 0
    tally[0] += users - tally.sum()
    return tally


def _table(data: dict[str, Any], errors: NDArray[np.float64], law: ErrorLaw) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    rows = [
        (
            "runs",
            f"{data['runs']:,} of {counted(data['users'], 'user')}, true value "
            f"{data['true_value']:,}",
        ),
        ("mean error", f"{data['mean_error']:+.4f} (forecast 0)"),
        ("RMSE", f"{data['rmse']:.4f} (forecast {data['forecast_rmse']:.4f})"),
    ]
    if data["seeded"]:
        rows.append(("seeded", "anybody can repeat these runs: not private"))
    table = Table(title="errors: measured and exact", title_justify="left", box=None)
    for name in ("error", "measured", "exact", ""):
        table.add_column(name, justify="left" if name == "" else "right")
    edges = lattice_bins(law[0], 0.5 * data["forecast_rmse"])
    reach = max(4 * data["forecast_rmse"], 1.5 * (edges[1] - edges[0]))  # three bins at least
    edges = edges[np.abs(edges) <= reach]
    measured, _ = np.histogram(errors, bins=edges)
    exact, _ = np.histogram(law[0], bins=edges, weights=law[1])
    for middle, count, chance in zip((edges[:-1] + edges[1:]) / 2, measured, exact, strict=True):
        part = count / data["runs"]
        shown = f"{round(middle, 2) + 0.0:+.2f}"  # without it, -0.0 and its neighbours show a minus
        table.add_row(shown, f"{part:.3f}", f"{chance:.3f}", "█" * round(60 * part))
    return Group(Facts("Simulation", rows), table)
