"""Parts of a batch as Spark's workers draw them, drawn in this process and added up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from shuffledp.engines.spark import reports
from shuffledp.engines.spark.keyed import JobSecret
from shuffledp.engines.spark.reports import PartWork
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report

Row = tuple[int, ...]
"""Cell, what was said, messages +1, messages −1, users."""


def as_given(values: Any) -> Any:
    return values


def work_of(protocol: Protocol[Any], secret: JobSecret, per_user: bool = False) -> PartWork:
    """The work of a job's tasks on values that need no preparation."""
    return PartWork(protocol=protocol.to_dict(), prepare=as_given, secret=secret, per_user=per_user)


def part(work: PartWork, number: int, values: Any, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """The rows that one task gives for its values."""
    monkeypatch.setattr(reports, "_part_number", lambda: number)
    given = [pa.RecordBatch.from_pydict({"value": values})]
    found = [batch.to_pydict() for batch in work(given)]
    names = ("cell", "said", "plus", "minus", "users")
    return [row for batch in found for row in zip(*(batch[n] for n in names), strict=True)]


def added(rows: Iterable[Row], protocol: Protocol[Any], secret: JobSecret) -> Report:
    """The report that the driver makes of all parts."""
    sums: dict[int, list[int]] = {}
    for cell, _, *numbers in rows:
        before = sums.setdefault(cell, [0, 0, 0])
        sums[cell] = [a + b for a, b in zip(before, numbers, strict=True)]
    return reports._report([(cell, "", *sums[cell]) for cell in sorted(sums)], protocol, secret)
