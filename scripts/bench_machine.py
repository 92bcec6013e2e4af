"""The machine under a benchmark: its disk, the CPU time of programs, and parts of cores (Linux)."""

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
    """While each of these processes gets at most such a part of a core; 0: no limit.

    A small machine then shows how a service grows with its processes: the load generator and the
    database have the rest of it.
    """
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


def writes(path: Path, size: int) -> float:
    """How often `size` bytes can be written and synced in a second."""
    data, count = os.urandom(size), 100
    begin = time.perf_counter()
    with open(path, "wb") as out:
        for _ in range(count):
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    path.unlink()
    return count / (time.perf_counter() - begin)


def written_bytes(*programs: int) -> int:
    """How many bytes these programs and those that they started gave to the disk (Linux)."""
    total = 0
    for process in (one for program in programs for one in cpu_seconds(program)):
        facts = Path(f"/proc/{process}/io").read_text().split()
        total += int(facts[facts.index("write_bytes:") + 1])
    return total


def cpu_seconds(program: int) -> dict[int, float]:
    """The CPU seconds of a program and of the programs that it started (Linux), its own first;
    nothing for 0."""
    if not program:
        return {}
    children = Path(f"/proc/{program}/task/{program}/children").read_text().split()
    return {one: cpu_of(one) for one in (program, *map(int, children))}


def cpu_of(process: int) -> float:
    """The CPU seconds of one process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
