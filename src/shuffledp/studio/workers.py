"""Jobs in worker processes, so that the page always answers: of each kind of job only the newest
request runs, and work that nobody waits for any more is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from typing import Any

from shuffledp.errors import ShuffleDPError

GRACE_SECONDS = 0.4
"""How long a newer request waits for an older one to end by itself: starting a process takes
longer than most plans."""
LONGEST_LINE = 64 << 20
MOST_IDLE = 4
"""How many processes wait for the next job, besides the spare one."""


class Outdated(Exception):
    """A newer request has replaced this one."""


class WorkerPool:
    """Processes that do jobs, one at a time; one spare process is always kept ready."""

    def __init__(self) -> None:
        self._spare: asyncio.Task[Process] | None = None
        self._idle: list[Process] = []
        """Those that have done a job; the last one knows most of what is asked next."""
        self._all: set[Process] = set()
        self._closed = False

    def prepare(self) -> None:
        """Starts a process that will be needed soon."""
        if self._spare is None and not self._closed:
            self._spare = asyncio.create_task(self._start())

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "shuffledp.studio.jobs",
            stdin=PIPE,
            stdout=PIPE,
            limit=LONGEST_LINE,
        )
        self._all.add(process)
        assert process.stdout is not None
        await process.stdout.readline()  # it says that it is ready
        return process

    async def take(self) -> Process:
        """A process that waits for a job, for the caller alone."""
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        starting, self._spare = self._spare or asyncio.create_task(self._start()), None
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._spare = self._spare or starting  # the next caller takes it
            raise
        self.prepare()
        return process

    def give_back(self, process: Process) -> None:
        """Keeps a process that has done its job for the next one, of any tab."""
        if len(self._idle) < MOST_IDLE:
            self._idle.append(process)
        else:
            self.end(process)

    def end(self, process: Process) -> None:
        """Kills a process, whatever it is doing."""
        self._all.discard(process)
        if process.returncode is None:
            process.kill()

    async def close(self) -> None:
        """Ends all processes."""
        self._closed = True
        if self._spare is not None:
            self._spare.cancel()
            await asyncio.gather(self._spare, return_exceptions=True)
        ended = list(self._all)
        for process in ended:
            self.end(process)
        await asyncio.gather(*(process.wait() for process in ended))


class JobRun:
    """One run of a job, from its start to its end."""

    def __init__(self) -> None:
        self.worker: Process | None = None
        self.over = asyncio.Event()


class LatestJob:
    """One kind of job, of which only the newest request matters."""

    def __init__(self, workers: WorkerPool) -> None:
        self._workers = workers
        self._running: JobRun | None = None
        self._newest: JobRun | None = None

    async def run(self, job: str, given: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """The items of a job. Raises `Outdated` as soon as a newer job was asked for, and
        `ShuffleDPError` with the reason if the job is refused or its process ends."""
        mine = self._newest = JobRun()
        await self._wait_for_turn(mine)
        self._running = mine
        end: dict[str, Any] | None = None
        try:
            mine.worker = await self._workers.take()
            if mine.over.is_set():  # replaced while it waited for a process
                self._workers.give_back(mine.worker)
                raise Outdated
            with contextlib.suppress(ConnectionError):  # it has ended, and answers nothing
                await _ask(mine.worker, {"job": job, "given": given})
            while (answer := await _answer(mine.worker)) is not None:
                if "item" not in answer:
                    end = answer
                    break
                yield answer["item"]
        finally:
            replaced = mine.over.is_set()
            self._finish(mine, end is not None)
        if end is None and replaced:
            raise Outdated
        if end is None:
            raise ShuffleDPError(
                "The process that computes this has ended, perhaps for lack of memory; try it "
                "again, or with fewer people or answers."
            )
        if end["end"] == "refused":
            raise ShuffleDPError(end["why"])

    async def _wait_for_turn(self, mine: JobRun) -> None:
        """Waits until the run before has ended, and ends it if that takes too long."""
        before = self._running
        if before is not None:
            try:
                await asyncio.wait_for(before.over.wait(), GRACE_SECONDS)
            except TimeoutError:
                if mine is self._newest:
                    self._finish(before, whole=False)
        if mine is not self._newest:
            raise Outdated

    def _finish(self, run: JobRun, whole: bool) -> None:
        """Gives back the process of a job that is done; kills that of any other."""
        if run.over.is_set():
            return
        run.over.set()
        if run.worker is not None:
            (self._workers.give_back if whole else self._workers.end)(run.worker)
        if self._running is run:
            self._running = None


async def _ask(worker: Process, asked: dict[str, Any]) -> None:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(asked).encode() + b"\n")
    await worker.stdin.drain()


async def _answer(worker: Process) -> dict[str, Any] | None:
    """The next answer; None if the process has ended."""
    assert worker.stdout is not None
    line = await worker.stdout.readline()
    return json.loads(line) if line else None
