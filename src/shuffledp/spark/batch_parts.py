"""The shuffler's and the analyzer's heavy work as Spark jobs, over the service's own files.

    slices of the files ──▶ messages by their leading bytes ──▶ parts ──▶ order, or open and tally

Workers read slices themselves and send each part's messages on as one piece, so that Spark moves
a few large rows. A part holds a range of the order: sorted parts, one after the other, are the
sorted whole, and copies of a message always meet. Sorting, dropping copies and opening are the
functions that the service runs on one machine. All of it is a function of the files (and of the
batch's secret, for a uniform order), so a task that runs twice writes the same bytes twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.sealed.errors import TaskError
from shuffledp.sealed.opening import CHUNK, Opened, Tally, open_chunk
from shuffledp.sealed.ordering import Rows, ordered, sort_keys
from shuffledp.sealed.replays import first_seen
from shuffledp.sealed.wire import MESSAGE
from shuffledp.spark.batch_files import REPORT_ID, Sealed, shown, write_whole
from shuffledp.spark.errors import spark_failures
from shuffledp.spark.reports import in_arrow

Slices = list[tuple[Sealed, int, int]]
ORDER_PART = 32 << 20
"""Bytes of messages that a worker sorts at a time."""
OPEN_PART = 100_000
"""Messages that a worker opens at a time: about five seconds."""
PAGE = 1 << 15
SPREAD = "part int, data binary"
DROPPED = {"dummies": -1, "replayed": -2, "unopened": -3, "malformed": -4}


@dataclass(frozen=True)
class Spread:
    """Reads slices and sends every message to its part."""

    slices: Slices
    parts: int
    secret: bytes | None
    firsts: dict[bytes, int]
    """For each report that came more than once, the place of the one that counts."""

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

    def messages(self, file: Sealed, first: int, count: int) -> Rows:
        """The messages of a slice, without those of reports that came before."""
        rows = file.read(first, count)
        if file.head:
            _check_heads(file, rows)
            rows = rows[self._counts(file, first, rows)]
        return rows[:, file.head :].reshape(-1, MESSAGE)

    def _counts(self, file: Sealed, first: int, rows: Rows) -> NDArray[np.bool_]:
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
    names = np.ascontiguousarray(rows[:, REPORT_ID]).tobytes()
    return [names[at : at + 16] for at in range(0, len(names), 16)]


def position(file: Sealed, record: int) -> int:
    """A number for a record of a file; earlier files and records have smaller ones."""
    return (file.number << 40) + record


def _check_heads(file: Sealed, rows: Rows) -> None:
    """Refuses a report that is not of the file's task, key and length."""
    first = np.frombuffer(file.header, np.uint8)
    same = rows[:, : file.head] == first
    same[:, REPORT_ID] = True
    if not same.all():
        raise TaskError(
            f"{shown(file.path)} mixes reports of different tasks; sort them out first."
        )


@dataclass(frozen=True)
class ReadIds:
    """The ids of all reports, each with its place."""

    slices: Slices

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for number in _numbers(batches):
            file, first, count = self.slices[number]
            rows = file.read(first, count)
            _check_heads(file, rows)
            places = position(file, first) + np.arange(count)
            yield pa.RecordBatch.from_arrays(
                [pa.array(report_ids(rows), pa.binary()), pa.array(places)], ["id", "place"]
            )


@dataclass(frozen=True)
class OrderPart:
    """Sorts a part and writes it; says how many messages it holds."""

    folder: str
    secret: bytes | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for part, rows in _parts(batches):
            write_whole(self.folder, part_name(part), ordered(rows, self.secret).tobytes())
            yield _pairs([part], [len(rows)])


@dataclass(frozen=True)
class OpenPart:
    """Drops a part's copies, opens the rest, and tells how often each number came."""

    key: bytes
    info: bytes
    cells: int
    earlier: tuple[str, ...]
    folder: str = ""
    """Where the first bytes of every message's key are kept; "" keeps none."""

    def __repr__(self) -> str:
        return f"OpenPart({self.cells} cells)"  # never the key

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for part, rows in _parts(batches):
            with TemporaryDirectory() as folder:
                numbers, counts = self._count(ordered(rows), Path(folder))
                if self.folder:
                    kept = Path(folder, "kept").read_bytes()
                    write_whole(self.folder, part_name(part), kept)
            yield _pairs(numbers, counts)

    def _count(self, rows: Rows, folder: Path) -> tuple[list[int], list[int]]:
        (folder / "rows").write_bytes(rows.tobytes())
        pages = first_seen(
            folder / "rows", [Path(path) for path in self.earlier], folder / "kept", PAGE
        )
        found: dict[int, int] = dict.fromkeys(DROPPED.values(), 0)
        for fresh, replayed in pages:
            found[DROPPED["replayed"]] += replayed
            for start in range(0, len(fresh), CHUNK):
                data = fresh[start : start + CHUNK].tobytes()
                _add(found, open_chunk(data, self.key, self.info, self.cells))
        return list(found), list(found.values())


def _add(found: dict[int, int], opened: Opened) -> None:
    for name in ("dummies", "unopened", "malformed"):
        found[DROPPED[name]] += getattr(opened, name)
    numbers = np.frombuffer(opened.numbers, np.int64).tolist()
    for number, count in zip(numbers, np.frombuffer(opened.counts, np.int64).tolist(), strict=True):
        found[number] = found.get(number, 0) + count


# jobs


def first_places(session: Any, files: list[Sealed]) -> tuple[int, dict[bytes, int]]:
    """(different reports, the first place of each that came more than once)."""
    slices = [one for file in files for one in file.slices()]
    ids = in_arrow(_slice_frame(session, slices), ReadIds(slices), "id binary, place long")
    seen = ids.groupBy("id").agg({"place": "min", "*": "count"})
    seen = seen.selectExpr("id", "`count(1)` as times", "`min(place)` as place").persist()
    with spark_failures():
        different = int(seen.count())
        copied = seen.where("times > 1").collect()
        seen.unpersist()
    return different, {bytes(row[0]): int(row[2]) for row in copied}


def order_parts(
    session: Any, files: list[Sealed], firsts: dict[bytes, int], folder: str, secret: bytes | None
) -> dict[int, int]:
    """Writes all messages into sorted parts; gives how many each part holds."""
    size = sum(file.records * file.messages * MESSAGE for file in files)
    spread = _spread(session, files, -(-size // ORDER_PART), secret, firsts)
    written = in_arrow(spread, OrderPart(folder, secret), "number long, count long")
    with spark_failures():
        return {row[0]: row[1] for row in written.collect()}


def open_parts(session: Any, file: Sealed, work: OpenPart) -> Tally:
    """What is inside a batch's messages; the first bytes of each key go to the work's folder."""
    spread = _spread(session, [file], -(-file.records // OPEN_PART), None, {})
    opened = in_arrow(spread, work, "number long, count long")
    with spark_failures():
        rows = opened.groupBy("number").sum("count").collect()
    tally = Tally.empty(work.cells)
    places = {number: name for name, number in DROPPED.items()}
    for number, count in rows:
        if number in places:
            tally.dropped[places[number]] += count
        else:
            (tally.plus if number % 2 else tally.minus)[number // 2] += count
    return tally


def part_name(part: int) -> str:
    return f"part-{part:07d}"


def _spread(
    session: Any, files: list[Sealed], parts: int, secret: bytes | None, firsts: dict[bytes, int]
) -> Any:
    slices = [one for file in files for one in file.slices()]
    work = Spread(slices, max(1, parts), secret, firsts)
    spread = in_arrow(_slice_frame(session, slices), work, SPREAD)
    return spread.repartitionById(work.parts, "part")


def _slice_frame(session: Any, slices: Slices) -> Any:
    return session.range(0, len(slices), 1, max(1, len(slices)))


def _numbers(batches: Iterable[Any]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _parts(batches: Iterable[Any]) -> Iterator[tuple[int, Rows]]:
    """The parts that a task got, whole."""
    pieces: dict[int, list[bytes]] = {}
    for batch in batches:
        for part, data in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            pieces.setdefault(part, []).append(data.as_py())
    for part in sorted(pieces):
        data = b"".join(pieces.pop(part))
        yield part, np.frombuffer(data, np.uint8).reshape(-1, MESSAGE)


def _pairs(numbers: list[int], counts: list[int]) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), pa.array(counts, pa.int64())], ["number", "count"]
    )
