"""Detects that the store has gone back in time: a lagging standby that was promoted, a renamed
older database, a restored dump or snapshot.

Two things are remembered outside the store, in a folder of small files, one per process:

* **The position of every task** when this process last acknowledged a report. Positions only grow,
  so a
  store that is behind has lost acknowledged reports.
* **The epoch**, a number in the store that is raised whenever its history changes: PostgreSQL's
  system, timeline, database and table identify it. The store keeps each task's position at that
  moment, so that a later process still sees what was lost.

Both are compared at every new session with the database; positions also in the statement that
stores reports. Tasks that
are behind take no more reports, and the status says why: it is not known who has answered them.
Tokens that count once in all tasks are refused if they were enrolled before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from filelock import BaseFileLock

from shuffledp.documents.files import sync
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.http.logs import log
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler import filling
from shuffledp.service.shuffler.filling import Filling
from shuffledp.service.store.database import Transaction
from shuffledp.service.store.private import lock_file, private_folder

BEHIND = (
    "the store is older than reports that were acknowledged, so it is not known who has "
    "answered; make a new task"
)
HISTORY = """
    SELECT (SELECT system_identifier FROM pg_control_system())::text || ' '
        || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
        || (SELECT oid FROM pg_database WHERE datname = current_database())::text || ' '
        || 'filling'::regclass::oid::text
"""
"""What changes when a standby is promoted, a database is copied or renamed, or a dump restored."""
ENDING = ".seen"
KEPT_ID_BYTES = 8
_HEAD = struct.Struct(">8sQ")
_SLOT = struct.Struct(f">{KEPT_ID_BYTES}sQ")
_MAGIC = b"SDPSEEN1"
SYNC_SECONDS = 1.0


class WentBack(StorageUnavailable):
    """The store is behind what was acknowledged; nothing was stored."""

    def __init__(self, entry: RegisteredTask) -> None:
        super().__init__("The store has gone back in time; nothing was acknowledged.")
        self.entry = entry


class Seen(NamedTuple):
    """What a process remembers: the epoch, and each task's position by the beginning of its id."""

    epoch: int
    positions: dict[bytes, int]


def read_seen(data: bytes) -> Seen:
    """The content of a file; empty if it was never written completely."""
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        return Seen(0, {})
    whole = len(data) - (len(data) - _HEAD.size) % _SLOT.size
    return Seen(_HEAD.unpack_from(data)[1], dict(_SLOT.iter_unpack(data[_HEAD.size : whole])))


class Watch:
    """What this process remembers outside the store, and how it compares."""

    def __init__(self, folder: str | Path, tasks: Callable[[], TaskRegistry]) -> None:
        self._folder, self._tasks = Path(folder), tasks
        self._epoch = 0
        self._positions: dict[bytes, int] = {}
        self._slots: dict[bytes, int] = {}
        self._file = -1
        self._lock: BaseFileLock | None = None
        self._dirty = False
        self._others: dict[Path, Seen] = {}
        """What processes remembered that have ended, by their files."""
        self.stop_now: Callable[[RegisteredTask], Awaitable[None]] | None = None
        """Stops a task in a transaction."""

    # what is remembered

    def open(self) -> None:
        """Begins a file for this process, and reads those of processes that have ended."""
        try:
            private_folder(self._folder)
            path = self._folder / f"{os.urandom(8).hex()}{ENDING}"
            self._lock = lock_file(Path(f"{path}.lock"), 0)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise ConfigError(
                f"The folder {self._folder} cannot be written ({error.strerror}); give the "
                "server's user the right to write there, or name another one as memory."
            ) from None
        for other in self._ended():
            with contextlib.suppress(FileNotFoundError):  # another process has taken it over
                self._others[other] = read_seen(other.read_bytes())

    def _ended(self) -> list[Path]:
        """The files of processes that have ended."""
        found = []
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            with contextlib.suppress(FileNotFoundError):
                lock = lock_file(Path(f"{path}.lock"), 0)
                if lock is not None:
                    lock.release()
                    found.append(path)
        return found

    def close(self) -> None:
        """Makes everything durable and leaves the file to later processes."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _remember(self, name: bytes, position: int) -> None:
        if self._file < 0:
            raise StorageUnavailable("The server is shutting down; nothing was acknowledged.")
        self._positions[name] = position
        slot = self._slots.setdefault(name, len(self._slots))
        try:
            os.pwrite(self._file, _SLOT.pack(name, position), _HEAD.size + slot * _SLOT.size)
        except OSError:
            raise StorageUnavailable(
                "The folder that remembers what was acknowledged cannot be written; free space."
            ) from None
        self._dirty = True

    def sync(self) -> None:
        """Makes what is remembered durable."""
        if self._dirty and self._file >= 0:
            self._dirty = False
            os.fsync(self._file)

    async def run(self) -> None:
        """Regularly makes what is remembered durable, until it is cancelled. A killed process loses
        nothing; only a machine failure may lose the last second."""
        while True:
            await asyncio.sleep(SYNC_SECONDS)
            await asyncio.to_thread(self.sync)

    def position(self, entry: RegisteredTask) -> int:
        """The newest position of a task that this process knows."""
        return self._positions.get(entry.task.id[:KEPT_ID_BYTES], 0)

    def remembers(self, task_id: bytes) -> bool:
        """Whether reports of a task were acknowledged."""
        return task_id[:KEPT_ID_BYTES] in self._positions

    async def went_back(self, entry: RegisteredTask) -> None:
        """Stops a task for which the store has lost reports, as soon as that is noticed."""
        log("store went back in time", level="error", task=entry.task.id.hex(), reason=BEHIND)
        if self.stop_now is not None:
            await self.stop_now(entry)

    def reached(self, entry: RegisteredTask, state: Filling) -> None:
        """Remembers a task's position after a store, before it is acknowledged."""
        name = entry.task.id[:KEPT_ID_BYTES]
        self._remember(name, max(state.position, self._positions.get(name, 0)))

    # comparing

    async def compare(self, transaction: Transaction) -> None:
        """Compares the store with what is remembered, at the beginning of a session; stops the
        tasks that are behind."""
        memories = [Seen(self._epoch, dict(self._positions)), *self._others.values()]
        epoch = await _raise_epoch(transaction)  # after that, so that it knows no less
        if max(memory.epoch for memory in memories) > epoch:
            raise StorageUnavailable(
                "This database is older than one that was used before; bring the newer one back."
            )
        entries = {
            entry.task.id[:KEPT_ID_BYTES]: entry for entry in list(self._tasks().by_id.values())
        }
        behind = set[bytes]()
        for memory in memories:
            if memory.positions:
                stored = await _positions(transaction, memory.epoch, epoch)
                behind |= {
                    name
                    for name, position in memory.positions.items()
                    if name in entries and stored.get(entries[name].number, 0) < position
                }
        for name in behind:
            await self.stop(transaction, entries[name])
        if not self._others and epoch == self._epoch:
            return
        for other in self._others.values():
            for name, position in other.positions.items():
                if position > self._positions.get(name, 0):
                    self._remember(name, position)
        self._epoch = epoch
        for name, position in self._positions.items():
            self._remember(name, position)
        os.pwrite(self._file, _HEAD.pack(_MAGIC, epoch), 0)
        self._dirty = True
        self.sync()
        if self._others:
            sync(self._folder)
            for path in self._others:
                path.unlink(missing_ok=True)
                Path(f"{path}.lock").unlink(missing_ok=True)
            self._others = {}

    async def stop(self, transaction: Transaction, entry: RegisteredTask) -> None:
        """Stops a task of which the store has lost reports."""
        rows = await transaction.rows(
            "SELECT 1 FROM filling WHERE task=$1 AND reason <> $2", entry.number, BEHIND
        )
        if not rows:  # it was deleted, or stopped before
            return
        await self._tasks().begin_change(transaction)
        await filling.stop(transaction, entry.number, BEHIND)
        await transaction.run(filling.LOSE)
        await self._tasks().store_state(transaction, entry.number, "closed")
        log("task closed", level="warning", task=entry.task.id.hex(), reason=BEHIND)


async def _raise_epoch(transaction: Transaction) -> int:
    """The store's epoch, raised if its history has changed since the last check."""
    ((epoch, known),) = await transaction.rows("SELECT epoch, history FROM store WHERE id = 1")
    if transaction.dialect != "postgresql":
        return int(epoch)
    ((history,),) = await transaction.rows(HISTORY)
    if history == known:
        return int(epoch)
    rows = await transaction.rows(
        "UPDATE store SET history = $1, epoch = epoch + $2 WHERE id = 1 AND history = $3 "
        "RETURNING epoch",
        history,
        int(known != ""),
        known,
    )
    if not rows:  # another process has raised it
        return await _raise_epoch(transaction)
    if known:
        await transaction.run(
            "INSERT INTO epochs (epoch, task, number, reports) "
            "SELECT $1, task, number, reports FROM filling",
            rows[0][0],
        )
        log("the store has a new history", level="warning", need=int(rows[0][0]))
    return int(rows[0][0])


async def _positions(transaction: Transaction, known: int, epoch: int) -> dict[int, int]:
    """Each task's position, by its number: now, or at the beginning of the epoch after the known
    one."""
    if 0 < known < epoch:
        rows = await transaction.rows(
            "SELECT task, number, reports FROM epochs WHERE epoch = $1", known + 1
        )
    else:
        rows = await transaction.rows("SELECT task, number, reports FROM filling")
    return {
        int(task): Filling(int(number), int(reports)).position for task, number, reports in rows
    }
