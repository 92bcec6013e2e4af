"""A histogram over several columns at once: counts of combinations, marginals, conditional shares.

All of it is computed from one view, so it costs no more ε than the counts themselves. The
intervals of marginals come from the exact law of the sum of their cells (MATH §15).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Cell, Counts
from shuffledp.errors import ParameterError
from shuffledp.protocols.frames import data_frame
from shuffledp.protocols.results import HistogramResult, whole_intervals
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.ratios import Spread, ratio_interval

Floats = NDArray[np.float64]
TIMES = " × "
"""Between the labels of a combination."""


class Share(NamedTuple):
    """The share of the users with some labels who have another one, with its interval."""

    given: tuple[Label, ...]
    label: Label
    share: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrosstabResult(HistogramResult):
    """How many users have each combination of labels, with marginals and shares."""

    by: tuple[str, ...]
    """The columns."""
    domains: tuple[tuple[Label, ...], ...]
    """The labels of each column; `values` are in the order of their product."""
    variances: Floats
    """The variance of each combination's error."""
    cell: Cell
    """The cell of every combination."""
    merged: int = 1
    """The number of cells that each value adds up."""

    def _axes(self, columns: Sequence[str]) -> list[int]:
        unknown = [name for name in columns if name not in self.by]
        if unknown or not columns or len(set(columns)) < len(columns):
            raise ParameterError(
                f"Name one or more of the columns {', '.join(self.by)}, each once."
            )
        return [self.by.index(name) for name in columns]

    def _summed(self, axes: Sequence[int]) -> tuple[Floats, int]:
        """The estimates of the combinations of some columns, in this order, and the number of cells
        that each adds up."""
        shape = tuple(len(labels) for labels in self.domains)
        others = tuple(axis for axis in range(len(shape)) if axis not in axes)
        order = np.argsort(np.argsort(axes))
        kept = self.values.reshape(shape).sum(axis=others)
        values = kept.transpose(tuple(int(place) for place in order)).ravel()
        return values, self.merged * (len(self.values) // len(values))

    def _variances(self, held: Floats, merged: int) -> Floats:
        """The variances of sums of `merged` cells, given how many users have each."""
        none, everybody = (
            self.cell.variance_of_sum(merged, self.reports, total) for total in (0, self.reports)
        )
        return np.asarray(none + held / self.reports * (everybody - none))

    def marginal(self, *columns: str) -> CrosstabResult:
        """How many users have each label of one column, or each combination of some columns."""
        axes = self._axes(columns)
        values, merged = self._summed(axes)
        variances = self._variances(np.clip(values, 0, self.reports), merged)
        domains = tuple(self.domains[axis] for axis in axes)
        outside = 1 - self.confidence
        low, high = self._intervals(values, merged, outside)
        joint_low, joint_high = self._intervals(values, merged, outside / len(values))
        return replace(
            self,
            merged=merged,
            by=tuple(columns),
            domains=domains,
            labels=combined(domains),
            values=values,
            variances=variances,
            rmse=float(np.sqrt(variances.max())),
            low=low,
            high=high,
            joint_low=joint_low,
            joint_high=joint_high,
        )

    def _intervals(self, values: Floats, merged: int, outside: float) -> tuple[Counts, Counts]:
        """The intervals of true counts for sums of `merged` cells, as in `Cell.intervals`."""
        zero, one = self.cell.estimates(np.array([0, 1]), merged * self.reports)
        sums = np.rint((values - zero) / (one - zero)).astype(np.int64)
        ends = self.cell.intervals_of_sum(merged, self.reports, sums, outside)
        return whole_intervals(values, *ends)

    def _reach(self, merged: int) -> float:
        """Half the width of an interval of a sum of `merged` cells, in standard deviations."""
        cell, users, widest = self.cell, self.reports, 0.0
        for total in (0, users):
            ends = cell.error_range_of_sum(merged, users, total, 1 - self.confidence)
            spread = math.sqrt(cell.variance_of_sum(merged, users, total))
            widest = max(widest, *(abs(end) / spread for end in ends))
        return widest

    def shares(self, of: str, given: str | Sequence[str]) -> list[Share]:
        """For each combination of labels of the columns `given`, the share of its users who have
        each label of the column `of`. A share is a ratio of two private numbers; its interval is
        0 … 1 if the data are not informative (`ratio_interval`)."""
        names = [given] if isinstance(given, str) else list(given)
        axes = self._axes([*names, of])
        values, merged = self._summed(axes)
        labels = self.domains[axes[-1]]
        parts = values.reshape(-1, len(labels))
        held = np.clip(parts, 0, self.reports)
        total = held.sum(axis=1, keepdims=True)
        own = self._variances(held, merged)
        rest = self._variances(total - held, merged * (len(labels) - 1))
        shared = (self._variances(total, merged * len(labels)) - own - rest) / 2
        wide = (self._reach(merged),) * 2
        found = []
        above = product(*(self.domains[axis] for axis in axes[:-1]))
        for row, combination in enumerate(above):
            whole = float(parts[row].sum())
            for place, label in enumerate(labels):
                part = float(parts[row, place])
                share = min(max(part / whole, 0.0), 1.0) if whole > 0 else math.nan
                a, b, both = (float(one[row, place]) for one in (own, rest, shared))
                ends = ratio_interval(part, whole, Spread(a, a + b + 2 * both, a + both), wide)
                found.append(Share(combination, label, share, *ends))
        return found

    def shares_frame(self, of: str, given: str | Sequence[str], backend: str | None = None) -> Any:
        """`shares` as a data frame: the columns given, the label, share, low and high."""
        names = [given] if isinstance(given, str) else list(given)
        rows = self.shares(of, names)
        labels: dict[str, list[Any]] = {
            name: [row.given[place] for row in rows] for place, name in enumerate(names)
        }
        labels[of] = [row.label for row in rows]
        numbers = {name: [getattr(row, name) for row in rows] for name in ("share", "low", "high")}
        return data_frame(labels, numbers, backend)

    def to_frame(self, backend: str | None = None) -> Any:
        """One row per combination: its labels by column, estimate, clipped, low, high and joint
        ends."""
        combinations = list(product(*self.domains))
        labels: dict[str, list[Any]] = {
            name: [one[place] for one in combinations] for place, name in enumerate(self.by)
        }
        return data_frame(labels, self._columns(), backend)

    def to_dict(self) -> dict[str, Any]:
        """The counts as a JSON object, with the labels of each column for every count."""
        shown = super().to_dict()
        for row, labels in zip(shown["buckets"], product(*self.domains), strict=True):
            row["labels"] = dict(zip(self.by, labels, strict=True))
        return {**shown, "by": list(self.by)}


def combined(domains: Sequence[Sequence[Label]]) -> tuple[Label, ...]:
    """A name for each combination of labels; the labels themselves if there is one column."""
    if len(domains) == 1:
        return tuple(domains[0])
    return tuple(TIMES.join(str(label) for label in one) for one in product(*domains))


def of_histogram(
    result: HistogramResult,
    by: tuple[str, ...],
    domains: tuple[tuple[Label, ...], ...],
    variances: Floats,
    cell: Cell,
) -> CrosstabResult:
    """The crosstab from a histogram over the numbers of the combinations."""
    return CrosstabResult(
        **result.fields_of(HistogramResult, labels=combined(domains)),
        by=by,
        domains=domains,
        variances=variances,
        cell=cell,
    )
