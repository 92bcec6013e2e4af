"""Where the files of a column are: on this machine, in an object store, or in standard input.

data/people.csv, C:\\data\\people.parquet     a file, or a folder of Parquet files
s3://bucket/people.parquet, gs://…, hdfs://…   any file system that pyarrow supports
sample:commute                                 a file that comes with the package
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from shuffledp import samples
from shuffledp.data.arrow import pyarrow
from shuffledp.documents.json_text import is_text
from shuffledp.errors import ParameterError

T = TypeVar("T")
GZIP_START, PARQUET_START = b"\x1f\x8b", b"PAR1"
"""How files of these kinds begin."""
SECONDS, GLANCE = 20.0, 0.1
"""How many seconds to wait for an object store, and how long until Ctrl-C is noticed."""


def file_system(path: str) -> tuple[Any, str]:
    """(pyarrow's file system, path in it) of a local path or a URI."""
    pa = pyarrow()
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in path:
        return LocalFileSystem(), os.path.abspath(path)
    try:
        with reaching(shown(path)):
            system, inside = within(SECONDS, lambda: FileSystem.from_uri(_limited(path)))
    except (pa.ArrowException, ValueError):
        raise ParameterError(
            f"{shown(path)} is not on a file system that pyarrow supports; check it."
        ) from None
    return system, inside


def _limited(path: str) -> str:
    """A URI with a limit on how long the file system retries, if it has such a setting."""
    parts = urlsplit(path)
    if parts.scheme not in ("gs", "gcs") or "retry_limit_seconds" in parts.query:
        return path
    limit = f"retry_limit_seconds={SECONDS / 2:g}"
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, limit)))))


@contextmanager
def reaching(name: str) -> Iterator[None]:
    """An error that says in one sentence that a file cannot be reached, and why."""
    try:
        yield
    except TimeoutError:
        raise ParameterError(
            f"{name} cannot be reached: there was no answer within {SECONDS:g} seconds; check the "
            "network and the address, and try again."
        ) from None
    except OSError as error:
        raise ParameterError(
            f"{name} cannot be reached ({_reason(error)}); check its address and your right to "
            "read it."
        ) from None


def _reason(error: OSError) -> str:
    """The first line of a file system's error, without addresses and at most 200 characters
    long."""
    lines = (error.strerror or str(error)).strip().splitlines() or ["no reason was given"]
    return re.sub(r"\w+://\S+", "…", lines[0])[:200].rstrip(".")


def shown(path: str) -> str:
    """A path as errors may show it: without a URI's credentials and settings."""
    if "://" not in path:
        return path
    parts = urlsplit(path)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file or a folder that a column is read from."""

    shown: str
    """Its name in errors."""
    name: str
    """Its name in lower case; the ending determines how it is read."""
    system: Any
    inside: str
    """The path in the file system."""
    content: bytes | None = None
    """The whole file, if it is not in a file system."""

    @classmethod
    def of(cls, path: str | Path) -> Source:
        """The source for a path, a URI or the name of a sample."""
        text = str(path)
        if "\0" in text or not is_text(text):
            raise ParameterError(
                "The path contains characters that are not text; check it, or rename the file."
            )
        if text.startswith(samples.PREFIX):
            text = str(samples.path(text.removeprefix(samples.PREFIX)))
        system, inside = file_system(text)
        return cls(shown=shown(text), name=inside.lower(), system=system, inside=inside)

    @classmethod
    def of_bytes(cls, content: bytes, title: str) -> Source:
        """A CSV file (possibly gzipped) or a Parquet file that is already in memory."""
        packed, parquet = content.startswith(GZIP_START), content.startswith(PARQUET_START)
        ending = ".parquet" if parquet else ".csv.gz" if packed else ".csv"
        return cls(shown=title, name=ending, system=None, inside="", content=content)

    def is_folder(self) -> bool:
        """Whether this is a folder."""
        return self.content is None and self._info().type.name == "Directory"

    def is_file(self) -> bool:
        """Whether this is an existing file."""
        return self.content is not None or self._info().is_file

    def is_empty(self) -> bool:
        """Whether this is an empty file."""
        if self.content is not None:
            return not self.content
        return bool(self.system.get_file_info(self.inside).size == 0)

    def open(self) -> Any:
        """The file, opened for random access."""
        if self.content is not None:
            return pyarrow().BufferReader(self.content)
        with reaching(self.shown):
            return self._wait(lambda: self.system.open_input_file(self.inside))

    def stream(self) -> Any:
        """The file from its beginning, decompressed."""
        packing = "gzip" if self.name.endswith(".gz") else None
        if self.content is not None:
            opened = self.open()
            return pyarrow().CompressedInputStream(opened, packing) if packing else opened
        with reaching(self.shown):
            return self._wait(lambda: self.system.open_input_stream(self.inside, packing))

    def _wait(self, call: Callable[[], T]) -> T:
        """What a call of the file system returns; for an object store, within the time limit."""
        from pyarrow.fs import LocalFileSystem

        return call() if isinstance(self.system, LocalFileSystem) else within(SECONDS, call)

    def parquet_files(self) -> list[str]:
        """All Parquet files in this folder tree, except programs' private files, whose names begin
        with . or _."""
        from pyarrow.fs import FileSelector

        with reaching(self.shown):
            found = self._wait(
                lambda: self.system.get_file_info(FileSelector(self.inside, recursive=True))
            )
        paths = sorted(one.path for one in found if one.is_file)
        return [path for path in paths if path.endswith(".parquet") and not self._hidden(path)]

    def _hidden(self, path: str) -> bool:
        below = path.removeprefix(self.inside).replace("\\", "/")
        return any(part.startswith((".", "_")) for part in below.split("/"))

    def _info(self) -> Any:
        with reaching(self.shown):
            return self._wait(lambda: self.system.get_file_info(self.inside))


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns or raises; raises `TimeoutError` if it takes longer.

    The call runs in a separate thread, because native code that waits for a network does not notice
    Ctrl-C. After a timeout, the thread is abandoned and ends with the process.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < seconds:
        thread.join(GLANCE)
        waited += GLANCE
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError
    return found[0]
