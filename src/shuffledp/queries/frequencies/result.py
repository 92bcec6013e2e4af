"""The result of a frequencies query: an estimate for any label you look up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from shuffledp.data.arrays import as_label
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, decimals, percent
from shuffledp.protocols.results import Estimate, HistogramResult, Result, whole_intervals
from shuffledp.queries.frequencies.table import ROWS, Table
from shuffledp.queries.frequencies.tails import Counts
from shuffledp.queries.histogram.protocol import Label


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FrequenciesResult(HistogramResult):
    """How many users have each candidate; looking up further labels costs no ε."""

    query: str = "frequencies"
    table: Table = field(compare=False)
    buckets_of: Callable[[Iterable[Label]], Counts] = field(compare=False)
    """For each label its bucket in both rows."""

    def showing(self, labels: Iterable[Label]) -> FrequenciesResult:
        """The same result for other labels: post-processing of what is already public."""
        if isinstance(labels, str):
            raise ParameterError("labels must be a list; for one label, use frequency(label).")
        names = tuple(cast("Label", as_label(label)) for label in labels)
        buckets = self.buckets_of(names)
        seen = self.table.tokens[np.arange(ROWS)[:, None], buckets]
        values = self.table.estimates(seen)
        outside, ends = 1 - self.confidence, dict[str, Any]()
        for name, part in (("", outside), ("joint_", outside / max(len(names), 1))):
            low, high = whole_intervals(values, *self.table.intervals(seen, part))
            ends |= {f"{name}low": low, f"{name}high": high}
        largest = max(float(values.max(initial=0)), 0.0)
        return replace(self, labels=names, values=values, rmse=self.table.rmse(largest), **ends)

    def frequency(self, label: Label) -> Estimate:
        """How many users have one label, with its interval."""
        one = self.showing([label])
        return Estimate(
            **one.fields_of(Result),
            query=f"frequency of {label}",
            value=float(one.values[0]),
            low=float(one.low[0]),
            high=float(one.high[0]),
            possible=(0.0, float(self.reports)),
        )

    def __str__(self) -> str:
        if self.labels:
            return super().__str__()
        return (
            f"{self.query} of {counted(self.users, 'user')}, ε = {float(self.epsilon):g}, "
            f"{percent(self.confidence)} intervals, RMSE {self.rmse:,.{decimals(self.rmse)}f} per "
            f"label{self.marks()}; look up labels with showing(labels)"
        )
