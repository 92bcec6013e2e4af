"""Processes that get a part of a core each, so that a small machine shows how a service grows with
its processes: Linux' control groups hold each of them to its part, and the load generator and the
database have the rest of the machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PERIOD_MICROSECONDS = 10_000
"""Short, so that a process that has used its part waits for a few milliseconds only."""


@contextlib.contextmanager
def held_to(share: float, processes: Iterable[int]) -> Iterator[None]:
    """While each of these processes gets at most such a part of a core; 0: no limit."""
    made: list[Path] = []
    try:
        for process in processes if share else ():
            made.append(_group(f"shuffledp-bench-{process}", int(share * PERIOD_MICROSECONDS)))
            (made[-1] / "cgroup.procs").write_text(str(process))
        yield
    finally:
        for group in made:
            _remove(group)


def _group(name: str, quota: int) -> Path:
    """A new control group with a limit, of version 1 or 2."""
    first = GROUPS / "cpu"
    try:
        group = (first if first.exists() else GROUPS) / name
        group.mkdir()
        if first.exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
    except OSError as error:
        raise SystemExit(
            f"A control group cannot be made ({error.strerror}); run this as root, or without "
            "--core-share."
        ) from None
    return group


def _remove(group: Path) -> None:
    """Removes a group; its processes go back to the one above."""
    for process in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(process)
    for _ in range(100):
        with contextlib.suppress(OSError):
            os.rmdir(group)
            return
        time.sleep(0.02)
