"""`shuffle_batch` and `open_batch`: files of encrypted messages to a batch, a batch to a
result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.data.sources import file_system, shown
from shuffledp.documents.files import sync
from shuffledp.engines.spark import batch_parts as batches
from shuffledp.engines.spark.batch_files import (
    MessageFile,
    Messages,
    batch_header,
    beside,
    folder_of,
    is_manifest,
    join,
    look_at,
    part_files,
    read_manifest,
)
from shuffledp.engines.spark.batch_parts import OpenPart
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.numbers.exact import checked_confidence
from shuffledp.release.ledger import Ledger
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import PrivateKey
from shuffledp.tasks.opening import AllowedNumbers, Tally
from shuffledp.tasks.ordering import ORDER_SECRET_BYTES
from shuffledp.tasks.parts import part_name
from shuffledp.tasks.replays import ReplayMemory
from shuffledp.tasks.results import OpenedBatch, publish_batch
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import BATCH_HEADER_BYTES, MESSAGE_BYTES, BatchHeader, read_upload


def shuffle_batch(
    session: Any,
    inputs: Sequence[str],
    target: str,
    task: Task,
    *,
    order: str | None = None,
    batch_id: bytes | None = None,
) -> dict[str, Any]:
    """Writes a batch in an order that does not show who sent what: canonical, or uniform under a
    fresh secret.

    Inputs are files of reports, or one batch in any order: in one file, or the manifest of a batch
    that the shuffler exported. A report that occurs more than once counts once. Ensures: raises
    unless the batch is as large as the task's rule says; canonical order produces the same bytes as
    on one machine.
    """
    task.verify()
    files, header, firsts = _inputs(session, inputs, task, batch_id)
    uniform = (order or task.order) == "uniform"
    secret = SYSTEM.words(ORDER_SECRET_BYTES, np.uint8).tobytes() if uniform else None
    with _folder_beside(target) as folder:
        counts = batches.order_parts(session, files, firsts, folder, secret)
        _check_total(sum(counts.values()), header, task)
        digest = join(folder, [part_name(n) for n in sorted(counts)], target, header.to_bytes())
    return {
        "batch": header.batch_id.hex(),
        "reports": header.reports,
        "messages": sum(counts.values()),
        "copies_dropped": sum(one.records for one in files) - header.reports if firsts else 0,
        "order": "uniform" if uniform else "canonical",
        "sha256": digest.hex(),
    }


def _inputs(
    session: Any, inputs: Sequence[str], task: Task, batch_id: bytes | None
) -> tuple[Sequence[Messages], BatchHeader, dict[bytes, int]]:
    """(files, the batch's header, the first positions of repeated reports)."""
    files: list[MessageFile] = []
    for number, path in enumerate(inputs):
        found, header = _look_at(path, number, task)
        if header is None:
            files += found
        elif len(inputs) > 1:
            raise TaskError("Pass files of reports, or one batch, but not several batches.")
        else:
            _check_task(header.task_id, task)
            return found, header, {}
    for file in files:
        _check_task(read_upload(file.read(0, 1).tobytes()).task_id, task)
    different, firsts = batches.first_positions(session, files)
    if task.batch.top_up != "none" or different != task.batch.reports:
        raise TaskError(
            f"The files contain {different:,} different reports; a batch of this task has "
            f"{task.batch.reports:,}, and only the shuffler adds a noise top-up: pass exactly so "
            "many."
        )
    header = BatchHeader(
        task_id=task.id,
        batch_id=batch_id or SYSTEM.words(16, np.uint8).tobytes(),
        reports=different,
        top_up_messages=0,
        noise_shares=different,
    )
    return files, header, firsts


def _look_at(path: str, number: int, task: Task) -> tuple[Any, BatchHeader | None]:
    """The files of a batch and its header, or a file of reports and None."""
    if is_manifest(path):
        manifest = read_manifest(path)
        return part_files(manifest, folder_of(path)), manifest.header
    file = look_at(path, number, task.report_size)
    return [file], batch_header(file)


def open_batch(
    session: Any,
    path: str,
    task: Task,
    key: PrivateKey,
    *,
    seen: str | None = None,
    ledger: str | None = None,
    confidence: float = 0.95,
    implausible: str = "mark",
) -> dict[str, Any]:
    """The result of a batch: opened, copies dropped, tallied, released; what the analyzer would
    publish for it.

    `seen` is a folder, visible to all workers, with the first bytes of every message counted
    before; this batch's are added. `implausible` says what to do with an implausible total: mark or
    hold. Ensures: raises `BatchHeld` and charges nothing if bad messages may have taken the
    certified noise away. A ledger is charged once per batch, before anything is released, and keeps
    the result: later calls return the same one. A task that asks for noise before publishing needs
    a ledger: its noise depends on what is counted, and `seen` may change that between two calls.
    """
    confidence = checked_confidence(confidence)
    task.verify()
    files, header = _checked_batch(path, task, key)
    if ledger is None and task.publish_shares:
        raise TaskError(
            "This task asks for noise before publishing, so each batch may have only one result; "
            "nothing was opened: pass a ledger, which keeps it."
        )
    if seen is None:
        tally = batches.open_parts(session, files, _opening(task, key, ()))
    else:
        Path(seen).mkdir(parents=True, exist_ok=True)
        memory, name = ReplayMemory(Path(seen)), header.batch_id.hex()
        memory.add(other for other in memory.waiting() if other != name)
        tally = open_remembering(session, files, task, key, memory, name)
    batch = OpenedBatch(
        id=header.batch_id,
        number=1,
        reports=header.reports,
        noise_shares=header.noise_shares,
        tally=tally,
    )
    return publish_batch(
        task,
        batch,
        key=lambda: key,
        ledger=None if ledger is None else Ledger(ledger),
        confidence=confidence,
        implausible_rule=implausible,
    )


def open_remembering(
    session: Any,
    files: Sequence[Messages],
    task: Task,
    key: PrivateKey,
    memory: ReplayMemory,
    batch: str,
) -> Tally:
    """The contents of a batch, without messages that were counted before. The batch's own messages
    are written to a run, which takes effect once it is added to the memory; until then, the same
    batch may be opened again."""
    kept, earlier = memory.run_of(batch), tuple(str(run) for run in memory.files())
    with _folder_beside(str(kept)) as folder:
        tally = batches.open_parts(session, files, _opening(task, key, earlier, folder))
        join(folder, sorted(os.listdir(folder)), f"{kept}.part", b"")
        sync(Path(f"{kept}.part"))
        os.replace(f"{kept}.part", kept)
        sync(memory.folder)
    return tally


def _opening(task: Task, key: PrivateKey, earlier: tuple[str, ...], folder: str = "") -> OpenPart:
    return OpenPart(
        key=key.secret,
        info=key.public.info(task.id),
        allowed=AllowedNumbers.of(task.protocol),
        earlier=earlier,
        folder=folder,
    )


def _checked_batch(
    path: str, task: Task, key: PrivateKey
) -> tuple[Sequence[Messages], BatchHeader]:
    """The files and the header of a batch that the task's rule allows; raises `TaskError`
    otherwise."""
    if key.public != task.key:
        raise TaskError("This is not the key for which the task's messages are encrypted.")
    files, header = _look_at(path, 0, task)
    if header is None:
        raise TaskError(f"{shown(path)} contains reports, not a batch; shuffle it first.")
    messages = sum(file.records for file in files)
    task.check_batch(header, BATCH_HEADER_BYTES + messages * MESSAGE_BYTES)
    return files, header


def _check_task(found: bytes, task: Task) -> None:
    if found != task.id:
        raise TaskError("The messages belong to another task; pass the file of that task.")


def _check_total(messages: int, header: BatchHeader, task: Task) -> None:
    """Raises `TaskError` if a message was lost or doubled on the way."""
    if messages != header.messages(task.report_size):
        raise TaskError("The parts do not add up to the batch; nothing was written: run it again.")


@contextmanager
def _folder_beside(target: str) -> Iterator[str]:
    """A temporary folder for parts."""
    folder = beside(target, ".parts")
    system, inside = file_system(folder)
    system.create_dir(inside)
    system.delete_dir_contents(inside)
    try:
        yield folder
    finally:
        system.delete_dir(inside)
