"""Files are written completely or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from shuffledp.errors import ParameterError


def write_whole(path: str | Path, content: str | bytes, *, durable: bool = False) -> None:
    """Replaces a file in one step; with `durable` it is on disk when this returns."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    name: str | None = None
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(name, target)
        name = None
        if durable:
            sync(target.parent)
    except OSError as error:
        raise ParameterError(
            f"{target} cannot be written ({error.strerror}); choose a folder you may write to."
        ) from None
    finally:
        if name is not None:
            os.unlink(name)


def sync(path: Path) -> None:
    """Makes a file's contents durable, or the renames in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
