"""Files of encrypted messages, cut into slices that workers read independently.

A file is a batch in one piece ("SDPB", in any order), or clients' reports one after the other
("SDP1", all of one task, so that all are equally long), or a part of a batch of the service, with
its manifest in the same folder. Paths are local, or URIs of an object store that pyarrow knows
(s3://, gs://, hdfs://, …); every worker must see them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shuffledp.data.sources import file_system, shown
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.ordering import Rows
from shuffledp.tasks.parts import (
    MANIFEST_NAME,
    MOST_MANIFEST_BYTES,
    Manifest,
    PartFacts,
    as_rows,
    check_part,
    open_part,
    part_name,
)
from shuffledp.tasks.wire import (
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    MESSAGE_BYTES,
    REPORT_HEADER_BYTES,
    BatchHeader,
    read_batch_header,
    read_upload,
    report_bytes,
)

SLICE_BYTES = 48 << 20
"""How much a worker reads at a time."""
COPY_BYTES = 8 << 20


def beside(path: str, ending: str) -> str:
    """The path with an ending added, in a URI before its settings."""
    name, mark, settings = path.partition("?") if "://" in path else (path, "", "")
    return f"{name}{ending}{mark}{settings}"


@dataclass(frozen=True, kw_only=True)
class MessageFile:
    """A file of encrypted messages, as records of equal length: reports, or a batch's messages."""

    path: str
    number: int
    start: int
    """Bytes before the first record."""
    head: int
    """Bytes of a record before its messages: a report's header, or 0 in a batch."""
    messages: int
    """Messages in a record: a report's, or 1 in a batch."""
    records: int
    header: bytes
    """Of the batch, or of the first report."""

    @property
    def width(self) -> int:
        """Bytes of a record."""
        return self.head + self.messages * MESSAGE_BYTES

    def slices(self) -> Iterator[tuple[MessageFile, int, int]]:
        """(file, first record, records) of every slice."""
        step = max(1, SLICE_BYTES // self.width)
        for first in range(0, self.records, step):
            yield self, first, min(step, self.records - first)

    def read(self, first: int, count: int) -> Rows:
        """`count` records starting with record `first`, one per row."""
        system, inside = file_system(self.path)
        with system.open_input_file(inside) as file:
            data = file.read_at(count * self.width, self.start + first * self.width)
        if len(data) != count * self.width:
            raise TaskError(
                f"{shown(self.path)} has become shorter; do not change files while they are read."
            )
        rows: Rows = np.frombuffer(data, np.uint8).reshape(count, self.width)
        return rows


@dataclass(frozen=True, kw_only=True)
class PartFile:
    """A part of a batch, as the service stores it."""

    path: str
    number: int
    facts: PartFacts
    batch_id: bytes
    secret: bytes | None = None
    """The key that encrypts the part while it waits; None if it is not encrypted."""
    head = 0
    messages = 1

    def __repr__(self) -> str:
        return f"PartFile({self.number})"  # never the secret

    @property
    def records(self) -> int:
        """Messages in the part."""
        return self.facts.rows

    def slices(self) -> Iterator[tuple[PartFile, int, int]]:
        """The whole part: its digest is that of all its messages."""
        yield self, 0, self.records

    def read(self, first: int, count: int) -> Rows:
        """`count` messages starting with message `first`; raises `TaskError` if the part is not the
        one in its manifest."""
        system, inside = file_system(self.path)
        try:
            with system.open_input_file(inside) as file:
                data: bytes = file.read()
        except OSError:
            raise _unreadable(self.path) from None
        if self.secret is not None:
            data = open_part(data, self.secret, self.batch_id, self.number)
        check_part(data, self.facts)
        return as_rows(data)[first : first + count]


Messages = MessageFile | PartFile
"""A file that workers read slices of."""


def is_manifest(path: str) -> bool:
    """Whether a path is the manifest of a batch, with its parts in the same folder."""
    return path.partition("?")[0].rpartition("/")[2] == MANIFEST_NAME


def read_manifest(path: str) -> Manifest:
    """The manifest in a file."""
    system, inside = file_system(path)
    try:
        with system.open_input_stream(inside) as file:
            return Manifest.from_bytes(file.read(MOST_MANIFEST_BYTES + 1))
    except OSError:
        raise _unreadable(path) from None


def part_files(manifest: Manifest, folder: str, secret: bytes | None = None) -> list[PartFile]:
    """The parts of a batch in a folder."""
    return [
        PartFile(
            path=beside(folder, f"/{part_name(number)}"),
            number=number,
            facts=facts,
            batch_id=manifest.header.batch_id,
            secret=secret,
        )
        for number, facts in enumerate(manifest.parts)
    ]


def folder_of(path: str) -> str:
    """The folder that a manifest is in."""
    name, mark, settings = path.partition("?") if "://" in path else (path, "", "")
    return f"{name.rpartition('/')[0] or '.'}{mark}{settings}"


def _unreadable(path: str) -> TaskError:
    return TaskError(f"{shown(path)} cannot be read; check the path, and that workers see it.")


def look_at(path: str, number: int, report_size: int) -> MessageFile:
    """The layout of a file of a task, for the number of messages in a report."""
    system, inside = file_system(path)
    try:
        size = system.get_file_info(inside).size
        with system.open_input_file(inside) as file:
            start = file.read_at(min(size or 0, report_bytes(report_size)), 0)
    except (OSError, TypeError):
        raise _unreadable(path) from None
    if start[: len(BATCH_MAGIC)] == BATCH_MAGIC:
        return _look_at_batch(path, number, start, size, report_size)
    read_upload(start)
    if size % report_bytes(report_size):
        raise TaskError(f"{shown(path)} ends in the middle of a report; copy the whole file again.")
    return MessageFile(
        path=path,
        number=number,
        start=0,
        head=REPORT_HEADER_BYTES,
        messages=report_size,
        records=size // report_bytes(report_size),
        header=start[:REPORT_HEADER_BYTES],
    )


def _look_at_batch(
    path: str, number: int, start: bytes, size: int, report_size: int
) -> MessageFile:
    header = read_batch_header(start)
    if header.batch_bytes(report_size) != size:
        raise TaskError(f"{shown(path)} is not as long as its header says; deliver it again.")
    return MessageFile(
        path=path,
        number=number,
        start=BATCH_HEADER_BYTES,
        head=0,
        messages=1,
        records=header.messages(report_size),
        header=start[:BATCH_HEADER_BYTES],
    )


def batch_header(file: MessageFile) -> BatchHeader | None:
    """The header of a batch; None for a file of reports."""
    return read_batch_header(file.header) if file.head == 0 else None


def write_whole(folder: str, name: str, data: bytes) -> None:
    """Writes a file in a folder, complete or not at all, even if several workers write it at the
    same time."""
    from pyarrow.fs import LocalFileSystem

    system, inside = file_system(folder)
    local = isinstance(system, LocalFileSystem)
    target = f"{inside}/{name}"
    path = f"{inside}/.{name}.{uuid.uuid4().hex}" if local else target  # objects appear whole
    with system.open_output_stream(path) as out:
        out.write(data)
    if local:
        os.replace(path, target)


def join(folder: str, names: Sequence[str], target: str, header: bytes) -> bytes:
    """Writes header and files, one after the other, as one file; returns its SHA-256."""
    import hashlib

    system, inside = file_system(folder)
    out_system, out_path = file_system(target)
    digest = hashlib.sha256(header)
    with out_system.open_output_stream(out_path) as out:
        out.write(header)
        for name in names:
            with system.open_input_stream(f"{inside}/{name}") as part:
                while data := part.read(COPY_BYTES):
                    digest.update(data)
                    out.write(data)
    return digest.digest()
