"""What the issuer keeps of a task: who had a token of it, until it is over."""

from __future__ import annotations

from shuffledp.service.http.administration import TaskCare
from shuffledp.service.http.retention import Retention
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.issuer.store import IssuerStore
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.clock import CLOCK_SECONDS, Clock


class IssuerCare(TaskCare):
    """The issuer's part of archiving and deleting tasks: nothing ever waits here."""

    async def waiting(self, entry: RegisteredTask) -> int:
        return 0

    async def unfinished(self, entry: RegisteredTask) -> int:
        return 0

    async def give_up(self, entry: RegisteredTask) -> None:
        """Nothing waits here."""

    async def clear(self, entry: RegisteredTask) -> None:
        """Everything is in one store here."""

    async def forget(self, transaction: Transaction, entry: RegisteredTask) -> None:
        for table in ("issued", "issuing"):
            await transaction.run(f"DELETE FROM {table} WHERE task=$1", entry.number)


class IssuerRetention(Retention):
    """Who had tokens of tasks that are over."""

    def __init__(self, store: IssuerStore, tasks: TaskRegistry, clock: Clock) -> None:
        super().__init__(clock)
        self._store, self._tasks = store, tasks

    async def once(self) -> None:
        for entry in list(self._tasks.by_id.values()):
            if self._clock() >= entry.task.expires + CLOCK_SECONDS:
                await self._store.forget(entry.number)
