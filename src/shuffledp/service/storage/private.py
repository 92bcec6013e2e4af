"""Files and folders that only their owner may read, and locks held by running programs."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from shuffledp.sealed.files import sync

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
LOCK_PAUSE_SECONDS = 0.05


def private_folder(path: Path) -> None:
    """Makes a folder that only its owner may enter; takes other people's rights away from one that
    is there already."""
    path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    _narrow(path, PRIVATE_FOLDER)


def private_file(path: Path) -> None:
    """Makes an empty file that only its owner may read, or takes other people's rights away from
    one that is there already."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE))
    _narrow(path, PRIVATE_FILE)


def _narrow(path: Path, mode: int) -> None:
    found = path.stat()
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        path.chmod(mode)


def erase(path: Path) -> None:
    """Overwrites a file's bytes, makes that durable, and removes the file; does nothing if there is
    none. On disks that write elsewhere when a file is overwritten, copies may stay in blocks that
    no file holds any more."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        os.write(handle, bytes(os.fstat(handle).st_size))
        os.fsync(handle)
    finally:
        os.close(handle)
    path.unlink(missing_ok=True)
    sync(path.parent)


def lock_file(path: Path, seconds: float) -> int | None:
    """The handle of a locked file, after waiting for at most so many seconds; None if another
    program holds the lock. A program that ends, even by SIGKILL, gives its lock back."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE)
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(handle)
                return None
            time.sleep(LOCK_PAUSE_SECONDS)
