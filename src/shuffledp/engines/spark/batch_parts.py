"""The shuffler's and the analyzer's heavy work as Spark jobs, on the service's files.

    slices of the files ──▶ messages by their leading bytes ──▶ parts ──▶ order, or open and tally

Workers read slices themselves and pass each part's messages on as one row, so Spark moves a few
large rows. A part covers a range of the order, so the sorted parts, one after the other, are the
sorted whole, and copies of a message always end up in the same part. Sorting, dropping copies and
opening are the functions that the service runs on one machine. All of it is a function of the files
(and of the batch's secret, for a uniform order), so a task that runs twice writes the same bytes
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.sources import shown
from shuffledp.engines.spark.batch_files import MessageFile, Messages, write_whole
from shuffledp.engines.spark.errors import spark_failures
from shuffledp.engines.spark.reports import in_arrow
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.opening import CHUNK_MESSAGES, AllowedNumbers, Opened, Tally, open_chunk
from shuffledp.tasks.ordering import PAGE_ROWS, Rows, ordered, sort_keys
from shuffledp.tasks.parts import part_name
from shuffledp.tasks.replays import first_seen
from shuffledp.tasks.wire import MESSAGE_BYTES, REPORT_ID_BYTES, REPORT_ID_PART

Slices = list[tuple[Messages, int, int]]
ORDER_PART_BYTES = 32 << 20
"""Bytes of messages that a worker sorts at a time."""
OPEN_PART_MESSAGES = 100_000
"""Messages that a worker opens at a time: about five seconds."""
PART_COLUMNS = "part int, data binary"
COUNT_COLUMNS = "number long, count long"
DROPPED_NUMBERS = {"dummies": -1, "replayed": -2, "unopened": -3, "malformed": -4}
"""Numbers that mean dropped messages among the counts of a part."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Reads slices of files and yields each message with the number of its part."""

    slices: Slices
    parts: int
    secret: bytes | None
    firsts: dict[bytes, int]
    """For each report that occurs more than once, the position of the one that counts."""

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for number in _numbers(batches):
            messages = self.messages(*self.slices[number])
            parts = part_numbers(messages, self.parts, self.secret)
            order = np.argsort(parts, kind="stable")
            edges = np.searchsorted(parts[order], np.arange(self.parts + 1))
            for part in np.flatnonzero(np.diff(edges)):
                piece = messages[order[edges[part] : edges[part + 1]]].tobytes()
                yield pa.RecordBatch.from_arrays(
                    [pa.array([part], pa.int32()), pa.array([piece], pa.binary())],
                    ["part", "data"],
                )

    def messages(self, file: Messages, first: int, count: int) -> Rows:
        """The messages of a slice, without those of repeated reports."""
        rows = file.read(first, count)
        if isinstance(file, MessageFile) and file.head:
            _check_heads(file, rows)
            rows = rows[self._counts(file, first, rows)]
        return rows[:, file.head :].reshape(-1, MESSAGE_BYTES)

    def _counts(self, file: MessageFile, first: int, rows: Rows) -> NDArray[np.bool_]:
        counts = np.ones(len(rows), bool)
        if self.firsts:
            for at, name in enumerate(report_ids(rows)):
                counts[at] = self.firsts.get(name, here := position(file, first + at)) == here
        return counts


def part_numbers(messages: Rows, parts: int, secret: bytes | None) -> NDArray[np.int64]:
    """The part of each message: an equal share of all possible leading bytes."""
    keys = np.ascontiguousarray(sort_keys(messages, secret)[:, :4]).view(">u4")[:, 0]
    return (keys.astype(np.uint64) * np.uint64(parts) >> np.uint64(32)).astype(np.int64)


def report_ids(rows: Rows) -> list[bytes]:
    """The ids of reports, one per row."""
    names = np.ascontiguousarray(rows[:, REPORT_ID_PART]).tobytes()
    return [names[at : at + REPORT_ID_BYTES] for at in range(0, len(names), REPORT_ID_BYTES)]


def position(file: MessageFile, record: int) -> int:
    """A number for a record of a file; earlier files and records have smaller ones."""
    return (file.number << 40) + record


def _check_heads(file: MessageFile, rows: Rows) -> None:
    """Refuses a report that is not of the file's task, key and length."""
    first = np.frombuffer(file.header, np.uint8)
    same = rows[:, : file.head] == first
    same[:, REPORT_ID_PART] = True
    if not same.all():
        raise TaskError(
            f"{shown(file.path)} mixes reports of different tasks; sort them out first."
        )


@dataclass(frozen=True)
class ReadIds:
    """Reads slices and yields the id of each report with its position."""

    slices: list[tuple[MessageFile, int, int]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for number in _numbers(batches):
            file, first, count = self.slices[number]
            rows = file.read(first, count)
            _check_heads(file, rows)
            positions = position(file, first) + np.arange(count)
            yield pa.RecordBatch.from_arrays(
                [pa.array(report_ids(rows), pa.binary()), pa.array(positions)], ["id", "position"]
            )


@dataclass(frozen=True)
class OrderPart:
    """Sorts each part and writes it to a file; yields its number of messages."""

    folder: str
    secret: bytes | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for part, rows in _parts(batches):
            write_whole(self.folder, part_name(part), ordered(rows, self.secret).tobytes())
            yield _pairs([part], [len(rows)])


@dataclass(frozen=True, kw_only=True)
class OpenPart:
    """Drops the copies in each part, opens the rest, and yields how often each number occurs."""

    key: bytes
    info: bytes
    allowed: AllowedNumbers
    earlier: tuple[str, ...]
    folder: str = ""
    """Where the first bytes of every message's encapsulated key are kept; "" keeps none."""

    def __repr__(self) -> str:
        return f"OpenPart({self.allowed.cells} cells)"  # never the key

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for part, rows in _parts(batches):
            with TemporaryDirectory() as folder:
                numbers, counts = self._count(ordered(rows), Path(folder))
                if self.folder:
                    kept = Path(folder, "kept").read_bytes()
                    write_whole(self.folder, part_name(part), kept)
            yield _pairs(numbers, counts)

    def _count(self, rows: Rows, folder: Path) -> tuple[list[int], list[int]]:
        cut = (rows[start : start + PAGE_ROWS] for start in range(0, len(rows), PAGE_ROWS))
        pages = first_seen(cut, [Path(path) for path in self.earlier], folder / "kept")
        found: dict[int, int] = dict.fromkeys(DROPPED_NUMBERS.values(), 0)
        for fresh, replayed in pages:
            found[DROPPED_NUMBERS["replayed"]] += replayed
            for start in range(0, len(fresh), CHUNK_MESSAGES):
                data = fresh[start : start + CHUNK_MESSAGES].tobytes()
                _add(found, open_chunk(data, self.key, self.info, self.allowed))
        return list(found), list(found.values())


def _add(found: dict[int, int], opened: Opened) -> None:
    for name in ("dummies", "unopened", "malformed"):
        found[DROPPED_NUMBERS[name]] += getattr(opened, name)
    numbers = np.frombuffer(opened.numbers, np.int64).tolist()
    for number, count in zip(numbers, np.frombuffer(opened.counts, np.int64).tolist(), strict=True):
        found[number] = found.get(number, 0) + count


# jobs


def first_positions(session: Any, files: list[MessageFile]) -> tuple[int, dict[bytes, int]]:
    """(number of different reports, the first position of each repeated one)."""
    slices = [one for file in files for one in file.slices()]
    ids = in_arrow(_slice_frame(session, slices), ReadIds(slices), "id binary, position long")
    seen = ids.groupBy("id").agg({"position": "min", "*": "count"})
    seen = seen.selectExpr("id", "`count(1)` as times", "`min(position)` as position").persist()
    with spark_failures():
        different = int(seen.count())
        copied = seen.where("times > 1").collect()
        seen.unpersist()
    return different, {bytes(row[0]): int(row[2]) for row in copied}


def order_parts(
    session: Any,
    files: Sequence[Messages],
    firsts: dict[bytes, int],
    folder: str,
    secret: bytes | None,
) -> dict[int, int]:
    """Writes all messages into sorted parts; returns how many messages each part has."""
    size = sum(file.records * file.messages * MESSAGE_BYTES for file in files)
    spread = _spread(session, files, -(-size // ORDER_PART_BYTES), secret, firsts)
    written = in_arrow(spread, OrderPart(folder, secret), COUNT_COLUMNS)
    with spark_failures():
        return {row[0]: row[1] for row in written.collect()}


def open_parts(session: Any, files: Sequence[Messages], work: OpenPart) -> Tally:
    """The contents of a batch's messages; the first bytes of each key go to the work's folder."""
    messages = sum(file.records for file in files)
    spread = _spread(session, files, -(-messages // OPEN_PART_MESSAGES), None, {})
    opened = in_arrow(spread, work, COUNT_COLUMNS)
    with spark_failures():
        rows = opened.groupBy("number").sum("count").collect()
    tally = Tally.empty(work.allowed.cells)
    names = {number: name for name, number in DROPPED_NUMBERS.items()}
    for number, count in rows:
        if number in names:
            tally.dropped[names[number]] += count
        else:
            (tally.plus if number % 2 else tally.minus)[number // 2] += count
    return tally


def _spread(
    session: Any,
    files: Sequence[Messages],
    parts: int,
    secret: bytes | None,
    firsts: dict[bytes, int],
) -> Any:
    slices: Slices = [one for file in files for one in file.slices()]
    work = Spread(slices=slices, parts=max(1, parts), secret=secret, firsts=firsts)
    spread = in_arrow(_slice_frame(session, slices), work, PART_COLUMNS)
    by_id = getattr(spread, "repartitionById", None)
    if by_id is None:  # before Spark 4.1: by hash, so that some tasks get several parts
        return spread.repartition(4 * work.parts, "part")
    return by_id(work.parts, "part")


def _slice_frame(session: Any, slices: Sequence[Any]) -> Any:
    return session.range(0, len(slices), 1, max(1, len(slices)))


def _numbers(batches: Iterable[Any]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _parts(batches: Iterable[Any]) -> Iterator[tuple[int, Rows]]:
    """(number, messages) of each part in a Spark task."""
    pieces: dict[int, list[bytes]] = {}
    for batch in batches:
        for part, data in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            pieces.setdefault(part, []).append(data.as_py())
    for part in sorted(pieces):
        data = b"".join(pieces.pop(part))
        yield part, np.frombuffer(data, np.uint8).reshape(-1, MESSAGE_BYTES)


def _pairs(numbers: list[int], counts: list[int]) -> Any:
    """Numbers and counts as Arrow columns."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(counts, pa.int64())], ["number", "count"]
    )
