"""`shuffledp send`: sends one value for a task, encrypted."""

from __future__ import annotations

import argparse
from typing import Any

from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.cli.task import add_token, given_token, read_task
from shuffledp.errors import ParameterError
from shuffledp.protocols.base import Protocol


def add_to(commands: Commands) -> None:
    """Adds the command `send`."""
    parser = add_command(commands, "send", run, "send your value for a task to the shuffler")
    parser.add_argument("--task", required=True, help="the task file")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--value", help="your value; it leaves this device randomized and encrypted")
    what.add_argument("--resume", action="store_true", help="send the stored report again")
    parser.add_argument("--shuffler", required=True, help="its URL")
    parser.add_argument("--outbox", help="folder where encrypted reports wait (your data folder)")
    parser.add_argument("--attempts", type=int, default=8, help="before giving up for now")
    add_token(parser, "client")


def parse_value(protocol: Protocol, text: str) -> Any:
    """The value that a text stands for in this protocol."""
    if protocol.kind == "histogram":
        labels = protocol.describe()["labels"]
        return next((label for label in labels if str(label) == text), text)
    try:
        return float(text) if protocol.kind in ("summation", "ranges") else int(text)
    except ValueError:
        raise ParameterError("The value must be a number for this task; see `task show`.") from None


def run(args: argparse.Namespace) -> None:
    from shuffledp.service.client.sending import Client

    task = read_task(args.task)
    token = given_token(args, "client")
    with Client(task, args.shuffler, token, args.outbox, attempts=args.attempts) as client:
        if args.resume:
            client.resume()
        else:
            client.send(parse_value(task.protocol, args.value))
    emit(
        args,
        {"task": task.id.hex(), "state": "stored by the shuffler"},
        lambda out: out.print(
            f"The shuffler has your encrypted report for {task.name}: {task.report_size} messages, "
            "as many as everybody sends."
        ),
    )
