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
    return {one: cpu_of(one) for one in (program, *children(program))}


def cpu_of(process: int) -> float:
    """The CPU seconds of one process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def program(word: str) -> int:
    """The process that this one started with such a word on its command line (Linux)."""
    words = {one: Path(f"/proc/{one}/cmdline").read_bytes() for one in children(os.getpid())}
    return next(one for one, line in words.items() if word.encode() in line.split(b"\0"))


def children(process: int) -> list[int]:
    """The processes that one has started, in whichever thread, and that have not ended (Linux)."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # a thread may have ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def family(process: int) -> list[int]:
    """A process, those that it started, and those that they started (Linux); nothing for 0."""
    below = [one for child in children(process) for one in family(child)] if process else []
    return [process, *below] if process else []


def family_seconds(process: int) -> float:
    """The CPU seconds of a process and all of its descendants, also of those that have ended."""
    total = 0.0
    for one in family(process):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def peak_memory(process: int) -> float:
    """The most bytes that any program of this family has had in memory so far."""
    most = 0
    for one in family(process):
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{one}/status").read_text().splitlines()
            most = max(most, int(next(line for line in lines if "VmHWM" in line).split()[1]))
    return most * 1024.0
