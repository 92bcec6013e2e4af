"""Detects that the store has gone back in time: a lagging standby that was promoted, a renamed
older database, a restored dump or snapshot.

Two things are remembered outside the store, in a folder of small files, one per process:

* **The position of every task** when this process last acknowledged a report. Positions only grow,
  so a store that is behind has lost acknowledged reports.
* **The epoch and its history.** The epoch is a number in the store that is raised whenever
  PostgreSQL's system, timeline, database, table or restored rows are others than before; each epoch
  has a random id, so two histories that both reached an epoch are told apart. The store keeps each
  task's position at that moment, so that a later process still sees what was lost.

The files of all processes are compared at every new session with the database, and every few
seconds. The statement that stores reports compares the process's own positions, and whether the
tables are those that were compared: a dump that is restored over them breaks no session. Tasks that
are behind take no more reports, and the status says why: it is not known who has answered them.
Tokens that count once in all tasks are refused if they were enrolled before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from filelock import BaseFileLock

from shuffledp.documents.files import sync
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.http.logs import log
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler import filling
from shuffledp.service.shuffler.filling import Filling
from shuffledp.service.store.database import Database, Transaction
from shuffledp.service.store.private import lock_file, private_folder

BEHIND = (
    "the store is older than reports that were acknowledged, so it is not known who has "
    "answered; make a new task"
)
TABLES = (
    "batches",
    "epochs",
    "filling",
    "histories",
    "reports",
    "store",
    "tasks",
    "tokens",
    "used",
)
HISTORY = f"""
    SELECT (SELECT system_identifier FROM pg_control_system())::text || ' '
        || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' '
        || (SELECT oid FROM pg_database WHERE datname = current_database())::text,
        {filling.INCARNATION.replace("tableoid", "'filling'::regclass::oid")},
        pg_postmaster_start_time()::text,
        (SELECT count(*) FROM pg_index WHERE indisprimary AND indrelid IN
            ({", ".join(f"'{table}'::regclass" for table in TABLES)}))
"""
"""What changes when a standby is promoted, a database is copied or renamed, or a dump restored;
what changes with the tables alone; what changes when the server starts; and how many tables are
complete, for a dump is restored table by table, and gives them their keys last."""
ENDING = ".seen"
KEPT_ID_BYTES = 8
HISTORY_BYTES = 16
_HEAD = struct.Struct(f">8sQ{HISTORY_BYTES}s")
_SLOT = struct.Struct(f">{KEPT_ID_BYTES}sQ")
_MAGIC = b"SDPSEEN2"


class WentBack(StorageUnavailable):
    """The store is behind what was acknowledged, or was replaced; nothing was stored."""

    def __init__(self) -> None:
        super().__init__("The store may have gone back in time; nothing was acknowledged.")


class Seen(NamedTuple):
    """What a process remembers: the epoch, each task's position by the beginning of its id, and the
    epoch's random id."""

    epoch: int
    positions: dict[bytes, int]
    history: bytes = bytes(HISTORY_BYTES)


class Here(NamedTuple):
    """Where the store is: its epoch and the ids of all epochs, the server, and the tables."""

    epoch: int
    histories: dict[int, bytes]
    server: str = ""
    incarnation: str = ""


def read_seen(data: bytes) -> Seen:
    """The content of a file; empty if it was never written completely."""
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        return Seen(0, {})
    whole = len(data) - (len(data) - _HEAD.size) % _SLOT.size
    _, epoch, history = _HEAD.unpack_from(data)
    return Seen(epoch, dict(_SLOT.iter_unpack(data[_HEAD.size : whole])), history)


class Watch:
    """What this process remembers outside the store, and how it compares."""

    def __init__(self, folder: str | Path, database: Database, tasks: TaskRegistry) -> None:
        self._folder, self._database, self._tasks = Path(folder), database, tasks
        self._epoch, self._history = 0, bytes(HISTORY_BYTES)
        self._positions: dict[bytes, int] = {}
        self._slots: dict[bytes, int] = {}
        self._path, self._file = Path(), -1
        self._lock: BaseFileLock | None = None
        self._dirty = False
        self._ended: set[Path] = set()
        """The files of processes that had ended when this one began; it takes them over."""
        self._comparing = asyncio.Lock()
        self.server = self.incarnation = ""
        """The server, and its tables, that were compared last."""

    # what is remembered

    def open(self) -> None:
        """Begins a file for this process, and reads those of processes that have ended."""
        try:
            private_folder(self._folder)
            self._path = self._folder / f"{os.urandom(8).hex()}{ENDING}"
            self._lock = lock_file(Path(f"{self._path}.lock"), 0)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise ConfigError(
                f"The folder {self._folder} cannot be written ({error.strerror}); give the "
                "server's user the right to write there, or name another one as memory."
            ) from None
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            with contextlib.suppress(FileNotFoundError):
                lock = lock_file(Path(f"{path}.lock"), 0)
                if lock is not None:
                    lock.release()
                    self._ended.add(path)

    def _others(self) -> dict[Path, Seen]:
        """What all other processes remember, by their files."""
        while True:
            try:
                return {
                    path: read_seen(path.read_bytes())
                    for path in sorted(self._folder.glob(f"*{ENDING}"))
                    if path != self._path
                }
            except FileNotFoundError:  # taken over by a process whose file may have been read
                continue
            except OSError:
                raise StorageUnavailable(
                    "The folder that remembers what was acknowledged cannot be read."
                ) from None

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
        """Makes what is remembered durable, every second: a killed process loses nothing, and a
        machine that fails at most the last second."""
        if self._dirty and self._file >= 0:
            self._dirty = False
            os.fsync(self._file)

    def position(self, entry: RegisteredTask) -> int:
        """The newest position of a task that this process knows."""
        return self._positions.get(entry.task.id[:KEPT_ID_BYTES], 0)

    def remembers(self, task_id: bytes) -> bool:
        """Whether reports of a task were acknowledged."""
        return task_id[:KEPT_ID_BYTES] in self._positions

    def doubts(self, state: Filling, known: int) -> bool:
        """Whether the store must be compared before anything is stored: it is behind a known
        position, or a dump was restored over it."""
        return state.incarnation != self.incarnation or (state.accepting and state.position < known)

    def reached(self, entry: RegisteredTask, state: Filling) -> None:
        """Remembers a task's position after a store, before it is acknowledged."""
        name = entry.task.id[:KEPT_ID_BYTES]
        self._remember(name, max(state.position, self._positions.get(name, 0)))

    # comparing

    async def compare_now(self) -> None:
        """Compares in any session."""
        await self._database.run(self.compare, atomic=False)

    async def compare(self, transaction: Transaction) -> None:
        """Compares the store with what all processes remember, at the beginning of a session; stops
        the tasks that are behind. If the transaction is not atomic, what this process remembers
        changes only after the store's changes are durable."""
        async with self._comparing:
            others = self._others()  # before the store is read, so that they know no more
            memories = [Seen(self._epoch, dict(self._positions), self._history), *others.values()]
            async with transaction.atomic():
                here = await _here(transaction)
            if max(memory.epoch for memory in memories) > here.epoch:
                raise StorageUnavailable(
                    "This database is older than one that was used before; bring the newer one "
                    "back."
                )
            async with transaction.atomic():
                await self._stop_behind(transaction, here, memories)
            self._adopt(here, {path: others[path] for path in self._ended & others.keys()})

    async def _stop_behind(
        self, transaction: Transaction, here: Here, memories: Sequence[Seen]
    ) -> None:
        """Stops the tasks of which the store has lost reports that a process remembers."""
        rows = await transaction.rows("SELECT number, id FROM tasks")
        tasks = {bytes(task)[:KEPT_ID_BYTES]: (int(number), bytes(task)) for number, task in rows}
        behind, vanished = set[bytes](), set[bytes]()
        for memory in memories:
            stored = await _positions(transaction, memory, here) if memory.positions else {}
            for name, position in memory.positions.items():
                if name not in tasks:
                    vanished.add(name)
                elif stored.get(tasks[name][0], 0) < position:
                    behind.add(name)
        for name in sorted(behind):
            await self.stop(transaction, *tasks[name], BEHIND)
        if vanished and await transaction.insert(
            "vanished", ("name",), [(name,) for name in sorted(vanished)]
        ):
            await transaction.run(filling.LOSE)
            log("the store has lost tasks", level="error", need=len(vanished))

    def _adopt(self, here: Here, ended: dict[Path, Seen]) -> None:
        """Remembers where the store is, and what processes remembered that have ended."""
        self.server, self.incarnation = here.server, here.incarnation
        history = here.histories.get(here.epoch, bytes(HISTORY_BYTES))
        self._ended &= ended.keys()
        if not ended and (here.epoch, history) == (self._epoch, self._history):
            return
        for other in ended.values():
            for name, position in other.positions.items():
                if position > self._positions.get(name, 0):
                    self._remember(name, position)
        self._epoch, self._history = here.epoch, history
        for name, position in self._positions.items():
            self._remember(name, position)
        os.pwrite(self._file, _HEAD.pack(_MAGIC, here.epoch, history), 0)
        self._dirty = True
        self.sync()
        if ended:
            sync(self._folder)
            for path in ended:
                path.unlink(missing_ok=True)
                Path(f"{path}.lock").unlink(missing_ok=True)
            self._ended = set()

    async def stop(self, transaction: Transaction, number: int, task: bytes, reason: str) -> None:
        """Stops a task of which the store has lost reports."""
        rows = await transaction.rows(
            "SELECT 1 FROM filling WHERE task=$1 AND reason <> $2", number, reason
        )
        if not rows:  # it was deleted, or stopped before
            return
        await self._tasks.begin_change(transaction)
        await filling.stop(transaction, number, reason)
        await transaction.run(filling.LOSE)
        await self._tasks.store_state(transaction, number, "closed")
        log("task closed", level="error", task=task.hex(), reason=reason)


async def _here(transaction: Transaction) -> Here:
    """Where the store is; raises its epoch if its history has changed since the last check."""
    server = incarnation = history = ""
    if transaction.dialect == "postgresql":
        ((place, incarnation, began, tables),) = await transaction.rows(HISTORY)
        if tables < len(TABLES) or not incarnation:
            raise _restoring()
        history, server = f"{place} {incarnation}", f"{place} {began}"
    rows = await transaction.rows("SELECT epoch, history FROM store WHERE id = 1")
    if not rows:
        raise _restoring()
    epoch, known = int(rows[0][0]), rows[0][1]
    if history != known:
        raised = await transaction.rows(
            "UPDATE store SET history = $1, epoch = epoch + $2 WHERE id = 1 AND history = $3 "
            "RETURNING epoch",
            history,
            int(known != ""),
            known,
        )
        if not raised:  # another process has raised it
            return await _here(transaction)
        epoch = int(raised[0][0])
        if known:
            await transaction.run(
                "INSERT INTO histories (epoch, id) VALUES ($1, $2)",
                epoch,
                os.urandom(HISTORY_BYTES),
            )
            await transaction.run(
                "INSERT INTO epochs (epoch, task, number, reports) "
                "SELECT $1, task, number, reports FROM filling",
                epoch,
            )
            log("the store has a new history", level="warning", need=epoch)
    ids = await transaction.rows("SELECT epoch, id FROM histories")
    return Here(epoch, {int(one): bytes(id_) for one, id_ in ids}, server, incarnation)


async def _positions(transaction: Transaction, memory: Seen, here: Here) -> dict[int, int]:
    """Each task's position, by its number, when the store last was what a process remembers: now,
    or at the beginning of the next epoch. If the store never was, its history is another one from
    some epoch on, and the first one after the beginning counts."""
    known = memory.epoch if here.histories.get(memory.epoch) == memory.history else 1
    if known < here.epoch:
        rows = await transaction.rows(
            "SELECT task, number, reports FROM epochs WHERE epoch = $1", known + 1
        )
    else:
        rows = await transaction.rows("SELECT task, number, reports FROM filling")
    return {
        int(task): Filling(int(number), int(reports)).position for task, number, reports in rows
    }


def _restoring() -> StorageUnavailable:
    return StorageUnavailable("The store is being restored; nothing was acknowledged.")
