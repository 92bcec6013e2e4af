"""Verifies a task in a separate process, with limits on time and memory.

A certificate is proved again with numbers that somebody else chose. Bounds on every field keep the
proof finite, but it may still take long. A server therefore uses another process, keeps answering
requests, and kills that process when it needs too much.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from shuffledp.errors import ShuffleDPError, TooCostly
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.processes import quick_start
from shuffledp.tasks.task import task_from_json

LOOK_SECONDS = 0.05
"""How often `stop` is called while waiting."""
START_SECONDS = 60.0
"""How long the first process may take to start on a busy machine."""


@dataclass(frozen=True)
class CheckLimits:
    """Limits for verifying one task."""

    seconds: int = 120
    memory_mb: int = 1024


def check_task(
    text: bytes,
    expected_id: bytes,
    limits: CheckLimits,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Verifies the task in a text, in another process.

    Ensures: returns only if the task has this id and `Task.verify` accepted it. Raises `TaskError`
    with the reason if it did not, `TooCostly` if a limit was reached first, and `InterruptedError`
    soon after `stop` returns True. The process has ended when this returns.
    """
    context = quick_start()
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_run, args=(theirs, text, expected_id, limits), daemon=True, name="task check"
    )
    process.start()
    theirs.close()
    try:
        _receive(ours, START_SECONDS, stop)  # the message that it begins
        kind, reason = _receive(ours, limits.seconds, stop)
    except (EOFError, TimeoutError, ConnectionError):
        raise TooCostly(
            f"Verifying the task needs more than {limits.seconds:,} seconds or "
            f"{limits.memory_mb:,} MB; plan for smaller values or cuts, or raise verify_seconds "
            "or verify_memory_mb at the server."
        ) from None
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()
    if kind != "verified":
        raise TaskError(reason)


def _receive(pipe: Connection, seconds: float, stop: Callable[[], bool]) -> tuple[str, str]:
    """The next message of the other process; raises `TimeoutError` if none comes in time."""
    end = time.monotonic() + seconds
    while not pipe.poll(LOOK_SECONDS):
        if stop():
            raise InterruptedError
        if time.monotonic() > end:
            raise TimeoutError
    kind, reason = pipe.recv()
    return str(kind), str(reason)


def _run(pipe: Connection, text: bytes, expected_id: bytes, limits: CheckLimits) -> None:
    """The other process's main function."""
    _limit(limits)
    pipe.send(("begins", ""))
    try:
        task_from_json(text, expected_id).verify()
        answer = ("verified", "")
    except ShuffleDPError as error:
        answer = ("refused", str(error))
    pipe.send(answer)


def _limit(limits: CheckLimits) -> None:
    """Limits this process's CPU time, and its memory beyond what it has already."""
    try:
        import resource
    except ImportError:  # Windows: the other process's time is limited by the one that waits for it
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + limits.seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError), open("/proc/self/statm", "rb") as file:
        most = int(file.read().split()[0]) * resource.getpagesize() + (limits.memory_mb << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
