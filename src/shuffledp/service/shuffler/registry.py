"""The shuffler's tasks, which every process keeps in memory and updates from the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.watch import KEPT_ID_BYTES
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.task import Task, task_from_json


class SharedTasks(TaskRegistry):
    """Tasks that any process may register, close, archive or delete. Every change has a number,
    which grows in the order in which changes are stored."""

    lost: Callable[[bytes], bool] = staticmethod(lambda _: False)
    """Whether reports were acknowledged for a task that the store does not know."""
    _known_changes = _known_epoch = -1
    _refreshing: asyncio.Task[None] | None = None
    _next: asyncio.Task[None] | None = None

    async def begin_change(self, transaction: Transaction) -> None:
        await transaction.run("UPDATE store SET changes = changes + 1 WHERE id = 1")

    async def added(self, transaction: Transaction, number: int, task: Task) -> None:
        name = task.id[:KEPT_ID_BYTES]  # `vanished` holds what any process remembered
        gone = await transaction.rows("SELECT 1 FROM vanished WHERE name = $1", name)
        if gone or self.lost(task.id):
            raise Problem(
                409,
                "store-older",
                "The store has lost this task and reports that were acknowledged for it; make a "
                "task with another name.",
            )
        await transaction.run(
            "INSERT INTO filling (task, number, reports, size, since, accepting, reason) "
            "VALUES ($1, 1, 0, $2, 0, 1, '')",
            number,
            task.batch.reports,
        )
        await self._mark(transaction, number)

    async def store_state(self, transaction: Transaction, number: int, state: str) -> None:
        await super().store_state(transaction, number, state)
        await transaction.run("UPDATE filling SET accepting = 0 WHERE task = $1", number)
        await self._mark(transaction, number)

    async def _mark(self, transaction: Transaction, number: int) -> None:
        await transaction.run(
            "UPDATE tasks SET version = (SELECT changes FROM store WHERE id = 1) WHERE number = $1",
            number,
        )

    async def load(self) -> None:
        """Reads all tasks from the store."""
        await self._read()

    async def refresh(self) -> None:
        """Reads all changes that were stored before this call. Concurrent callers share one query
        of the store; those that arrive while it runs share the next one."""
        if self._next is None:
            self._next = asyncio.create_task(self._read_after(self._refreshing))
        await asyncio.shield(self._next)

    async def _read_after(self, running: asyncio.Task[None] | None) -> None:
        try:
            if running is not None:
                with contextlib.suppress(Exception):  # it was told to those that asked
                    await asyncio.shield(running)
        finally:
            self._refreshing, self._next = self._next, None
        await self._read()

    async def _read(self) -> None:
        ((changes, epoch),) = await self._database.rows(
            "SELECT changes, epoch FROM store WHERE id = 1"
        )
        if (changes, epoch) == (self._known_changes, self._known_epoch):
            return
        if changes < self._known_changes or epoch != self._known_epoch:
            self._known_changes = -1  # the store has gone back in time: read all of it
        rows = await self._database.rows(
            "SELECT number, id, body, state, changed FROM tasks WHERE version > $1 ORDER BY number",
            self._known_changes,
        )
        if self._known_changes < 0:
            stored = {bytes(row[1]) for row in rows}
            for entry in [one for one in self.by_id.values() if one.task.id not in stored]:
                self._drop(entry)  # its number may belong to another task now
        for number, task_id, body, state, changed in rows:
            known = self.by_id.get(bytes(task_id))
            if state == "deleted":
                if known is not None:
                    self._drop(known)
            elif known is not None:
                known.number, known.state, known.changed = number, state, changed
            else:
                task = await asyncio.to_thread(task_from_json, body)
                self._add(RegisteredTask(number=number, task=task, state=state, changed=changed))
        self._by_number = {}
        self._known_changes, self._known_epoch = changes, epoch
