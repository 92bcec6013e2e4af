"""Encrypted reports on the device: stored before they are first sent, until acknowledged.

A retry sends the same bytes, so that the shuffler can tell it from a second answer. After the
acknowledgement only a mark remains that this task was answered.
"""

from __future__ import annotations

import os
from pathlib import Path

from shuffledp.documents.files import private, sync
from shuffledp.service.errors import AlreadyAnswered


class Outbox:
    """A folder with one file per task: `<id>.report` until it is acknowledged, then `<id>.done`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def refuse_answered(self, task_id: bytes) -> None:
        """Raises `AlreadyAnswered` if there is a report for this task, acknowledged or not."""
        if self._file(task_id, "done").exists() or self._file(task_id, "report").exists():
            raise AlreadyAnswered(
                "This device has already answered this task; a second value would weaken the "
                "guarantee. If the report was not sent yet, `resume` (`send --resume`) sends it."
            )

    def store(self, task_id: bytes, body: bytes) -> None:
        """Stores an encrypted report durably; raises `AlreadyAnswered` if there is one already."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self.path / f"{task_id.hex()}.{os.urandom(4).hex()}.part"
        try:
            with open(part, "xb", opener=private) as out:
                out.write(body)
                out.flush()
                os.fsync(out.fileno())
            self.refuse_answered(task_id)
            os.link(part, self._file(task_id, "report"))  # fails if another program was faster
        except FileExistsError:
            self.refuse_answered(task_id)
            raise
        finally:
            part.unlink(missing_ok=True)
        sync(self.path)

    def stored(self, task_id: bytes) -> bytes | None:
        """The encrypted report that is not yet acknowledged; None if there is none."""
        file = self._file(task_id, "report")
        return file.read_bytes() if file.exists() else None

    def acknowledge(self, task_id: bytes, repeat: bool) -> None:
        """Deletes the report; marks the task as answered, unless it may be answered again."""
        if not repeat:
            self._file(task_id, "done").touch(mode=0o600)
        self._file(task_id, "report").unlink(missing_ok=True)
        sync(self.path)

    def answered(self, task_id: bytes) -> bool:
        """Whether the shuffler has acknowledged a report for this task."""
        return self._file(task_id, "done").exists()

    def _file(self, task_id: bytes, state: str) -> Path:
        return self.path / f"{task_id.hex()}.{state}"
