"""Reports that are drawn where the data is, and added up on the driver.

    JVM      group by value, count           (or nothing: every row crosses, where an encoder
                                              draws, or devices are rehearsed)
    Python   encode ──▶ tally ──▶ one exact draw of this part's share of noise, keyed by
             (the job's secret, the part's number)
    JVM      add up the parts' reports, cell by cell
    driver   one row per cell with messages: +1s and −1s with their noise; never a row of data or
             a true count

A protocol depends on the number of users. If a grouped column has only few possible values, one
task gets all of them and also plans, so a single job does everything; otherwise a first job counts.
Users draw independently of each other, so parts of any size together have the same distribution as
a single draw on one machine. The output of a part is a function of its rows and the secret: if it
runs again after a failure, or twice at the same time, the output is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

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
Part = TypeVar("Part", Report, Counts)
Batches = Iterable[Any]
REPORT_SCHEMA = "cell long, said string, plus long, minus long, users long"
FIRST, REFUSED, PLANNED = 0, -1, -2
"""The first cell; and instead of a cell number: an error, and the protocol, both in `said`."""
REFUSALS: dict[str, Callable[..., ShuffleDPError]] = {
    error.__name__: error for error in (ParameterError, DataError, PlanningError, ShortBatchError)
}
MOST_PARTS = 8
"""The most parts of a column of texts after grouping, because each part draws for every cell."""


@dataclass(frozen=True, kw_only=True)
class PartWork:
    """What a worker does with one part of the data: makes the report of its rows."""

    protocol: dict[str, Any]
    prepare: Callable[[Values], Values]
    secret: JobSecret
    per_user: bool = False

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """One row per cell that this part's report has messages for, and one for the first cell; or
        one with an error message."""
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
        given = (
            (self.prepare(to_numpy(batch.column(0))), batch) for batch in batches if batch.num_rows
        )
        if self.per_user:
            return _sum(protocol.randomize_all(values, entropy) for values, _ in given)
        tally = _sum(
            tally_of(protocol, protocol.encode(values, entropy), batch) for values, batch in given
        )
        return None if tally is None else protocol.aggregate_tally(tally, entropy)


def _sum(parts: Iterable[Part]) -> Part | None:
    """All parts added up; None if there are none."""
    rest = iter(parts)
    first = next(rest, None)
    return None if first is None else sum(rest, start=first)


@dataclass(frozen=True, kw_only=True)
class WholeWork:
    """What a worker does with a single part that has all users (values and how many users have
    each): plans for all users and makes their report."""

    make_plan: Callable[[int], Plan[Any]]
    users: int | None = None
    """The guaranteed number of users; None means all of them."""
    prepare: Callable[[Values], Values]
    secret: JobSecret

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """The protocol and one row per cell, or one row with an error message."""
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
    """The number of users to plan for; refuses none, too few, and users without a value."""
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
    """How many users have each code: the number of rows, or the sum of the second column if any."""
    if batch.num_columns == 1:
        return protocol.tally(codes)
    tally = protocol.tally(np.zeros(0, np.int64))
    np.add.at(tally, codes.astype(np.int64), batch.column(1).to_numpy())
    return tally


def added_up(frame: Any, work: PartWork) -> Report:
    """The report of all users in a frame of values, or of values and how many users have each.

    Ensures: one job runs, and its result is a value on the driver. Nobody gets the frame with noise
    in it, or the report of a single part, which has only that part's noise. If a part refuses its
    data, all data is refused.
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
            "Spark split data that should stay in one part; nothing was "
            "released: report this with the versions of Spark and Python."
        )
    protocol = protocol_from_dict(json.loads(planned[1]))
    return protocol, _report(rows, protocol, work.secret)


def _collected(noised: Any) -> list[Any]:
    """The rows of the job's output, in the order of the cells; raises the error if a part returned
    one."""
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
    """An error message for the driver; it shows no values."""
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
