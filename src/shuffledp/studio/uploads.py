"""The uploaded file of a rehearsal, in a folder that only this user can read and that is removed at
the end."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request

from shuffledp.service.http.bodies import declared_length
from shuffledp.service.http.problems import Problem

MOST_UPLOAD_BYTES = 512 << 20
LONGEST_NAME = 100


class Uploads:
    """One uploaded file at a time."""

    def __init__(self, most: int = MOST_UPLOAD_BYTES) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shuffledp-studio-"))
        self.file: Path | None = None
        self._most, self._number = most, 0

    async def receive(self, request: Request) -> Path:
        """Writes a request's body to a file, which replaces the one before."""
        length = declared_length(request.headers, self._most)
        if length > self._most:
            raise Problem(
                413,
                "size",
                f"The file is larger than {self._most >> 20:,} MB; rehearse with a part of it, or "
                "on the command line: shuffledp count FILE.",
            )
        path, size = self._new(request.headers.get("x-file-name", "")), 0
        try:
            with open(path, "wb") as file:
                async for part in request.stream():
                    size += len(part)
                    if size > length:
                        break
                    file.write(part)
        except ClientDisconnect:
            size = -1
        if size != length:
            raise Problem(400, "interrupted", "The upload was interrupted; drop the file again.")
        self.file = path
        return path

    def keep(self, name: str, content: bytes) -> Path:
        """Writes a file, which replaces the one before."""
        path = self._new(name)
        path.write_bytes(content)
        self.file = path
        return path

    def _new(self, name: str) -> Path:
        """The path of the next file, in its own folder; the one before is removed."""
        self.forget()
        self._number += 1
        folder = self.folder / str(self._number)
        folder.mkdir(mode=0o700)
        return folder / _plain_name(name)

    def required(self) -> Path:
        """The file that was uploaded last."""
        if self.file is None:
            raise Problem(
                409, "file", "There is no file yet; drop a spreadsheet, CSV or Parquet file first."
            )
        return self.file

    def forget(self) -> None:
        """Removes the file that was uploaded last."""
        if self.file is not None:
            shutil.rmtree(self.file.parent, ignore_errors=True)
        self.file = None

    def close(self) -> None:
        """Removes the folder with everything in it."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _plain_name(given: str) -> str:
    """A file name without anything that could lead to another folder."""
    name = re.sub(r"[^\w .()+-]", "_", unquote(given)).lstrip(". ")[-LONGEST_NAME:]
    return name or "file"
