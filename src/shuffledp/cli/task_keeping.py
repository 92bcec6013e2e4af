"""`shuffledp task list`, `archive` and `delete`: what a server's operator does with its tasks."""

from __future__ import annotations

import argparse
import re
from typing import Any

from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.cli.tokens import add_token, given_token
from shuffledp.errors import ParameterError

SERVER = "its URL: the operators' address of a shuffler or an analyzer"


def add_keeping(actions: Commands) -> None:
    """Adds `list`, `archive` and `delete` to the command `task`."""
    listing = add_command(
        actions,
        "list",
        run_list,
        "all tasks of a server and their states",
        examples=["task list --server http://127.0.0.1:8811"],
        needs=["client"],
    )
    archive = add_command(
        actions,
        "archive",
        run_archive,
        "end a task at a server for good: nothing more is accepted for it",
        examples=["task archive --server http://127.0.0.1:8811 --task ID"],
        needs=["client"],
    )
    archive.add_argument(
        "--discard",
        action="store_true",
        help="give up the reports that wait for a batch, and batches that may still come",
    )
    delete = add_command(
        actions,
        "delete",
        run_delete,
        "delete an archived task and all that a server stores about it",
        examples=["task delete --server http://127.0.0.1:8811 --task ID"],
        needs=["client"],
    )
    for parser in (listing, archive, delete):
        parser.add_argument("--server", required=True, metavar="URL", help=SERVER)
        add_token(parser, "operator")
    for parser in (archive, delete):
        parser.add_argument("--task", required=True, metavar="ID", help="the task's id")


def run_list(args: argparse.Namespace) -> None:
    found = _call(args, "GET", "/tasks")["tasks"]
    emit(args, found, lambda out: _show(out, found))


def _show(out: Any, found: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from shuffledp.cli.task import moment_text

    table = Table("name", "state", "expires", "waiting", "unfinished", "id")
    for one in found:
        table.add_row(
            one["name"],
            one["state"],
            moment_text(one["expires"]),
            *(
                "store away" if one[name] is None else f"{one[name]:,}"
                for name in ("waiting", "unfinished")
            ),
            one["task"][:16],
        )
    out.print(table if found else "No task is registered here.")
    unlogged = sum(not one["logged"] and one["state"] != "archived" for one in found)
    if unlogged:
        out.print(
            f"{unlogged:,} of these tasks were registered before there was a log of tasks, so "
            "devices refuse them: make them anew, register those, and archive these."
        )


def run_archive(args: argparse.Namespace) -> None:
    done = _call(args, "POST", f"/tasks/{_id(args)}/archive", json={"discard": args.discard})
    emit(
        args, done, lambda out: out.print("The task is archived; nothing more is accepted for it.")
    )


def run_delete(args: argparse.Namespace) -> None:
    done = _call(args, "DELETE", f"/tasks/{_id(args)}")
    emit(
        args, done, lambda out: out.print("The task and all that was stored about it are deleted.")
    )


def _id(args: argparse.Namespace) -> str:
    if not re.fullmatch("[0-9a-f]{64}", args.task):
        raise ParameterError("A task's id is 64 hexadecimal digits; `task list --json` shows it.")
    return str(args.task)


def _call(args: argparse.Namespace, method: str, path: str, **content: Any) -> dict[str, Any]:
    from shuffledp.service.answers import answer_json
    from shuffledp.service.client.collector import call

    url = f"{args.server.rstrip('/')}{path}"
    return answer_json(call(method, url, given_token(args, "operator"), **content))
