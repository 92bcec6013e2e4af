"""A batch as a manifest and sorted parts.

The messages of a batch, in order, are cut into parts of `PART_ROWS` messages each (the last one may
be shorter), so that a part fits into memory and can be sent, resumed and opened independently. The
manifest describes the batch and lists, for each part, the number of messages and their SHA-256. Its
own SHA-256 is the batch's digest.

Waiting parts are encrypted (AES-256-GCM) with a secret of their batch; when the secret is
destroyed, every copy becomes unreadable. The digests are those of the messages themselves, so the
same messages always have the same manifest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from shuffledp.documents.json_text import read_json
from shuffledp.errors import ParameterError
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.ordering import Rows, ordered, sort_keys
from shuffledp.tasks.wire import MESSAGE_BYTES, BatchHeader

MANIFEST_FORMAT = "shuffledp batch 1"
MOST_MANIFEST_BYTES = 16 << 20
PART_ROWS = 1 << 18
"""Messages in a part: 13 MiB."""
MOST_PART_BYTES = PART_ROWS * MESSAGE_BYTES
SECRET_BYTES, NONCE_BYTES = 32, 12
SPILL_ROWS = 1 << 13
"""Messages in a block of a run that is on disk while a batch is sorted."""
RUN_PREFIX = "run-"
"""The prefix of the names of these files."""
MOST_MERGED = 64
"""Runs that are merged at a time: a block of each is in memory."""


@dataclass(frozen=True)
class PartFacts:
    """What the manifest says about a part."""

    rows: int
    sha256: bytes

    @classmethod
    def of(cls, data: bytes) -> PartFacts:
        """The facts about a part with these messages."""
        return cls(len(data) // MESSAGE_BYTES, hashlib.sha256(data).digest())


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of a batch, and the parts that it consists of."""

    header: BatchHeader
    parts: tuple[PartFacts, ...]

    @property
    def messages(self) -> int:
        """Messages in all parts."""
        return sum(part.rows for part in self.parts)

    def to_bytes(self) -> bytes:
        """The manifest as it is stored and sent: JSON without spaces, keys in order."""
        header = self.header
        data = {
            "format": MANIFEST_FORMAT,
            "task": header.task_id.hex(),
            "batch": header.batch_id.hex(),
            "reports": header.reports,
            "top_up_messages": header.top_up_messages,
            "noise_shares": header.noise_shares,
            "message_bytes": MESSAGE_BYTES,
            "parts": [[part.rows, part.sha256.hex()] for part in self.parts],
        }
        return json.dumps(data, separators=(",", ":"), sort_keys=True).encode()

    @cached_property
    def digest(self) -> bytes:
        """The digest of the batch."""
        return hashlib.sha256(self.to_bytes()).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest in a text; refuses anything that does not follow the layout."""
        try:
            found = read_json(data, "The manifest", MOST_MANIFEST_BYTES)
            manifest = cls._read(found)
        except (ParameterError, KeyError, ValueError, TypeError):
            raise TaskError(
                "The manifest has a format that this version does not know; update the shuffler."
            ) from None
        if manifest.to_bytes() != data:
            raise TaskError("The manifest is not in its canonical form; deliver it again.")
        return manifest

    @classmethod
    def _read(cls, data: Any) -> Manifest:
        numbers = [data[name] for name in ("reports", "top_up_messages", "noise_shares")]
        parts = tuple(PartFacts(rows, bytes.fromhex(sha256)) for rows, sha256 in data["parts"])
        sizes = [part.rows for part in parts]
        whole = all(type(one) is int and 0 <= one < 1 << 32 for one in numbers + sizes)
        if (
            (data["format"], data["message_bytes"]) != (MANIFEST_FORMAT, MESSAGE_BYTES)
            or not whole
            or any(size != PART_ROWS for size in sizes[:-1])
            or not all(0 < size <= PART_ROWS for size in sizes)
            or any(len(part.sha256) != 32 for part in parts)
        ):
            raise ValueError
        header = BatchHeader(
            task_id=bytes.fromhex(data["task"]),
            batch_id=bytes.fromhex(data["batch"]),
            reports=numbers[0],
            top_up_messages=numbers[1],
            noise_shares=numbers[2],
        )
        if (len(header.task_id), len(header.batch_id)) != (32, 16):
            raise ValueError
        return cls(header=header, parts=parts)


def part_name(number: int) -> str:
    """The file name of a part; names sort like numbers."""
    return f"part-{number:07d}"


MANIFEST_NAME = "manifest.json"


def seal_part(data: bytes, secret: bytes, batch_id: bytes, number: int) -> bytes:
    """A part as it waits on a disk or in a bucket."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(secret).encrypt(nonce, data, batch_id + number.to_bytes(4, "big"))


def open_part(sealed: bytes, secret: bytes, batch_id: bytes, number: int) -> bytes:
    """The messages of a part that waited."""
    try:
        return AESGCM(secret).decrypt(
            sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], batch_id + number.to_bytes(4, "big")
        )
    except InvalidTag:
        raise TaskError(
            f"Part {number} of a batch is damaged or was sealed under another key."
        ) from None


def check_part(data: bytes, facts: PartFacts) -> None:
    """Raises `TaskError` unless these are the messages that the manifest says."""
    if len(data) % MESSAGE_BYTES or PartFacts.of(data) != facts:
        raise TaskError("A part is not the one in its manifest; deliver it again.")


def as_rows(data: bytes) -> Rows:
    """Messages, one per row."""
    return np.frombuffer(data, np.uint8).reshape(-1, MESSAGE_BYTES)


class Sorter:
    """Brings any number of messages into order, with about `memory` bytes in memory at a time.

    Messages that do not fit are written to files in `folder`, as sorted runs, encrypted with a key
    that exists only in this process.
    """

    def __init__(self, folder: Path, memory: int, order_secret: bytes | None = None) -> None:
        self._folder, self._secret = folder, order_secret
        self._most = max(SPILL_ROWS, memory // 4 // MESSAGE_BYTES)
        self._pages: list[Rows] = []
        self._rows = 0
        self._runs: list[Path] = []
        self._made = 0
        self._cipher = AESGCM(os.urandom(SECRET_BYTES))

    def add(self, data: bytes) -> None:
        """Adds messages in any order."""
        self._pages.append(as_rows(data))
        self._rows += len(self._pages[-1])
        if self._rows >= self._most:
            self._runs.append(self._spill(iter([self._sorted()])))

    def _sorted(self) -> Rows:
        pages, self._pages, self._rows = self._pages, [], 0
        rows = np.concatenate(pages) if pages else np.zeros((0, MESSAGE_BYTES), np.uint8)
        return ordered(rows, self._secret)

    def parts(self, size: int = PART_ROWS) -> Generator[bytes, None, None]:
        """All messages in order, in parts of `size` messages."""
        rest = np.zeros((0, MESSAGE_BYTES), np.uint8)
        try:
            for rows in self._all():
                rest = np.concatenate((rest, rows))
                while len(rest) >= size:
                    yield rest[:size].tobytes()
                    rest = rest[size:]
            if len(rest):
                yield rest.tobytes()
        finally:
            self.close()

    def close(self) -> None:
        """Removes the files that are left."""
        for run in self._runs:
            run.unlink(missing_ok=True)
        self._runs = []

    def _all(self) -> Iterator[Rows]:
        if not self._runs:
            yield self._sorted()
            return
        if self._pages:
            self._runs.append(self._spill(iter([self._sorted()])))
        while len(self._runs) > MOST_MERGED:
            first, self._runs = self._runs[:MOST_MERGED], self._runs[MOST_MERGED:]
            self._runs.append(self._spill(self._merged(first)))
            for run in first:
                run.unlink()
        yield from self._merged(self._runs)

    def _spill(self, pieces: Iterator[Rows]) -> Path:
        """Writes sorted messages as a run."""
        self._made += 1
        path = self._folder / f"{RUN_PREFIX}{self._made}-{os.urandom(4).hex()}"
        with open(path, "wb") as out:
            for rows in pieces:
                for start in range(0, len(rows), SPILL_ROWS):
                    data = rows[start : start + SPILL_ROWS].tobytes()
                    nonce = os.urandom(NONCE_BYTES)
                    out.write(len(data).to_bytes(4, "big") + nonce)
                    out.write(self._cipher.encrypt(nonce, data, None))
        return path

    def _blocks(self, file: BinaryIO) -> Iterator[Rows]:
        while head := file.read(4 + NONCE_BYTES):
            data = file.read(int.from_bytes(head[:4], "big") + 16)
            yield as_rows(self._cipher.decrypt(head[4:], data, None))

    def _texts(self, rows: Rows) -> Any:
        """The sort keys of messages: the keys of the order, then the messages themselves."""
        keys = rows if self._secret is None else np.hstack((sort_keys(rows, self._secret), rows))
        return np.ascontiguousarray(keys).view(f"S{keys.shape[1]}")[:, 0]

    def _merged(self, runs: list[Path]) -> Iterator[Rows]:
        """All messages of several runs in order."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(run, "rb")) for run in runs]
            for rows in merged([self._blocks(file) for file in files], self._texts):
                yield ordered(rows, self._secret)


def merged(
    runs: Sequence[Iterator[NDArray[Any]]], texts: Callable[[NDArray[Any]], NDArray[Any]]
) -> Iterator[NDArray[Any]]:
    """The entries of sorted runs, given as blocks that are not empty: all up to the least block's
    last entry at a time, which are still to be sorted. `texts` returns the entries' sort keys."""
    blocks = {at: rows for at, run in enumerate(runs) if (rows := next(run, None)) is not None}
    keys = {at: texts(rows) for at, rows in blocks.items()}
    while blocks:
        limit = min(found[-1] for found in keys.values())
        pieces = []
        for at in list(blocks):
            count = int(np.searchsorted(keys[at], limit, "right"))
            pieces.append(blocks[at][:count])
            blocks[at], keys[at] = blocks[at][count:], keys[at][count:]
            if not len(blocks[at]):
                following = next(runs[at], None)
                if following is None:
                    del blocks[at], keys[at]
                else:
                    blocks[at], keys[at] = following, texts(following)
        yield np.concatenate(pieces)
