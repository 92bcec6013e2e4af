"""`shuffledp task log`: read and check the public log of tasks."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.cli.output import Commands, add_command, emit, progress_bar, read_json
from shuffledp.documents.files import write_whole
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted

if TYPE_CHECKING:
    from rich.console import Console

    from shuffledp.service.client.watching import Log
    from shuffledp.tasks.task import Task


def add_log(actions: Commands) -> None:
    """Adds the action `log`."""
    log = add_command(
        actions,
        "log",
        run_log,
        "every task that anybody can be asked: read and check the public log",
        examples=[
            "task log --analyzer https://analyzer.example --shuffler https://shuffler.example",
            "task log --analyzer https://analyzer.example --seen head.json",
        ],
        needs=["client"],
    )
    log.add_argument("--analyzer", required=True, metavar="URL", help="its URL")
    log.add_argument(
        "--shuffler", metavar="URL", help="also check what this shuffler has witnessed"
    )
    log.add_argument(
        "--seen",
        metavar="FILE",
        help="check that the log continues the head in this file, and keep the new head there",
    )


def run_log(args: argparse.Namespace) -> None:
    from shuffledp.service.client.watching import Log, same_questions

    log = Log(args.analyzer)
    if args.seen and Path(args.seen).exists():
        _check_seen(log, args.seen)
    witness = log.check_witnessed(args.shuffler).hex() if args.shuffler else None
    with progress_bar(args, "reading tasks", len(log.entries)) as progress:
        tasks = log.tasks(lambda: progress(1))
    same = same_questions(tasks)
    data = {
        "head": log.head.to_dict(),
        "shuffler_key": witness,
        "tasks": [
            {
                "task": entry.task_id.hex(),
                "collector_key": entry.collector.key.hex(),
                "same_question_as": same.get(place, []),
                **_facts(tasks[place]),
            }
            for place, entry in enumerate(log.entries)
        ],
    }
    if args.seen:
        write_whole(args.seen, json.dumps(log.head.to_dict(), indent=2), durable=True)
    emit(args, data, lambda out: _show(out, data))


def _check_seen(log: Log, path: str) -> None:
    from shuffledp.tasks.errors import ProofError
    from shuffledp.tasks.task_proof import Head

    try:
        seen = Head.from_dict(read_json(path))
    except ProofError:
        raise ParameterError(f"{path} holds no head of a log; give another file.") from None
    seen.check()
    log.check_continues(seen.size, seen.root, seen.log_key)


def _facts(task: Task | None) -> dict[str, Any]:
    """What a task asks; nothing where its text is not given any more."""
    if task is None:
        return {"name": None, "question": None, "expires": None}
    return {"name": task.name, "question": task.question, "expires": task.expires}


def _show(out: Console, data: Mapping[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    head = data["head"]
    out.print(f"{counted(head['size'], 'task')}, all signed; root {head['root']}")
    if data["shuffler_key"]:
        out.print(f"The shuffler {data['shuffler_key']} has witnessed this log.")
    made = Table(box=None)
    for name in ("", "task", "question", "until", "same question"):
        made.add_column(name, overflow="fold")
    for place, task in enumerate(data["tasks"]):
        until = task["expires"] and datetime.fromtimestamp(task["expires"], UTC).date().isoformat()
        same = ", ".join(str(other) for other in task["same_question_as"])
        question = task["question"] or "(not given any more)"
        made.add_row(str(place), f"{task['task'][:16]}…", Text(question), until or "", same)
    if data["tasks"]:
        out.print(made)
    if any(task["same_question_as"] for task in data["tasks"]):
        out.print("Tasks with the same question at the same time: ask the collector why.")
