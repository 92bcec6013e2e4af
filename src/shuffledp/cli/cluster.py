"""`shuffledp shuffle-batch` and `shuffledp open-batch`: encrypted messages on a Spark cluster."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shuffledp.cli.output import Commands, Facts, add_command, emit, file_only, write_output
from shuffledp.numbers.exact import checked_confidence, counted


def add_to(commands: Commands) -> None:
    shuffle = add_command(
        commands,
        "shuffle-batch",
        run_shuffle,
        "order encrypted messages as a batch, on Spark",
        examples=["shuffle-batch day.reports --task task.json --output day.batch"],
        needs=["spark"],
    )
    shuffle.add_argument("files", nargs="+", metavar="FILE", help="reports, or one batch")
    shuffle.add_argument("--output", required=True, metavar="FILE", help="where the batch goes")
    shuffle.add_argument(
        "--order", choices=("canonical", "uniform"), help="default: the task's order"
    )
    shuffle.add_argument("--batch-id", metavar="HEX", help="32 hexadecimal digits (random)")
    opening = add_command(
        commands,
        "open-batch",
        run_open,
        "open a batch, drop copies and tally it, on Spark",
        examples=["open-batch day.batch --task task.json --keys keys --output result.json"],
        needs=["spark"],
    )
    opening.add_argument("file", metavar="FILE", help="the batch")
    opening.add_argument("--keys", required=True, metavar="FOLDER", help="the analyzer's keys")
    opening.add_argument(
        "--seen",
        metavar="FOLDER",
        help="drop messages that were counted before, and add those of this batch",
    )
    opening.add_argument(
        "--ledger", metavar="FILE", help="charge this ledger, once per batch, and keep the result"
    )
    opening.add_argument("--confidence", default="0.95", metavar="P", help="of intervals (0.95)")
    opening.add_argument(
        "--implausible",
        choices=["mark", "hold"],
        default="mark",
        help="what to do with an implausible total (mark)",
    )
    opening.add_argument("--output", metavar="FILE", help="also write the result as JSON")
    for one in (shuffle, opening):
        one.add_argument("--task", required=True, metavar="FILE", help="the task file")
        one.add_argument("--master", metavar="URL", help="the Spark master (local[*])")


@contextmanager
def cluster(master: str | None) -> Iterator[Any]:
    """A Spark session that ends with the command."""
    from shuffledp.spark import session

    found = session(master)
    try:
        yield found
    finally:
        found.stop()


def run_shuffle(args: argparse.Namespace) -> None:
    from shuffledp.cli.task import read_task
    from shuffledp.engines.spark.batch_jobs import shuffle_batch

    file_only(args.output)
    task, name = read_task(args.task), _batch_id(args.batch_id)
    with cluster(args.master) as session:
        done = shuffle_batch(
            session, args.files, args.output, task, order=args.order, batch_id=name
        )
    emit(
        args,
        done,
        Facts(
            f"{counted(done['messages'], 'message')} in {done['order']} order: {args.output}",
            [
                (field, str(done[field]))
                for field in ("batch", "reports", "copies_dropped", "sha256")
            ],
        ),
    )


def run_open(args: argparse.Namespace) -> None:
    from shuffledp.cli.task import read_task
    from shuffledp.engines.spark.batch_jobs import open_batch
    from shuffledp.tasks.errors import TaskError
    from shuffledp.tasks.keys import KeyFolder
    from shuffledp.tasks.results import result_lines

    task = read_task(args.task)
    key = KeyFolder(args.keys).find(task.key.key_id, task.key.epoch)
    if key is None:
        raise TaskError(f"The task's key {task.key.key_id} is not in {args.keys}; give its folder.")
    confidence = checked_confidence(args.confidence)
    with cluster(args.master) as session:
        done = open_batch(
            session,
            args.file,
            task,
            key,
            seen=args.seen,
            ledger=args.ledger,
            confidence=confidence,
            implausible=args.implausible,
        )
    rows = [
        (line.label, f"{line.clipped:z,.2f}  ({line.low:,.2f} … {line.high:,.2f})")
        for line in result_lines(done["result"])
    ]
    dropped = ", ".join(f"{count:,} {what}" for what, count in done["dropped"].items())
    title = f"{done['name']}: {counted(done['reports'], 'report')}"
    write_output(
        args,
        json.dumps(done, indent=2, ensure_ascii=False) + "\n",
        done,
        Facts(title, [*rows, ("dropped", dropped)]),
    )


def _batch_id(text: str | None) -> bytes | None:
    from shuffledp.errors import ParameterError

    try:
        name = None if text is None else bytes.fromhex(text)
    except ValueError:
        name = b""
    if name is not None and len(name) != 16:
        raise ParameterError("--batch-id must be 32 hexadecimal digits.")
    return name
