"""`shuffledp task series` creates tasks that follow each other; `task current` finds them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.cli.output import Commands, Facts, add_command, emit, read_json, write_output
from shuffledp.documents.files import write_whole
from shuffledp.errors import BudgetExceeded, ParameterError
from shuffledp.numbers.exact import positive, show
from shuffledp.tasks.series import EVERY_DAYS, MOST_TASKS, Series

if TYPE_CHECKING:
    from shuffledp.tasks.oblivious import GatewayKey
    from shuffledp.tasks.task import Task
    from shuffledp.tasks.tokens import TokenIssuer

SUFFIX = ".task.json"


def add_series(actions: Commands) -> None:
    """Adds `series` to the command `task`."""
    parser = add_command(
        actions,
        "series",
        run_series,
        "repeat a task every day or week, with a forecast of what that costs a device",
        examples=[
            "task series task.json --every week --until 2031-03-31 --key key-1.json "
            "--key key-2.json --device-budget 4 --folder season"
        ],
        needs=["client"],
    )
    parser.add_argument("task", metavar="FILE", help="the task to repeat, or -")
    parser.add_argument("--every", choices=sorted(EVERY_DAYS), required=True)
    parser.add_argument(
        "--until", required=True, metavar="WHEN", help="no task begins at this date or later (UTC)"
    )
    parser.add_argument(
        "--begin", metavar="WHEN", help="when the first task begins (default: as the given task)"
    )
    parser.add_argument(
        "--key",
        action="append",
        required=True,
        metavar="FILE",
        help="an analyzer's key; repeat the option to use several keys in turn",
    )
    parser.add_argument(
        "--issuer-key",
        action="append",
        default=[],
        metavar="FILE",
        help="for tasks with an issuer: a key from `issuer new-key`; once for each task of the "
        "series, in their order",
    )
    parser.add_argument(
        "--device-budget",
        required=True,
        metavar="E",
        help="the ε that one device may spend on the whole series",
    )
    parser.add_argument(
        "--beyond-budget", action="store_true", help="create the tasks even if they cost more"
    )
    parser.add_argument(
        "--folder",
        required=True,
        metavar="FOLDER",
        help="where the task files go; created if missing",
    )

    current = add_command(
        actions,
        "current",
        run_current,
        "the tasks that a shuffler takes reports for, now or soon",
        examples=[
            'task current --shuffler https://shuffler.example --name "dark mode"',
            "task current --shuffler https://shuffler.example --relay https://relay.example "
            "--task last-week.json --series ID --output task.json",
        ],
        needs=["client"],
    )
    current.add_argument("--shuffler", required=True, metavar="URL", help="its URL")
    which = current.add_mutually_exclusive_group()
    which.add_argument(
        "--name", default="", metavar="TEXT", help="only tasks whose names begin with this"
    )
    which.add_argument(
        "--series", metavar="ID", help="only tasks of this series, by its id or full name"
    )
    current.add_argument(
        "--output",
        metavar="FILE",
        help="write the task that can be answered now, for `send`; - for standard output",
    )
    _add_relay(current)


def _add_relay(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `current` that hide who asks."""
    parser.add_argument(
        "--relay",
        metavar="URL",
        default="",
        help="ask through it, so that the shuffler does not see your address",
    )
    key = parser.add_mutually_exclusive_group()
    key.add_argument(
        "--gateway-key",
        metavar="FILE",
        help="with --relay: the shuffler's key, JSON from `shuffledp relay key`, as published by "
        "the collector",
    )
    key.add_argument(
        "--task",
        metavar="FILE",
        help="with --relay: a task of this shuffler, whose gateway key is used",
    )


def run_current(args: argparse.Namespace) -> None:
    from shuffledp.cli.task import moment_text, summary
    from shuffledp.service.client.finding import TaskFinder

    finder = TaskFinder(args.shuffler, relay=args.relay, gateway=_gateway(args))
    if args.output is not None:
        task = finder.now(args.name, args.series)
        until = f"{task.name}, until {moment_text(task.expires)}"
        write_output(args, task.canonical(), summary(task), until)
        return
    found = finder.open(args.name, args.series)
    lines = [
        f"{one['task']}  {moment_text(one['not_before'])} to {moment_text(one['expires'])}  "
        f"{one['name']}"
        for one in found
    ]
    emit(args, found, "\n".join(lines) or "No task is open there.")


def _gateway(args: argparse.Namespace) -> GatewayKey | None:
    """The gateway's key that the options name; None if they name none."""
    from shuffledp.cli.relay import given_gateway
    from shuffledp.cli.task import read_task
    from shuffledp.service.client.relaying import gateway_of

    return gateway_of(read_task(args.task)) if args.task else given_gateway(args)


def run_series(args: argparse.Namespace) -> None:
    from shuffledp.cli.task import moment, read_task
    from shuffledp.tasks.keys import PublicKey

    pattern = read_task(args.task)
    pattern.verify()
    begin = pattern.not_before if args.begin is None else moment(args.begin, "begin")
    keys = [PublicKey.from_dict(read_json(file)) for file in args.key]
    if pattern.series is not None:
        raise ParameterError(
            "This task already belongs to a series; give the task that the series was made from."
        )
    series = Series(name=pattern.name, every=args.every, tasks=1, place=1)
    begins = range(begin, moment(args.until, "until"), series.seconds)
    if not 0 < len(begins) <= MOST_TASKS:
        raise ParameterError(
            f"A series has 1 to {MOST_TASKS:,} tasks, but {len(begins):,} would begin before "
            "--until; choose another --until or --begin."
        )
    if len(keys) > len(begins):
        raise ParameterError("There are more keys than tasks; give at most one per task.")
    forecast = _forecast(pattern, len(begins), EVERY_DAYS[args.every], args)
    issuers = _issuers(pattern, len(begins), args.issuer_key)
    tasks = [
        pattern.in_series(
            replace(series, tasks=len(begins), place=place + 1),
            start,
            keys[place * len(keys) // len(begins)],
            issuers[place],
        )
        for place, start in enumerate(begins)
    ]
    files = _write(tasks, Path(args.folder))
    forecast["series"] = tasks[0].series_id
    data = forecast | {
        "tasks": [
            {"task": task.id.hex(), "name": task.name, "file": str(file)}
            for task, file in zip(tasks, files, strict=True)
        ]
    }
    emit(args, data, _table(forecast, args.folder))


def _forecast(task: Task, count: int, days: int, args: argparse.Namespace) -> dict[str, Any]:
    """What the series costs a device that answers every task; raises `BudgetExceeded` if that is
    more than the declared budget."""
    from shuffledp.service.client.policy import PERIOD_DAYS

    epsilon, budget = task.protocol.epsilon, positive(args.device_budget, "device_budget")
    total = count * epsilon
    if total > budget and not args.beyond_budget:
        raise BudgetExceeded(
            f"A device that answers all {count:,} tasks of ε = {show(epsilon)} spends "
            f"{show(total)}, more than the declared {show(budget)}; create fewer or cheaper tasks, "
            "or add --beyond-budget. Nothing was written."
        )
    most = min(count, -(-PERIOD_DAYS // days) + 1)  # the first answered late, the last one early
    return {
        "count": count,
        "epsilon_each": str(epsilon),
        "epsilon_in_all": str(total),
        "device_budget": str(budget),
        "period_days": PERIOD_DAYS,
        "most_epsilon_per_period": str(most * epsilon),
    }


def _issuers(pattern: Task, count: int, files: list[str]) -> list[TokenIssuer | None]:
    """The issuer of each task, each with its own key: tokens of two tasks with one key would count
    in either, so the issuer would refuse the second one."""
    from shuffledp.cli.issuer import read_issuer_key

    if pattern.issuer is None:
        if files:
            raise ParameterError("The task has no issuer; leave --issuer-key out.")
        return [None] * count
    keys = [read_issuer_key(file) for file in files]
    if len({key.id for key in keys}) != len(keys) or len(keys) != count:
        raise ParameterError(
            f"Each of the {count:,} tasks needs its own issuer key; create {count:,} keys with "
            "`shuffledp issuer new-key` and give --issuer-key once for each."
        )
    return [replace(pattern.issuer, key=key) for key in keys]


def _write(tasks: list[Task], folder: Path) -> list[Path]:
    """Writes the task files; refuses a folder that already contains task files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(
            f"{folder} cannot be created ({error.strerror}); choose another folder."
        ) from None
    if any(folder.glob(f"*{SUFFIX}")):
        raise ParameterError(f"{folder} already contains task files; choose another folder.")
    files = [folder / f"{place:04d}{SUFFIX}" for place in range(1, len(tasks) + 1)]
    for task, file in zip(tasks, files, strict=True):
        write_whole(str(file), task.canonical())
    return files


def _table(forecast: dict[str, Any], folder: str) -> Any:
    from shuffledp.service.client.policy import MOST_EPSILON_PER_PERIOD

    period = forecast["period_days"]
    rows = [
        ("series", forecast["series"]),
        ("tasks", f"{forecast['count']:,}, in {folder}; register each of them"),
        ("ε of each", forecast["epsilon_each"]),
        (
            "ε of a device that answers all",
            f"{forecast['epsilon_in_all']} of {forecast['device_budget']} declared",
        ),
        (
            f"at most in {period} days",
            f"{forecast['most_epsilon_per_period']}; devices refuse more than "
            f"{show(MOST_EPSILON_PER_PERIOD)} unless their policy says otherwise",
        ),
    ]
    return Facts("A series", rows)


def read_series(folder: str) -> list[Task]:
    """The tasks of a series, in the order of their dates."""
    from shuffledp.cli.task import read_task

    tasks = [read_task(str(file)) for file in sorted(Path(folder).glob(f"*{SUFFIX}"))]
    if not tasks:
        raise ParameterError(
            f"{folder} contains no task files; use the folder that `task series` created."
        )
    found = {task.series_id for task in tasks}
    if len(found) > 1 or "" in found:
        raise ParameterError(
            f"{folder} does not contain exactly the tasks of one series; use the folder as `task "
            "series` created it, or the id of the series."
        )
    return sorted(tasks, key=lambda task: task.not_before)
