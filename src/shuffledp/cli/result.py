"""`shuffledp result`: the results that the analyzer has published for a task or a series."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.cli.task import read_task
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, percent, written

ID = "[0-9a-f]{64}"
"""How the id of a task or of a series is written."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "result",
        run,
        "read a task's published results",
        examples=[
            "result --task task.json --analyzer https://analyzer.example",
            "result --task task.json --analyzer https://analyzer.example --csv > results.csv",
            "result --series season --analyzer https://analyzer.example --csv > season.csv",
        ],
        needs=["client"],
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--task", metavar="FILE", help="the task file, or the task's id")
    which.add_argument(
        "--series",
        metavar="FOLDER",
        help="all tasks of a series: the folder that `task series` created, or its id",
    )
    parser.add_argument("--analyzer", required=True, help="its URL")
    parser.add_argument("--csv", action="store_true", help="print CSV and nothing else")


def run(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import ask, call

    if args.series is not None:
        run_series(args)
        return
    task_id = args.task if re.fullmatch(ID, args.task) else read_task(args.task).id.hex()
    if args.csv:
        url = f"{args.analyzer.rstrip('/')}/tasks/{task_id}/results.csv"
        print(call("GET", url).text, end="")
        return
    answer = ask(args.analyzer, f"/tasks/{task_id}/results", fields=["results", "unpublished"])
    found, others = answer["results"], answer["unpublished"]
    emit(args, found, lambda out: show_all(out, found, others))


def run_series(args: argparse.Namespace) -> None:
    """Prints the results of a series by date, with their intervals."""
    from shuffledp.cli.task_series import read_series
    from shuffledp.service.client.collector import ask
    from shuffledp.tasks.results import date_text, series_csv

    tasks = [] if re.fullmatch(ID, args.series) else read_series(args.series)
    series = tasks[0].series_id if tasks else args.series
    members = ask(args.analyzer, f"/series/{series}/results", fields=["members"])["members"]
    if tasks and not {one["task"] for one in members} <= {task.id.hex() for task in tasks}:
        raise ParameterError(
            f"The analyzer has tasks of this series that are not in {args.series}; ask the "
            "collector why, or give the id of the series to see them."
        )
    if args.csv:
        print(series_csv(members), end="")
        return
    found: list[dict[str, Any]] = [
        {
            "from": date_text(one["not_before"]),
            "to": date_text(one["expires"]),
            **{name: one[name] for name in ("place", "task", "name", "results")},
        }
        for one in members
    ]
    emit(args, found, lambda out: _show_series(out, found))


def _show_series(out: Any, found: Sequence[dict[str, Any]]) -> None:
    from rich.table import Table

    from shuffledp.tasks.results import result_lines

    table = Table("from", "batch", "", "estimate", "interval", "")
    for one in found:
        for published in one["results"]:
            for line in result_lines(published["result"]):
                table.add_row(
                    one["from"][:10],
                    str(published["number"]),
                    line.label,
                    written(line.clipped, 2),
                    f"{line.low:,.2f} … {line.high:,.2f}",
                    "implausible" if published["implausible"] else "",
                )
        if not one["results"]:
            table.add_row(one["from"][:10], "–", "", "not published", "", "")
    out.print(table)


def show_all(
    out: Any, found: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]] = ()
) -> None:
    """Prints the results of all batches, and why some are not published."""
    for one in found:
        show(out, one)
    for other in others:
        out.print(
            f"Batch {other['number']} ({other['batch']}) is {other['state']}: "
            f"{other['reason'] or other['problem'] or 'it is being opened'}",
            markup=False,
        )
    if not found and not others:
        out.print(
            "Nothing is published yet; the shuffler's page shows how many reports are waiting."
        )


def show(out: Any, one: dict[str, Any]) -> None:
    """Prints one batch's result for people."""
    from shuffledp.tasks.results import result_lines

    result, dropped = one["result"], one["dropped"]
    out.print(
        f"{one['name']}, batch {one['number']}: {counted(one['reports'], 'report')}, ε = "
        f"{result['epsilon']}"
    )
    for line in result_lines(result):
        out.print(
            f"  {line.label} ≈ {written(line.clipped, 2)}  "
            f"({percent(result['confidence'])} interval {line.low:,.2f} … {line.high:,.2f})"
        )
    out.print(
        f"  anomaly {one['anomaly']:+.2f} standard deviations"
        f"{' (implausible: distrust the estimate)' if one['implausible'] else ''}; "
        f"dropped: {dropped['replayed']:,} replayed, "
        f"{dropped['unopened']:,} unopened, {dropped['malformed']:,} malformed"
    )
