"""Reports drawn where the data is, and added up.

    JVM      group by value, count           (or nothing: every row crosses, where an encoder
                                              draws, or devices are rehearsed)
    Python   encode ──▶ tally ──▶ one exact draw of this part's share of noise, keyed by
             (the job's secret, the part's number)
    JVM      add up the parts' reports, cell by cell
    driver   one row per cell: +1s and −1s with their noise. Never a row of data, nor a true count

k users' shares of noise add up to NB(k/n) and Poi(kλ/n), so parts of any sizes give together the
law of one machine's single draw. What a part gives is a function of its rows and the secret: run
again after a failure, or twice at the same time, it gives the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.batch import Report
from shuffledp.cell import Counts
from shuffledp.errors import InputError, ValueOutOfRange
from shuffledp.exact.entropy import Entropy
from shuffledp.frames import to_numpy
from shuffledp.protocols import protocol_from_dict
from shuffledp.protocols.base import Protocol
from shuffledp.spark.errors import ClusterError, spark_failures
from shuffledp.spark.keyed import JobSecret

Values = NDArray[Any]
Batches = Iterable[Any]
SCHEMA = "cell long, plus long, minus long, users long, refusal string"
REFUSED = -1
PARTS = 8
"""At most so many parts share a column of texts after grouping: each draws for every cell."""


@dataclass(frozen=True)
class PartWork:
    """What every part of the data is put through; travels to the workers."""

    protocol: dict[str, Any]
    prepare: Callable[[Values], Values]
    secret: JobSecret
    per_user: bool = False

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """One row per cell with this part's report; or one with the sentence of a refusal."""
        protocol = protocol_from_dict(self.protocol)
        entropy = self.secret.part(_part_number())
        try:
            report = self.report(protocol, batches, entropy)
        except InputError as error:  # its sentence names no value
            yield _row_batch([REFUSED], [0], [0], 0, str(error))
            return
        if report is not None:
            cells = range(len(report.plus))
            yield _row_batch(cells, report.plus, report.minus, report.users, "")

    def report(self, protocol: Protocol, batches: Batches, entropy: Entropy) -> Report | None:
        """The part's report; None if nobody is in it."""
        draw = self._each if self.per_user else self._together
        return draw(protocol, (batch for batch in batches if batch.num_rows), entropy)

    def _each(self, protocol: Protocol, batches: Batches, entropy: Entropy) -> Report | None:
        total: Report | None = None
        for batch in batches:
            part = protocol.randomize_all(self.prepare(to_numpy(batch.column(0))), entropy)
            total = part if total is None else total + part
        return total

    def _together(self, protocol: Protocol, batches: Batches, entropy: Entropy) -> Report | None:
        tally: Counts | None = None
        for batch in batches:
            codes = protocol.encode(self.prepare(to_numpy(batch.column(0))), entropy)
            part = tally_of(protocol, codes, batch)
            tally = part if tally is None else tally + part
        return None if tally is None else protocol.aggregate_tally(tally, entropy)


def tally_of(protocol: Protocol, codes: Values, batch: Any) -> Counts:
    """How many users hold each code: rows, or where the batch has a second column, what it says."""
    if batch.num_columns == 1:
        return protocol.tally(codes)
    tally = protocol.tally(np.zeros(0, np.int64))
    np.add.at(tally, codes.astype(np.int64), batch.column(1).to_numpy())
    return tally


def added_up(frame: Any, work: PartWork, whole: bool = False) -> Report:
    """The report of all users in a frame of values, or of values and how many hold each; `whole`
    if the frame is one part, so that there is nothing to add.

    Ensures: one job runs, and what it finds is a value on the driver; nobody gets the frame with
    noise in it, nor the report of a single part, which has that part's noise only. A part that
    refuses its data refuses all of it.
    """
    noised = in_arrow(frame, work, SCHEMA)
    if not whole:
        added = noised.groupBy("cell", "refusal").sum("plus", "minus", "users")
        noised = added.toDF("cell", "refusal", "plus", "minus", "users")
    with spark_failures():
        rows = noised.select("cell", "refusal", "plus", "minus", "users").collect()
    if not rows:
        raise ClusterError("There are no rows; a protocol needs at least one user.")
    for row in rows:
        if row[0] == REFUSED:
            raise ValueOutOfRange(row[1])
    rows.sort(key=lambda row: row[0])
    plus, minus = (np.array([row[at] for row in rows], np.int64) for at in (2, 3))
    return Report(rows[0][4], plus, minus, work.secret.seeded)


def in_arrow(frame: Any, work: Callable[[Batches], Iterator[Any]], schema: str) -> Any:
    """`frame.mapInArrow`, without its remarks on versions of pandas, which is not used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame.mapInArrow(work, schema)


def _part_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId())


def _row_batch(cells: Iterable[int], plus: Any, minus: Any, users: int, refusal: str) -> Any:
    import pyarrow as pa

    numbers = np.fromiter(cells, np.int64)
    return pa.RecordBatch.from_pydict(
        {
            "cell": numbers,
            "plus": np.asarray(plus, np.int64),
            "minus": np.asarray(minus, np.int64),
            "users": np.full(len(numbers), users),
            "refusal": [refusal] * len(numbers),
        }
    )
