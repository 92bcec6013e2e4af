"""Reports that are drawn where the data is, and added up on the driver.

    JVM      group by value, count           (or nothing: every row crosses, where an encoder
                                              draws, or devices are rehearsed)
    Python   encode ──▶ tally ──▶ one exact draw of this part's share of noise, keyed by
             (the job's secret, the part's number)
    JVM      add up the parts' reports, cell by cell
    driver   one row per cell with messages: +1s and −1s with their noise. Never a row of data, nor
             a true count

A protocol depends on the number of users. Where a grouped column is sure to have few values, one
task gets them all and plans itself, so that one job does everything; otherwise a first job counts.

Users draw independently of each other, so parts of any sizes give together the law of one machine's
single draw. What a part gives is a function of its rows and the secret: if it runs again after a
failure, or twice at the same time, it gives the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Counts
from shuffledp.data.arrow import to_numpy
from shuffledp.engines.spark.columns import missing_values
from shuffledp.engines.spark.errors import ClusterError, spark_failures, without_pandas_warnings
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.errors import (
    DataError,
    InputError,
    ParameterError,
    PlanningError,
    ShortBatchError,
    ShuffleDPError,
    ValueOutOfRange,
)
from shuffledp.numbers.entropy import Entropy
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result

Values = NDArray[Any]
Batches = Iterable[Any]
REPORT_SCHEMA = "cell long, said string, plus long, minus long, users long"
FIRST, REFUSED, PLANNED = 0, -1, -2
"""The first cell; in place of a cell: a refusal, and the protocol that was planned, both in
`said`."""
REFUSALS: dict[str, Callable[..., ShuffleDPError]] = {
    error.__name__: error for error in (ParameterError, DataError, PlanningError, ShortBatchError)
}
MOST_PARTS = 8
"""How many parts share a column of texts after grouping, at most: each draws for every cell."""


@dataclass(frozen=True, kw_only=True)
class PartWork:
    """What a worker does with one part of the data: gives the report of its rows."""

    protocol: dict[str, Any]
    prepare: Callable[[Values], Values]
    secret: JobSecret
    per_user: bool = False

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """One row per cell that this part's report has messages for, and one for the first cell; or
        one with the sentence of a refusal."""
        protocol = protocol_from_dict(self.protocol)
        entropy = self.secret.part(_part_number())
        try:
            report = self.report(protocol, batches, entropy)
        except InputError as error:
            yield _refused(error)
            return
        if report is not None:
            sent = np.flatnonzero((report.plus != 0) | (report.minus != 0))
            cells = np.union1d([FIRST], sent)  # the first one carries the number of users
            yield _row_batch(cells, report.plus[cells], report.minus[cells], report.users, "")

    def report(
        self, protocol: Protocol[Result], batches: Batches, entropy: Entropy
    ) -> Report | None:
        """The report of a part's rows; None if it has none."""
        draw = self._each if self.per_user else self._together
        return draw(protocol, (batch for batch in batches if batch.num_rows), entropy)

    def _each(
        self, protocol: Protocol[Result], batches: Batches, entropy: Entropy
    ) -> Report | None:
        total: Report | None = None
        for batch in batches:
            part = protocol.randomize_all(self.prepare(to_numpy(batch.column(0))), entropy)
            total = part if total is None else total + part
        return total

    def _together(
        self, protocol: Protocol[Result], batches: Batches, entropy: Entropy
    ) -> Report | None:
        tally: Counts | None = None
        for batch in batches:
            codes = protocol.encode(self.prepare(to_numpy(batch.column(0))), entropy)
            part = tally_of(protocol, codes, batch)
            tally = part if tally is None else tally + part
        return None if tally is None else protocol.aggregate_tally(tally, entropy)


@dataclass(frozen=True, kw_only=True)
class WholeWork:
    """What a worker does with a single part that holds all users, as values and how many hold
    each: plans for all users and gives their report."""

    make_plan: Callable[[int], Plan[Any]]
    users: int | None = None
    """How many the guarantee may count on; None: all that are there."""
    prepare: Callable[[Values], Values]
    secret: JobSecret

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """The protocol, and one row per cell; or one row with the sentence of a refusal."""
        given = [batch for batch in batches if batch.num_rows]
        rows = sum(batch.column(1).to_numpy().sum() for batch in given)
        missing = sum(
            batch.column(1).filter(batch.column(0).is_null()).to_numpy().sum() for batch in given
        )
        try:
            protocol = self.make_plan(checked_users(int(rows), int(missing), self.users)).protocol
        except ShuffleDPError as error:
            yield _refused(error)
            return
        described = protocol.to_dict()
        yield _row_batch([PLANNED], [0], [0], 0, json.dumps(described))
        work = PartWork(protocol=described, prepare=self.prepare, secret=self.secret)
        yield from work(given)


def checked_users(rows: int, missing: int, users: int | None) -> int:
    """For how many users to plan; refuses nobody, users without a value, and too few."""
    if rows == 0:
        raise nobody()
    if missing:
        raise missing_values()
    if users is not None and users > rows:
        raise ShortBatchError(rows, users)
    return rows if users is None else users


def nobody() -> DataError:
    return DataError("There are no rows; a protocol needs at least one user.")


def tally_of(protocol: Protocol[Result], codes: Values, batch: Any) -> Counts:
    """How many users hold each code: rows, or where the batch has a second column, what it says."""
    if batch.num_columns == 1:
        return protocol.tally(codes)
    tally = protocol.tally(np.zeros(0, np.int64))
    np.add.at(tally, codes.astype(np.int64), batch.column(1).to_numpy())
    return tally


def added_up(frame: Any, work: PartWork) -> Report:
    """The report of all users in a frame of values, or of values and how many hold each.

    Ensures: one job runs, and what it finds is a value on the driver; nobody gets the frame with
    noise in it, nor the report of a single part, which has that part's noise only. A part that
    refuses its data refuses all of it.
    """
    noised = in_arrow(frame, work, REPORT_SCHEMA)
    added = noised.groupBy("cell", "said").sum("plus", "minus", "users")
    rows = _collected(added.toDF("cell", "said", "plus", "minus", "users"))
    return _report(rows, protocol_from_dict(work.protocol), work.secret)


def planned_and_drawn(frame: Any, work: WholeWork) -> tuple[Protocol[Any], Report]:
    """The protocol for the users in a frame that is one part, and their report; in one job."""
    planned, *rows = _collected(in_arrow(frame, work, REPORT_SCHEMA))
    if len({row[0] for row in rows}) < len(rows):
        raise ClusterError(
            "Spark split what it was told to keep in one part; nothing was "
            "released: report this with the versions of Spark and Python."
        )
    protocol = protocol_from_dict(json.loads(planned[1]))
    return protocol, _report(rows, protocol, work.secret)


def _collected(noised: Any) -> list[Any]:
    """The rows that the job gives, in the order of the cells; raises the error that a part gave
    instead."""
    with spark_failures():
        rows = noised.collect()
    if not rows:
        raise nobody()
    for row in rows:
        if row[0] == REFUSED:
            raise _refusal(*json.loads(row[1]))
    return sorted(rows, key=lambda row: int(row[0]))


def _report(rows: list[Any], protocol: Protocol[Any], secret: JobSecret) -> Report:
    cells = np.array([row[0] for row in rows], np.int64)
    plus, minus = np.zeros((2, protocol.counters), np.int64)
    for side, at in ((plus, 2), (minus, 3)):
        side[cells] = [row[at] for row in rows]
    return Report(users=rows[0][4], plus=plus, minus=minus, seeded=secret.seeded)


def _refused(error: ShuffleDPError) -> Any:
    """A refusal on its way to the driver; its sentence names no value."""
    what = [error.have, error.need] if isinstance(error, ShortBatchError) else [str(error)]
    return _row_batch([REFUSED], [0], [0], 0, json.dumps([type(error).__name__, *what]))


def _refusal(name: str, *what: Any) -> ShuffleDPError:
    return REFUSALS.get(name, ValueOutOfRange)(*what)


def in_arrow(frame: Any, work: Callable[[Batches], Iterator[Any]], schema: str) -> Any:
    """`frame.mapInArrow`, without pyspark's warnings about pandas."""
    with without_pandas_warnings():
        return frame.mapInArrow(work, schema)


def _part_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _row_batch(cells: Iterable[int], plus: Any, minus: Any, users: int, said: str) -> Any:
    import pyarrow as pa

    numbers = np.fromiter(cells, np.int64)
    return pa.RecordBatch.from_pydict(
        {
            "cell": numbers,
            "said": [said] * len(numbers),
            "plus": np.asarray(plus, np.int64),
            "minus": np.asarray(minus, np.int64),
            "users": np.full(len(numbers), users),
        }
    )
