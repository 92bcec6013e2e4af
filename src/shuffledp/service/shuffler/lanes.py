"""A door's connections to all stores, and the tasks that it knows."""

from __future__ import annotations

import asyncio

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.enrolments import Enrolments
from shuffledp.service.shuffler.host import Host
from shuffledp.service.shuffler.intake import Intake
from shuffledp.service.shuffler.lane import Lane
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.shuffler.stores import FIRST, Stores
from shuffledp.service.store import open_lane
from shuffledp.service.store.database import Database
from shuffledp.tasks.clock import Clock
from shuffledp.tasks.task import task_from_json


class OpenLane:
    """This process's connection to one store, and the uploads that it stores there."""

    def __init__(self, database: Database, lane: Lane, config: ShufflerConfig, host: Host) -> None:
        self.database = database
        self.intake = Intake(lane, config.queue, host)

    async def run(self) -> None:
        """Commits uploads until it is cancelled."""
        await self.intake.run()


class Lanes(Stores[OpenLane]):
    """This process's connections to all stores."""

    def __init__(
        self,
        config: ShufflerConfig,
        lane: int,
        first: Database,
        tasks: TaskRegistry,
        host: Host,
        clock: Clock,
    ) -> None:
        super().__init__(tasks, config.store_urls)
        self._config, self._lane, self._host, self._clock = config, lane, host, clock
        self.first = first
        self.enrolments = Enrolments(first, clock)
        self._noting = asyncio.Lock()

    async def start(self) -> None:
        """Opens all stores; a further one that cannot be opened is tried again."""
        await self.read_placements(self.first)
        rows = await self.first.rows("SELECT owner FROM store_names")
        self._owner = bytes(rows[0][0])
        self.open[FIRST] = await self._made(FIRST, self.first)
        for name in self._urls:
            await self._try_open(name)

    async def _connect(self, name: str) -> Database:
        if name not in self._host.stores:  # the host must be the first that opens it
            raise StorageUnavailable("The host has not opened this store yet.")
        return await open_lane(self._urls[name], SHUFFLER_SCHEMA, self._lane)

    async def _made(self, name: str, database: Database) -> OpenLane:
        enrolments = None if name == FIRST else self.enrolments
        lane = Lane(database, self._tasks.numbered, self._host, self._clock, enrolments)
        self._host.opened(name)
        return OpenLane(database, lane, self._config, self._host)

    async def note(self, task_id: bytes) -> None:
        """Reads a task again that is new, has another state, or was deleted."""
        async with self._noting:
            await self._note(task_id)

    async def _note(self, task_id: bytes) -> None:
        rows = await self.first.rows(
            "SELECT number, body, state, changed FROM tasks WHERE id=$1", task_id
        )
        places = await self.first.rows("SELECT store FROM placements WHERE task=$1", task_id)
        if places:
            self._placements[task_id] = places[0][0]
        if not rows or rows[0][2] == "deleted":
            self._tasks.by_id.pop(task_id, None)
            return
        number, body, state, changed = rows[0]
        known = self._tasks.by_id.get(task_id)
        if known is not None:
            known.state, known.changed = state, changed
            return
        task = await asyncio.to_thread(task_from_json, body)
        entry = RegisteredTask(number=number, task=task, state=state, changed=changed)
        self._tasks.by_id[task_id] = entry
