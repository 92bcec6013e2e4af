"""Files of sealed messages, cut into slices that workers read on their own.

A file is a batch in the service's format ("SDPB", in any order), or clients' reports one after the
other ("SDP1", all of one task, so that all are equally long). Paths are local, or URIs of an object
store that pyarrow knows (s3://, gs://, hdfs://, …); every worker must see them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.ordering import Rows
from shuffledp.sealed.wire import (
    BATCH_HEADER,
    MESSAGE,
    REPORT_HEADER,
    BatchHeader,
    read_batch_header,
    read_upload,
    report_bytes,
)

SLICE = 48 << 20
"""Bytes that a worker reads at a time."""
COPY = 8 << 20
REPORT_ID = slice(37, 53)
"""Where a report's header holds its id."""


def place(path: str) -> tuple[Any, str]:
    """(pyarrow's file system, path in it) of a local path or a URI."""
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in path:
        return LocalFileSystem(), os.path.abspath(path)
    try:
        system, inside = FileSystem.from_uri(path)
    except (ArrowException, OSError, ValueError):
        raise TaskError(
            f"{shown(path)} names no file system that pyarrow knows; check it."
        ) from None
    return system, inside


def shown(path: str) -> str:
    """A path as errors may show it: a URI's credentials and settings stay out."""
    if "://" not in path:
        return path
    parts = urlsplit(path)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def beside(path: str, ending: str) -> str:
    """The path with an ending, which in a URI stands before its settings."""
    name, mark, settings = path.partition("?") if "://" in path else (path, "", "")
    return f"{name}{ending}{mark}{settings}"


@dataclass(frozen=True)
class Sealed:
    """A file of sealed messages: where its records begin and how long each is."""

    path: str
    number: int
    start: int
    head: int
    messages: int
    """Per record."""
    records: int
    header: bytes
    """Of the batch, or of the first report."""

    @property
    def width(self) -> int:
        return self.head + self.messages * MESSAGE

    def slices(self) -> Iterator[tuple[Sealed, int, int]]:
        """(file, first record, records) of every slice."""
        step = max(1, SLICE // self.width)
        for first in range(0, self.records, step):
            yield self, first, min(step, self.records - first)

    def read(self, first: int, count: int) -> Rows:
        """So many records from here on, one per row."""
        system, inside = place(self.path)
        with system.open_input_file(inside) as file:
            data = file.read_at(count * self.width, self.start + first * self.width)
        if len(data) != count * self.width:
            raise TaskError(
                f"{shown(self.path)} is shorter than it was; leave files alone while they are read."
            )
        rows: Rows = np.frombuffer(data, np.uint8).reshape(count, self.width)
        return rows


def look_at(path: str, number: int, messages: int) -> Sealed:
    """The layout of a file of a task whose reports carry so many messages."""
    system, inside = place(path)
    try:
        size = system.get_file_info(inside).size
        with system.open_input_file(inside) as file:
            start = file.read_at(min(size or 0, report_bytes(messages)), 0)
    except (OSError, TypeError):
        raise TaskError(
            f"{shown(path)} cannot be read; check the path, and that workers see it."
        ) from None
    if start[:4] == b"SDPB":
        header = read_batch_header(start)
        if header.size(messages) != size:
            raise TaskError(
                f"{shown(path)} is not as long as its header says; deliver it again whole."
            )
        inside_of = (size - BATCH_HEADER) // MESSAGE
        return Sealed(path, number, BATCH_HEADER, 0, 1, inside_of, start[:BATCH_HEADER])
    read_upload(start)
    if size % report_bytes(messages):
        raise TaskError(f"{shown(path)} ends within a report; copy it again whole.")
    records = size // report_bytes(messages)
    return Sealed(path, number, 0, REPORT_HEADER, messages, records, start[:REPORT_HEADER])


def batch_header(file: Sealed) -> BatchHeader | None:
    """What a batch file says about itself; None for reports."""
    return read_batch_header(file.header) if file.head == 0 else None


def write_whole(folder: str, name: str, data: bytes) -> None:
    """A file in a folder, complete or absent, however many workers write it at the same time."""
    from pyarrow.fs import LocalFileSystem

    system, inside = place(folder)
    local = isinstance(system, LocalFileSystem)
    target = f"{inside}/{name}"
    path = f"{inside}/.{name}.{uuid.uuid4().hex}" if local else target  # objects appear whole
    with system.open_output_stream(path) as out:
        out.write(data)
    if local:
        os.replace(path, target)


def join(folder: str, names: Sequence[str], target: str, header: bytes) -> bytes:
    """Header and files, one after the other, as one file; gives the SHA-256 of it all."""
    import hashlib

    system, inside = place(folder)
    out_system, out_path = place(target)
    digest = hashlib.sha256(header)
    with out_system.open_output_stream(out_path) as out:
        out.write(header)
        for name in names:
            with system.open_input_stream(f"{inside}/{name}") as part:
                while data := part.read(COPY):
                    digest.update(data)
                    out.write(data)
    return digest.digest()
