"""Reading hostile files in a process of its own, with limits on time and memory."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from shuffledp.errors import ShuffleDPError
from shuffledp.numbers.deadline import time_limit
from shuffledp.tasks.task import task_from_json

MEMORY_BYTES = 512 << 20
VERIFY_SECONDS = 2.0


class LimitedReader:
    """A process that reads and verifies tasks; it is ended when it does not answer in time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        assert self._answer(120) == "ready"

    def verdict(self, text: str | bytes, seconds: float = 20) -> str:
        """ "accepted", "refused: …", or what went wrong."""
        self._pipe.send(text)
        return self._answer(seconds)

    def _answer(self, seconds: float) -> str:
        if not self._pipe.poll(seconds):
            return f"no answer in {seconds} seconds"
        try:
            return str(self._pipe.recv())
        except EOFError:
            return "the process ended"

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


@contextmanager
def limited_reader() -> Iterator[LimitedReader]:
    """A reader while it is needed."""
    reader = LimitedReader()
    try:
        yield reader
    finally:
        reader.close()


def _serve(pipe: Connection) -> None:
    with open("/proc/self/statm", "rb") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    pipe.send("ready")
    while True:
        text = pipe.recv()
        try:
            with time_limit(VERIFY_SECONDS, "Verifying this task"):
                task_from_json(text).verify()
            answer = "accepted"
        except ShuffleDPError as error:
            answer = f"refused: {error}"
        except BaseException as error:
            answer = f"{type(error).__name__}: {str(error)[:200]}"
        pipe.send(answer)
