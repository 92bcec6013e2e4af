"""Several processes at the shuffler's public address, and one that closes and delivers batches.

    clients ──▶ door, door, … ──▶ stores ──▶ host: closes, orders, delivers batches
                     └── places, one for each report ──┘

The doors (`door`) read requests and store reports, each over connections of its own. The host is a
`Shuffler` like that of one process: it hands out places, so that batches have exactly their size,
and answers every other request. kill −9 of a door breaks its connections: what was not acknowledged
is sent again, and counts once. It is started again, and the places that it had taken are looked up
in the store. kill −9 of the host ends the doors too.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shuffledp.service.http.lifecycle import serve
from shuffledp.service.http.logs import log
from shuffledp.service.http.problems import Problem
from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.door import FRAMES_SOCKET, REQUESTS_SOCKET, listening
from shuffledp.service.shuffler.frames import Frames, Kind
from shuffledp.service.shuffler.host import grant_to_list
from shuffledp.service.shuffler.insisting import insist
from shuffledp.service.shuffler.places import Grant
from shuffledp.service.shuffler.stores import FIRST

DOOR = ("-m", "shuffledp.service.shuffler.door")
"""The program of a door."""
RESTART_SECONDS = 0.5
END_SECONDS = 20.0
NOTE_SECONDS = 5.0
"""How long to wait until all doors know that a task has changed."""


class Links:
    """The host's side of all doors' connections."""

    def __init__(self, shuffler: Shuffler) -> None:
        self._shuffler = shuffler
        self._doors: dict[int, Frames] = {}
        self._ready: set[int] = set()
        """The lanes whose doors have opened a store."""
        self._numbers = itertools.count(1)
        self._noted: dict[Frames, dict[int, asyncio.Future[None]]] = {}
        """What each door has not yet said to know."""
        self._work: set[asyncio.Task[None]] = set()

    def connection(self, lane: int) -> Frames:
        """The protocol of the connection of a lane's door."""

        def received(door: Frames, kind: Kind, number: int, content: Any) -> None:
            if self._doors.get(lane) is door:  # what the one before has left is over
                self._received(lane, door, kind, number, content)

        def lost(door: Frames) -> None:
            if self._doors.get(lane) is door:
                del self._doors[lane]
                self._ready.discard(lane)
            for noted in self._noted.pop(door, {}).values():
                noted.cancel()

        self._doors[lane] = Frames(received, lost)
        self._ready.discard(lane)
        return self._doors[lane]

    def ready(self) -> bool:
        """Whether a door can store reports."""
        return bool(self._ready)

    def _received(self, lane: int, door: Frames, kind: Kind, number: int, content: Any) -> None:
        if kind is Kind.TAKE:
            self._give(lane, door, number, dict(content))
        elif kind is Kind.HELLO:
            further = [name for name in self._shuffler.shards.open if name != FIRST]
            door.send(Kind.HELLO, number, further)
        elif kind is Kind.SETTLE:
            task, grant, stored = content
            self._shuffler.places.settle(task, grant, stored=stored)
        elif kind is Kind.FIGURES:
            self._add(content)
        elif kind is Kind.OPENED:
            self._ready.add(lane)
            self._settle_lost(content, self._shuffler.places.taken_by(lane))
        elif kind is Kind.NOTED:
            noted = self._noted.get(door, {}).pop(number, None)
            if noted is not None and not noted.done():
                noted.set_result(None)

    def _give(self, lane: int, door: Frames, number: int, counts: dict[int, int]) -> None:
        taken = self._shuffler.places.take(lane, counts)
        given = [
            [task, grant_to_list(one) if isinstance(one, Grant) else one.value]
            for task, one in taken.items()
        ]
        door.send(Kind.TAKEN, number, given)

    def _add(self, figures: list[Any]) -> None:
        for name, amount, labels in figures:
            if labels is None:
                self._shuffler.metrics.time(name, amount)
            else:
                self._shuffler.metrics.count(name, amount, **labels)

    def _settle_lost(self, store: str, grants: list[Grant]) -> None:
        """Finds out what became of the places of a door that has ended, as soon as the store
        answers."""
        settle = functools.partial(self._shuffler.shards.settle_lost, store, grants)
        if grants:
            work = asyncio.create_task(insist(settle, "looking up reports failed"))
            self._work.add(work)
            work.add_done_callback(self._work.discard)

    async def tell(self, task_id: bytes) -> None:
        """Tells all doors that a task has changed; returns when they know."""
        waiting = []
        for door in self._doors.values():
            number = next(self._numbers)
            noted = asyncio.get_running_loop().create_future()
            self._noted.setdefault(door, {})[number] = noted
            waiting.append(noted)
            door.send(Kind.TASK, number, task_id.hex())
        if waiting:
            await asyncio.wait(waiting, timeout=NOTE_SECONDS)

    def opened(self, store: str) -> None:
        """Tells all doors that a further store is open."""
        for door in self._doors.values():
            door.send(Kind.STORE, 0, store)

    def close(self) -> None:
        """Ends the work on lost places."""
        for work in self._work:
            work.cancel()


class Doors:
    """The processes at the public address: started, started again, ended."""

    def __init__(self, config: ShufflerConfig, folder: str) -> None:
        self._config, self._folder = config, folder
        self._keeping: list[asyncio.Task[None]] = []
        self._running: set[asyncio.subprocess.Process] = set()

    def start(self) -> None:
        """Starts as many as are configured, and goes on starting those that end."""
        self._keeping = [asyncio.create_task(self._keep(lane)) for lane in self._config.lanes]

    async def _keep(self, lane: int) -> None:
        while True:
            try:
                await self._started_and_ended(lane)
            except OSError as error:  # no room for another process, for example
                log("process not started", level="error", error=type(error).__name__)
            await asyncio.sleep(RESTART_SECONDS)

    async def _started_and_ended(self, lane: int) -> None:
        process = await self._started(lane)
        self._running.add(process)
        try:
            code = await process.wait()
        finally:
            if process.returncode is not None:
                self._running.discard(process)
        log("process ended", level="warning", process=process.pid, state=str(code))

    async def _started(self, lane: int) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *DOOR,
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends the host, which ends these
        )
        config = asdict(replace(self._config, deliver_token=""))
        given = {"config": config, "folder": self._folder, "lane": lane}
        assert process.stdin is not None
        process.stdin.write(json.dumps(given).encode())
        process.stdin.close()
        return process

    async def stop(self) -> None:
        """Ends all of them, after they have answered what they have begun."""
        for keeping in self._keeping:
            keeping.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        ends = [asyncio.create_task(process.wait()) for process in self._running]
        if ends:
            _, late = await asyncio.wait(ends, timeout=END_SECONDS)
            for process in self._running if late else ():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()


class HostShuffler(Shuffler):
    """A shuffler whose public address is answered by other processes."""

    def __init__(self, config: ShufflerConfig, folder: str, **options: Any) -> None:
        own = replace(config, allow_origins=(), address_requests_per_minute=0)  # doors see to these
        super().__init__(own, **options)
        self._folder = folder
        self._doors, self._links = Doors(config, folder), Links(self)

    async def start(self) -> None:
        self._public = listening(self.config)  # so that nobody else takes the address
        await super().start()
        self.tasks.changed, self.shards.opened = self._links.tell, self._links.opened
        loop = asyncio.get_running_loop()
        self._frames = [
            await loop.create_unix_server(
                functools.partial(self._links.connection, lane),
                os.path.join(self._folder, f"{FRAMES_SOCKET}-{lane}"),
            )
            for lane in self.config.lanes
        ]
        self._doors.start()

    async def answer_ready(self, request: Request) -> Response:
        """Ready when a process answers the public address, too."""
        if not self._links.ready():
            raise Problem(
                503, "stopped", "No process answers the public address yet; wait.", retry_after=1
            )
        return await super().answer_ready(request)

    async def stop(self) -> None:
        await self._doors.stop()
        for frames in self._frames:
            frames.close()
        self._links.close()
        await super().stop()
        self._public.close()


def serve_with_doors(config: ShufflerConfig) -> None:
    """Runs a shuffler of several processes until SIGTERM or SIGINT."""
    folder = tempfile.mkdtemp(prefix="shuffledp-")  # short, as the names of sockets must be
    try:
        serve(HostShuffler(config, folder), uds=os.path.join(folder, REQUESTS_SOCKET))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
