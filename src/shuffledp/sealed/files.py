"""Files are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from shuffledp.errors import ParameterError


def write_whole(
    path: str | Path, content: str | bytes, *, durable: bool = False, secret: bool = False
) -> None:
    """Replaces a file in one step; with `durable` it is on disk when this returns.

    A secret file can be read by its owner alone. Any other file keeps the permissions that it has,
    and a new one gets those that the process gives to new files (its umask).
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    part = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if secret else 0o666)
    except OSError as error:
        raise _unwritable(target, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            if not secret and target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, target)
        if durable:
            sync(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None
    finally:
        part.unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> ParameterError:
    return ParameterError(
        f"{target} cannot be written ({error.strerror}); choose a file in a folder you may "
        "write to."
    )


def check_writable(path: str | Path) -> None:
    """Refuses a path that `write_whole` could not write to, before anything costs anything."""
    target = Path(path)
    if target.is_dir():
        raise ParameterError(f"{target} is a folder; give the name of a file in it.")
    if not target.parent.is_dir():
        raise ParameterError(f"There is no folder {target.parent}; make it, or choose another.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise ParameterError(
            f"{target.parent} is a folder that you may not write to; choose another."
        )


def sync(path: Path) -> None:
    """Makes a file's contents durable, or the renames in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
