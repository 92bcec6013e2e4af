"""Files that are written completely or not at all, and locks between processes."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock

from shuffledp.errors import ParameterError

WINDOWS = os.name == "nt"
READERS_END_SECONDS = 5.0
LOCK_PAUSE_SECONDS = 0.01
CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES}
"""Errors of file systems that cannot make a folder durable."""


def private(path: str, flags: int) -> int:
    """An opener for `open` that creates files only their owner can read."""
    return os.open(path, flags, 0o600)


def write_whole(
    path: str | Path, content: str | bytes, *, durable: bool = False, secret: bool = False
) -> None:
    """Replaces a file in one step; with `durable` it is on disk when this returns.

    Only its owner can read a secret file. Any other file keeps its permissions, and a new one gets
    those of the process's umask.
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    part = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    try:
        file = open(part, "xb", opener=private if secret else None)  # noqa: SIM115
    except OSError as error:
        raise _unwritable(target, error) from None
    try:
        with file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if not secret and target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        _replace(part, target)
        if durable:
            sync(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None
    finally:
        part.unlink(missing_ok=True)


def _replace(part: Path, target: Path) -> None:
    """Renames a file over another. Windows refuses while a program reads the other one, so this
    waits a few seconds for readers to finish."""
    end = time.monotonic() + READERS_END_SECONDS
    while True:
        try:
            os.replace(part, target)
            return
        except PermissionError:
            if not WINDOWS or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _unwritable(target: Path, error: OSError) -> ParameterError:
    return ParameterError(
        f"{target} cannot be written ({error.strerror}); choose a file in a folder you may "
        "write to."
    )


def check_writable(path: str | Path) -> None:
    """Refuses a path that `write_whole` could not write to, before any work is done."""
    target = Path(path)
    if target.is_dir():
        raise ParameterError(f"{target} is a folder; name a file in it.")
    if not target.parent.is_dir():
        raise ParameterError(f"There is no folder {target.parent}; create it, or choose another.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ParameterError(
            f"The folder {target.parent} cannot be written to ({error.strerror}); choose another."
        ) from None


def overwrite(path: Path) -> None:
    """Replaces a file's bytes by zeros in place, durably. On disks that do not overwrite in place,
    copies may remain in unused blocks."""
    with open(path, "r+b", buffering=0) as file:
        file.write(bytes(path.stat().st_size))
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Makes a file's contents durable, or the renames in a folder if the system can do that.
    Windows and some network file systems make renames durable by themselves, or not at all."""
    folder = path.is_dir()
    if folder and WINDOWS:
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno in CANNOT_SYNC):
            raise
    finally:
        os.close(handle)


def lock(path: Path, seconds: float = -1, *, secret: bool = False) -> BaseFileLock:
    """A lock between processes, for use with `with`. A process that ends, even by SIGKILL, releases
    it. Waits for at most `seconds` (below 0: forever), then raises `filelock.Timeout`. The empty
    lock file is never removed: removing it would let two processes in.
    """
    if not path.parent.is_dir():  # filelock would create it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    rights: dict[str, Any] = {"mode": 0o600} if secret else {}  # otherwise by the umask
    # not bound to a thread: a server may acquire it in one and release it in another
    return FileLock(
        path, timeout=seconds, poll_interval=LOCK_PAUSE_SECONDS, thread_local=False, **rights
    )
