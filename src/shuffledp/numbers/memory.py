"""Whether there is enough memory for the next step, checked before anything is charged.

Linux reports how much memory is available without swapping; a control group and a process limit may
allow less. On other systems nothing is refused here.
"""

from __future__ import annotations

from pathlib import Path

from shuffledp.errors import ParameterError

SYSTEM_MEMORY = Path("/proc/meminfo")
OWN_MEMORY = Path("/proc/self/statm")
GROUP = Path("/sys/fs/cgroup")


def check_memory(needed: int, less: str) -> None:
    """Raises `ParameterError` if fewer bytes are free than are needed; `less` says what to try
    instead."""
    free = free_bytes()
    if free is not None and needed > free:
        raise ParameterError(
            f"This needs about {needed / 2**20:,.0f} MB of memory, but {free / 2**20:,.0f} MB are "
            f"free. Nothing was charged: {less}, or use a machine with more memory."
        )


def free_bytes() -> int | None:
    """How many bytes this process can still get; None if the system does not say."""
    known = [_of_system(), _of_group(), _of_process()]
    return min((number for number in known if number is not None), default=None)


def _of_system() -> int | None:
    try:
        lines = SYSTEM_MEMORY.read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def _of_group() -> int | None:
    """What is left of the limit of a control group (version 2), if there is one."""
    try:
        limit, used = ((GROUP / f"memory.{what}").read_text() for what in ("max", "current"))
        return max(int(limit) - int(used), 0)
    except (OSError, ValueError):  # no such group, or no limit: max
        return None


def _of_process() -> int | None:
    """What is left of the limit on this process's address space, if there is one."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        used = int(OWN_MEMORY.read_text().split()[0]) * resource.getpagesize()
    except OSError:
        used = 0
    return max(limit - used, 0)
