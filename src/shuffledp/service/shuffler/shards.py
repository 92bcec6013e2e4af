"""The stores of a shuffler in the process that closes and delivers batches.

A task lives whole in one store: its reports, the ids and tokens that were used, its batches.
Everything that must happen once is promised per task, so stores need not agree on anything.

The first store also holds what concerns all tasks: the tasks themselves and where each lives, the
enrolled tokens (`enrolments`), and what was witnessed of the log. A further store takes some of the
new tasks, chosen by their ids; tasks that are there never move.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from typing import NamedTuple

import httpx

from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.http.metrics import Metrics
from shuffledp.service.http.tasks import RegisteredTask, Storing, TaskRegistry
from shuffledp.service.shuffler.batches import TASK_NUMBERS
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.dispatch import Dispatch
from shuffledp.service.shuffler.enrolments import Enrolments
from shuffledp.service.shuffler.intake import Intake
from shuffledp.service.shuffler.lane import Lane, filled
from shuffledp.service.shuffler.places import Grant, OwnPlaces, Places
from shuffledp.service.shuffler.report_keys import ReportKeys
from shuffledp.service.shuffler.restoring import reconcile
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.store import ShufflerStore
from shuffledp.service.shuffler.stores import FIRST, Stores
from shuffledp.service.store import open_database
from shuffledp.service.store.database import Database, Transaction
from shuffledp.tasks.clock import Clock

OWNER_BYTES = 16


class Parts(NamedTuple):
    """What every store's work needs."""

    config: ShufflerConfig
    tasks: TaskRegistry
    keys: ReportKeys
    places: Places
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
        self.store = ShufflerStore(database, own, parts.keys, parts.clock, parts.places)
        self.dispatch = Dispatch(parts.config, self.store, parts.metrics, parts.analyzer)
        lane = Lane(database, self.store.entry, OwnPlaces(parts.places), parts.clock, enrolments)
        self.intake = Intake(lane, parts.config.queue, parts.metrics)

    async def prepare(self, parts: Parts) -> None:
        """Reads how far the tasks are, and brings the store and the report keys together."""
        await self.store.load()
        await reconcile(self.database, self.store, parts.tasks, parts.keys)

    async def run(self) -> None:
        """Commits uploads, closes batches and delivers them, until it is cancelled."""
        await asyncio.gather(
            self.intake.run(), self.dispatch.run_closing(), self.dispatch.run_delivery()
        )


class Shards(Stores[Shard]):
    """All stores of a shuffler by their names."""

    def __init__(self, first: Database, parts: Parts) -> None:
        super().__init__(parts.tasks, parts.config.store_urls)
        self._database, self._parts = first, parts
        self.enrolments = Enrolments(first, parts.clock)
        self.open[FIRST] = Shard(first, lambda: self.own(FIRST), parts, None)
        parts.places.filled = self._filled

    async def start(self) -> None:
        """Opens all stores; a further one that cannot be opened is tried again while others work.

        Ensures: raises `ConfigError` if a store with tasks is not named any more.
        """
        await self.read_placements(self._database)
        unnamed = set(self._placements.values()) - set(self.names())
        for name in sorted(unnamed):
            if self.own(name):
                raise ConfigError(
                    f"Tasks live in the store {name}, and more_stores does not name it; bring it "
                    "back, or have its tasks archived and deleted first."
                )
        self._owner = await self._database.run(_own_name)
        await self.open[FIRST].prepare(self._parts)
        for name in self._urls:
            await self._try_open(name)

    async def _connect(self, name: str) -> Database:
        return await open_database(self._urls[name], SHUFFLER_SCHEMA)

    async def _made(self, name: str, database: Database) -> Shard:
        shard = Shard(database, lambda: self.own(name), self._parts, self.enrolments)
        await shard.prepare(self._parts)
        return shard

    def _filled(self, entry: RegisteredTask) -> None:
        """Looks whether a batch is full, after reports were stored, by whichever process."""
        shard = self.open.get(self.name_of(entry))
        if shard is not None:
            shard.dispatch.reports_arrived.set()

    async def settle_lost(self, name: str, grants: list[Grant]) -> None:
        """Finds out what became of places that a process had taken which has ended.

        Requires: its transactions in this store are over.
        """
        own = {entry.number for entry in self.own(name)}
        lost = [grant for grant in grants if grant.task in own]
        shard = self.open.get(name)
        if lost and shard is not None:
            stored = await filled(shard.database, lost)
            for grant, one in zip(lost, stored, strict=True):
                self._parts.places.settle(grant.task, grant.number, stored=one)

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
            self._placements[task_id] = name  # also if the answer to the commit is lost

        return store


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
