"""What a device has answered: sealed bytes are stored before they are first sent.

A retry sends the same bytes, so that it can be told from a second answer. After the
acknowledgement only the fact remains that this task was answered.
"""

from __future__ import annotations

import os
from pathlib import Path

from shuffledp.sealed.errors import AlreadyAnswered
from shuffledp.sealed.files import sync


class Outbox:
    """A folder with one file per task: `<id>.sealed` until acknowledged, then `<id>.done`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def claim(self, task_id: bytes) -> None:
        """Refuses a second answer to the same task, before anything is randomized."""
        if self._file(task_id, "done").exists() or self._file(task_id, "sealed").exists():
            raise AlreadyAnswered(
                "This device has answered this task already; a second value would weaken the "
                "guarantee: send what is stored again with `resume` instead."
            )

    def keep(self, task_id: bytes, body: bytes) -> None:
        """Stores a sealed report, durably; refuses if another one was stored meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self.path / f"{task_id.hex()}.{os.urandom(4).hex()}.part"
        with os.fdopen(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        try:
            self.claim(task_id)
            os.link(part, self._file(task_id, "sealed"))  # fails if somebody was faster
        except FileExistsError:
            self.claim(task_id)
            raise
        finally:
            part.unlink()
        sync(self.path)

    def stored(self, task_id: bytes) -> bytes | None:
        """The sealed report that still has to be acknowledged."""
        file = self._file(task_id, "sealed")
        return file.read_bytes() if file.exists() else None

    def acknowledged(self, task_id: bytes, repeat: bool) -> None:
        """Forgets the bytes; remembers that this task was answered, unless it may be repeated."""
        if repeat:
            self._file(task_id, "sealed").unlink(missing_ok=True)
        else:
            self._file(task_id, "done").touch(mode=0o600)
            self._file(task_id, "sealed").unlink(missing_ok=True)
        sync(self.path)

    def answered(self, task_id: bytes) -> bool:
        """Whether the shuffler has acknowledged a report for this task."""
        return self._file(task_id, "done").exists()

    def _file(self, task_id: bytes, state: str) -> Path:
        return self.path / f"{task_id.hex()}.{state}"
