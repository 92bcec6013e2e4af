"""The stores of a shuffler. A task lives whole in one of them: its reports, the ids and tokens that
were used, its batches. Everything that must happen once is promised per task, so stores need not
agree on anything.

The first store also holds what concerns all tasks: the tasks themselves and where each lives, the
enrolled tokens (`enrolments`), and what was witnessed of the log. A further store takes some of the
new tasks, chosen by their ids; tasks that are there never move. If a further store is away, its
tasks are told 503, and the others go on; without the first one nothing is taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import httpx

from shuffledp.errors import ShuffleDPError
from shuffledp.sealed.clock import Clock
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.shuffler.batches import TASK_NUMBERS
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.dispatch import Dispatch
from shuffledp.service.shuffler.enrolments import Enrolments
from shuffledp.service.shuffler.intake import Intake
from shuffledp.service.shuffler.report_keys import ReportKeys
from shuffledp.service.shuffler.restoring import reconcile
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.store import ShufflerStore
from shuffledp.service.storage import open_database
from shuffledp.service.storage.database import Database, Transaction
from shuffledp.service.web.logs import log
from shuffledp.service.web.metrics import Metrics
from shuffledp.service.web.problems import Problem
from shuffledp.service.web.tasks import RegisteredTask, Storing, TaskRegistry

FIRST = ""
"""The name of the store that `store` names."""
TRY_AGAIN_SECONDS = 5.0
OWNER_BYTES = 16


class Parts(NamedTuple):
    """What every store's work needs."""

    config: ShufflerConfig
    tasks: TaskRegistry
    keys: ReportKeys
    clock: Clock
    metrics: Metrics
    analyzer: httpx.AsyncClient


class Shard:
    """A store that is open, and the work on the tasks that live in it."""

    def __init__(
        self,
        database: Database,
        own: Callable[[], list[RegisteredTask]],
        parts: Parts,
        enrolments: Enrolments | None,
    ) -> None:
        self.database = database
        self.store = ShufflerStore(database, own, parts.keys, parts.clock, enrolments)
        self.dispatch = Dispatch(parts.config, self.store, parts.metrics, parts.analyzer)
        self.intake = Intake(
            self.store, parts.config.queue, parts.metrics, self.dispatch.reports_arrived.set
        )

    async def prepare(self, parts: Parts) -> None:
        """Reads how far the tasks are, and brings the store and the report keys together."""
        await self.store.load()
        await reconcile(self.database, self.store, parts.tasks, parts.keys)
        self.note_timed()

    def note_timed(self) -> None:
        """Looks again for which tasks the time of the first waiting report matters."""
        self.intake.timed = frozenset(
            entry.number for entry in self.store.tasks() if entry.task.batch.top_up != "none"
        )

    async def run(self) -> None:
        """Commits uploads, closes batches and delivers them, until it is cancelled."""
        await asyncio.gather(
            self.intake.run(), self.dispatch.run_closing(), self.dispatch.run_delivery()
        )


class Shards:
    """All stores of a shuffler by their names."""

    def __init__(self, first: Database, parts: Parts) -> None:
        self._database, self._parts = first, parts
        self.enrolments = Enrolments(first, parts.clock)
        self.open: dict[str, Shard] = {FIRST: Shard(first, lambda: self._own(FIRST), parts, None)}
        self.away: dict[str, str] = {}
        """Why a store is not open, by its name."""
        self._places: dict[bytes, str] = {}
        self._draining = False

    async def start(self) -> None:
        """Opens all stores; a further one that cannot be opened is tried again while others work.

        Ensures: raises `ConfigError` if a store with tasks is not named any more.
        """
        rows = await self._database.rows("SELECT task, store FROM placements")
        self._places = {bytes(task): name for task, name in rows}
        unnamed = set(self._places.values()) - {FIRST, *self._parts.config.store_urls}
        for name in sorted(unnamed):
            if self._own(name):
                raise ConfigError(
                    f"Tasks live in the store {name}, and more_stores does not name it; bring it "
                    "back, or have its tasks archived and deleted first."
                )
        self._owner = await self._database.run(_own_name)
        await self.open[FIRST].prepare(self._parts)
        for name in self._parts.config.store_urls:
            await self._try_open(name)

    async def _try_open(self, name: str) -> bool:
        """Opens a further store; False, with the reason kept, if that is not possible now."""
        database: Database | None = None
        try:
            database = await open_database(self._parts.config.store_urls[name], SHUFFLER_SCHEMA)
            await self._check_name(database, name)
            shard = Shard(database, lambda: self._own(name), self._parts, self.enrolments)
            await shard.prepare(self._parts)
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
        self.open[name] = shard
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
            if self._own(name):
                return "is empty, though tasks live in it"
            await transaction.run(
                "INSERT INTO store_names (name, owner) VALUES ($1, $2)", name, self._owner
            )
            return ""

        problem = await database.run(claim)
        if problem:
            raise ConfigError(f"The store {name} {problem}; correct more_stores.")

    # tasks

    def _own(self, name: str) -> list[RegisteredTask]:
        """The tasks that live in a store."""
        return [
            entry for entry in list(self._parts.tasks.by_id.values()) if self.name_of(entry) == name
        ]

    def name_of(self, entry: RegisteredTask) -> str:
        """The name of the store in which a task lives."""
        return self._places.get(entry.task.id, FIRST)

    def of(self, entry: RegisteredTask) -> Shard:
        """The store in which a task lives; a 503 if it is away."""
        shard = self.open.get(self.name_of(entry))
        if shard is None:
            raise Problem(
                503,
                "store",
                "The store of this task cannot be reached, and other tasks go on; send the same "
                "again later.",
                retry_after=30,
            )
        return shard

    def all_of(self) -> Iterator[Shard]:
        """The stores that are open."""
        yield from list(self.open.values())

    async def place(self, task_id: bytes) -> Storing:
        """Chooses a store for a new task, among those that answer; gives what stores the choice.

        Ensures: the task's number is not used in that store, also not by tasks that the first
        store has forgotten because it was put back from a backup.
        """
        name, top = FIRST, 0
        ranked = sorted(self.open, key=lambda name: rank(name, task_id), reverse=True)
        for candidate in ranked:
            try:
                await self.open[candidate].database.prove_writable()
            except StorageUnavailable:
                continue
            name = candidate
            break
        if name != FIRST:
            top = await self.open[name].database.run(_largest_number)
        self._parts.tasks.least_number = max(self._parts.tasks.least_number, top + 1)

        async def store(transaction: Transaction) -> None:
            await transaction.insert("placements", ("task", "store"), [(task_id, name)])
            self._places[task_id] = name  # also if the answer to the commit is lost

        return store

    # running

    async def run(self, name: str) -> None:
        """Works on a store until it is cancelled; one that is away is tried again and again."""
        while name not in self.open and not await self._try_open(name):
            await asyncio.sleep(TRY_AGAIN_SECONDS)
        if self._draining:
            self.open[name].intake.close()
        await self.open[name].run()

    def names(self) -> list[str]:
        """All stores, the first one first."""
        return [FIRST, *self._parts.config.store_urls]

    def drain(self) -> None:
        """Lets what waits be committed, and no more come."""
        self._draining = True
        for shard in self.all_of():
            shard.intake.close()

    async def settled(self) -> None:
        """Returns when every upload that waits has its verdict."""
        await asyncio.gather(*(shard.intake.settled() for shard in self.all_of()))

    async def close(self) -> None:
        """Closes all stores but the first."""
        for name, shard in self.open.items():
            if name != FIRST:
                await shard.database.close()


def rank(name: str, task_id: bytes) -> bytes:
    """By which a task chooses its store: with one more store, few choices change."""
    return hashlib.sha256(name.encode() + b" " + task_id).digest()


async def _own_name(transaction: Transaction) -> bytes:
    """By which a shuffler's further stores know it; made at the first start."""
    found = await transaction.rows("SELECT name, owner FROM store_names")
    if found and found[0][0] != FIRST:
        raise ConfigError(
            f"This store is the further store {found[0][0]} of a shuffler, not its first one; "
            "correct store and more_stores."
        )
    if found:
        return bytes(found[0][1])
    owner = os.urandom(OWNER_BYTES)
    await transaction.run("INSERT INTO store_names (name, owner) VALUES ($1, $2)", FIRST, owner)
    return owner


async def _largest_number(transaction: Transaction) -> int:
    """The largest number of a task of which anything is stored."""
    tops = [
        await transaction.rows(f"SELECT COALESCE(MAX({column}), 0) FROM {table}")
        for table, column in (("used", "task"), ("batches", "task"), ("reports", "number"))
    ]
    used, batches, reports = (int(rows[0][0]) for rows in tops)
    return max(used, batches, reports // TASK_NUMBERS)
