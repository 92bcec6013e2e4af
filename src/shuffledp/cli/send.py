"""`shuffledp send`: sends one value for a task, encrypted."""

from __future__ import annotations

import argparse

from shuffledp.cli.output import Commands, add_command, emit
from shuffledp.cli.task import add_token, given_token, read_task


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


def run(args: argparse.Namespace) -> None:
    from shuffledp.service.client.sending import Client

    task = read_task(args.task)
    token = given_token(args, "client")
    with Client(task, args.shuffler, token, args.outbox, attempts=args.attempts) as client:
        if args.resume:
            client.resume()
        else:
            client.send(task.protocol.parse(args.value))
    emit(
        args,
        {"task": task.id.hex(), "state": "stored by the shuffler"},
        lambda out: out.print(
            f"The shuffler has your encrypted report for {task.name}: {task.report_size} messages, "
            "as many as everybody sends."
        ),
    )
