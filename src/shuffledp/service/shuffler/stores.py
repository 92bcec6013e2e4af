"""The stores of a shuffler by their names, as one of its processes sees them.

The first store also holds what concerns all tasks. If a further store is away, its tasks are told
503, and the others go on; without the first one nothing is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from shuffledp.errors import ShuffleDPError
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.http.logs import log
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.intake import Intake
from shuffledp.service.store.database import Database, Transaction

FIRST = ""
"""The name of the store that `store` names."""
TRY_AGAIN_SECONDS = 5.0


class OpenStore(Protocol):
    """A store that is open, and the work on it."""

    database: Database
    intake: Intake

    async def run(self) -> None:
        """Works until it is cancelled."""


S = TypeVar("S", bound=OpenStore)


class Stores(ABC, Generic[S]):
    """All stores: open, or away and tried again."""

    def __init__(self, tasks: TaskRegistry, urls: dict[str, str]) -> None:
        """`urls` are the further stores by their names."""
        self._tasks, self._urls = tasks, urls
        self.open: dict[str, S] = {}
        self.away: dict[str, str] = {}
        """Why a store is not open, by its name."""
        self._placements: dict[bytes, str] = {}
        self._owner = b""
        self._draining = False
        self.opened: Callable[[str], None] = lambda _: None
        """Called with the name of a further store that is open now."""

    @abstractmethod
    async def _connect(self, name: str) -> Database:
        """The database of a further store."""

    @abstractmethod
    async def _made(self, name: str, database: Database) -> S:
        """The work on a further store whose database is open."""

    async def _try_open(self, name: str) -> bool:
        """Opens a further store; False, with the reason kept, if that is not possible now."""
        database: Database | None = None
        try:
            database = await self._connect(name)
            await self._check_name(database, name)
            made = await self._made(name, database)
        except (ShuffleDPError, OSError) as error:
            if database is not None:
                with contextlib.suppress(StorageUnavailable):
                    await database.close()
            reason = str(error) if isinstance(error, ShuffleDPError) else type(error).__name__
            if self.away.get(name) != reason:
                log("store away", level="error", store=name, reason=reason)
            self.away[name] = reason
            return False
        if self.away.pop(name, None) is not None:
            log("store back", store=name)
        self.open[name] = made
        self.opened(name)
        return True

    async def _check_name(self, database: Database, name: str) -> None:
        """Refuses a store that is another one than its name says: of another shuffler, a first
        store, another's place, or an empty one although tasks live in it."""

        async def claim(transaction: Transaction) -> str:
            found = await transaction.rows("SELECT name, owner FROM store_names")
            if found:
                same = (found[0][0], bytes(found[0][1])) == (name, self._owner)
                return "" if same else "belongs to another shuffler, or has another name"
            if await transaction.rows("SELECT 1 FROM tasks LIMIT 1"):
                return "is the first store of a shuffler"
            if self.own(name):
                return "is empty, though tasks live in it"
            await transaction.run(
                "INSERT INTO store_names (name, owner) VALUES ($1, $2)", name, self._owner
            )
            return ""

        problem = await database.run(claim)
        if problem:
            raise ConfigError(f"The store {name} {problem}; correct more_stores.")

    # tasks

    async def read_placements(self, database: Database) -> None:
        """Reads from the first store in which store each task lives."""
        rows = await database.rows("SELECT task, store FROM placements")
        self._placements = {bytes(task): name for task, name in rows}

    def own(self, name: str) -> list[RegisteredTask]:
        """The tasks that live in a store."""
        return [entry for entry in list(self._tasks.by_id.values()) if self.name_of(entry) == name]

    def name_of(self, entry: RegisteredTask) -> str:
        """The name of the store in which a task lives."""
        return self._placements.get(entry.task.id, FIRST)

    def of(self, entry: RegisteredTask) -> S:
        """The store in which a task lives; a 503 if it is away."""
        found = self.open.get(self.name_of(entry))
        if found is None:
            raise Problem(
                503,
                "store",
                "The store of this task cannot be reached, and other tasks go on; send the same "
                "again later.",
                retry_after=30,
            )
        return found

    def all_of(self) -> Iterator[S]:
        """The stores that are open."""
        yield from list(self.open.values())

    # running

    def names(self) -> list[str]:
        """All stores, the first one first."""
        return [FIRST, *self._urls]

    async def run(self, name: str) -> None:
        """Works on a store until it is cancelled; one that is away is tried again and again."""
        while name not in self.open and not await self._try_open(name):
            await asyncio.sleep(TRY_AGAIN_SECONDS)
        if self._draining:
            self.open[name].intake.close()
        await self.open[name].run()

    def drain(self) -> None:
        """Lets what waits be committed, and no more come."""
        self._draining = True
        for one in self.all_of():
            one.intake.close()

    async def settled(self) -> None:
        """Returns when every upload that waits has its verdict."""
        await asyncio.gather(*(one.intake.settled() for one in self.all_of()))

    async def close(self) -> None:
        """Closes all stores."""
        for one in self.all_of():
            await one.database.close()
