"""Several processes at the shuffler's public address, and one that writes the store.

    clients ──▶ door, door, …  ──▶ writer ──▶ store, report keys, batches, deliveries

The doors (`door`) read requests; everything that must happen once happens in the writer, which is a
`Shuffler` like that of one process. kill −9 of a door breaks its connections: what was not
acknowledged is sent again, and counts once. It is started again. kill −9 of the writer ends the
doors too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive

from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.shuffler.door import FRAMES_SOCKET, REQUESTS_SOCKET, listening
from shuffledp.service.shuffler.frames import ANSWERING, Frames, Kind, opened
from shuffledp.service.web.lifecycle import serve
from shuffledp.service.web.logs import log

RESTART_SECONDS = 0.5
END_SECONDS = 20.0
Answer = Callable[[str, Headers, Receive], Awaitable[Response]]


class Uploads:
    """The writer's side of all doors' connections: answers the uploads that they hand over."""

    def __init__(self, answer: Answer, limited: Callable[[], None]) -> None:
        self._answer, self._limited = answer, limited
        self._bodies: dict[tuple[Frames, int], asyncio.Queue[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def connection(self) -> Frames:
        """The protocol of one door's connection."""
        return Frames(self._received, self._lost)

    def _received(self, door: Frames, kind: Kind, number: int, content: bytes) -> None:
        if kind is Kind.OPEN:
            task = asyncio.create_task(self._upload(door, number, content))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind is Kind.LIMITED:
            self._limited()
        elif (door, number) in self._bodies:
            self._bodies[door, number].put_nowait(_message(kind, content))

    def _lost(self, door: Frames) -> None:
        for name, queue in self._bodies.items():
            if name[0] is door:
                queue.put_nowait({"type": "http.disconnect"})

    async def _upload(self, door: Frames, number: int, content: bytes) -> None:
        task, token, length, body, more = opened(content)
        raw = [(b"authorization", token), (b"content-length", length)]
        headers = Headers(raw=[header for header in raw if header[1]])
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": more}]

        async def receive() -> Message:
            if first:
                return first.pop()
            queue = self._bodies.setdefault((door, number), asyncio.Queue())
            door.send(Kind.MORE, number)
            return await queue.get()

        try:
            answer = await self._answer(task.decode(), headers, receive)
        finally:
            self._bodies.pop((door, number), None)
        wait = int(answer.headers.get("retry-after", "0"))
        said = ANSWERING.pack(answer.status_code, wait) + bytes(answer.body)
        door.send(Kind.ANSWER, number, said)


def _message(kind: Kind, content: bytes) -> Message:
    if kind is Kind.GONE:
        return {"type": "http.disconnect"}
    return {"type": "http.request", "body": content[1:], "more_body": bool(content[0])}


class Doors:
    """The processes at the public address: started, started again, ended."""

    def __init__(self, config: ShufflerConfig, folder: str) -> None:
        self._config, self._folder = config, folder
        self._keeping: list[asyncio.Task[None]] = []
        self._running: set[asyncio.subprocess.Process] = set()

    def start(self) -> None:
        """Starts as many as are configured, and goes on starting those that end."""
        count = self._config.processes
        self._keeping = [asyncio.create_task(self._keep()) for _ in range(count)]

    async def _keep(self) -> None:
        while True:
            process = await self._started()
            self._running.add(process)
            try:
                code = await process.wait()
            finally:
                if process.returncode is not None:
                    self._running.discard(process)
            log("process ended", level="warning", process=process.pid, state=str(code))
            await asyncio.sleep(RESTART_SECONDS)

    async def _started(self) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "shuffledp.service.shuffler.door",
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends the writer, which ends these
        )
        config = asdict(replace(self._config, deliver_token="", more_stores=()))
        assert process.stdin is not None
        process.stdin.write(json.dumps({"config": config, "folder": self._folder}).encode())
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


class Writer(Shuffler):
    """A shuffler whose public address is answered by other processes."""

    def __init__(self, config: ShufflerConfig, folder: str, **options: Any) -> None:
        own = replace(config, allow_origins=(), address_requests_per_minute=0)  # doors see to these
        super().__init__(own, **options)
        self._folder = folder
        self._doors = Doors(config, folder)

    async def start(self) -> None:
        self._public = listening(self.config)  # so that nobody else takes the address
        await super().start()
        uploads = Uploads(self.answer_upload, lambda: self.metrics.count("limited", by="address"))
        path = os.path.join(self._folder, FRAMES_SOCKET)
        loop = asyncio.get_running_loop()
        self._frames = await loop.create_unix_server(uploads.connection, path)
        self._doors.start()

    async def stop(self) -> None:
        await self._doors.stop()
        self._frames.close()
        await super().stop()
        self._public.close()


def serve_with_doors(config: ShufflerConfig) -> None:
    """Runs a shuffler of several processes until SIGTERM or SIGINT."""
    folder = tempfile.mkdtemp(prefix="shuffledp-")  # short, as the names of sockets must be
    try:
        serve(Writer(config, folder), uds=os.path.join(folder, REQUESTS_SOCKET))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
