"""Files and folders that only their owner may read, and locks held by running programs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import BaseFileLock, Timeout

from shuffledp.documents.files import lock, overwrite, private, sync

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
LOCK_ENDING = ".lock"


def private_folder(path: Path) -> None:
    """Makes a folder that only its owner may enter; removes other users' rights from an existing
    one."""
    path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    _narrow(path, PRIVATE_FOLDER)


def private_file(path: Path) -> None:
    """Makes an empty file that only its owner may read, or removes other users' rights from an
    existing one."""
    with open(path, "ab", opener=private):
        pass
    _narrow(path, PRIVATE_FILE)


def _narrow(path: Path, mode: int) -> None:
    found = path.stat()
    own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()  # Windows has other rights
    if found.st_mode & 0o077 and own:
        path.chmod(mode)


def erase(path: Path) -> None:
    """Overwrites a file and removes it, both durably; does nothing if there is none."""
    try:
        overwrite(path)
    except FileNotFoundError:
        return
    path.unlink(missing_ok=True)
    sync(path.parent)


def lock_file(path: Path, seconds: float) -> BaseFileLock | None:
    """The lock of a file, taken, after waiting for at most `seconds`; None if another program
    holds it. A program that ends, even by SIGKILL, releases its lock."""
    held = lock(path, seconds, secret=True)
    try:
        held.acquire()
    except Timeout:
        return None
    return held


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A fresh folder, removed at the end; `sweep_scratch` removes it if this process is killed."""
    path = parent / f"{prefix}{os.urandom(8).hex()}"
    marker = Path(f"{path}{LOCK_ENDING}")
    held = lock_file(marker, 0)  # before there is a folder that could be swept
    try:
        path.mkdir(mode=PRIVATE_FOLDER)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if held is not None:
            held.release()
        marker.unlink(missing_ok=True)


def sweep_scratch(parent: Path, prefix: str) -> None:
    """Removes the scratch folders of processes that have ended."""
    for path in parent.glob(f"{prefix}*"):
        marker = Path(f"{path}{LOCK_ENDING}")
        if path.suffix == LOCK_ENDING:
            continue
        with contextlib.suppress(OSError):  # another user's, or gone meanwhile
            held = lock_file(marker, 0)
            if held is not None:
                shutil.rmtree(path, ignore_errors=True)
                held.release()
                marker.unlink(missing_ok=True)
