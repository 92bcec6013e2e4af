"""The result of a frequency query: an estimate for every label that is asked about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.exact import counted, decimals, percent
from shuffledp.protocols.results import Estimate, HistogramResult
from shuffledp.queries.frequencies.hashing import GroupHashes
from shuffledp.queries.histogram.protocol import Label

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GroupNoise:
    """The variance of a cell's estimate, as a function of who is in it."""

    of_zero: float
    """What a user who holds 0 in the cell adds."""
    of_one: float
    """What a user who holds 1 in the cell adds."""
    shares: int
    """Users' shares of noise in all groups together."""

    def total(self, ones: Floats | float) -> Floats:
        """Of one cell in each group, added up, for a total number of users who hold 1 there."""
        return np.asarray(self.shares * self.of_zero + ones * (self.of_one - self.of_zero))


@dataclass(frozen=True, kw_only=True)
class GroupCounts:
    """What a view says about every group: enough to estimate the frequency of any label."""

    hashes: GroupHashes
    centred: Floats
    """Each cell's estimate less what an even spread would give, n_g/k: shape (groups, k)."""
    users: int
    """How many reported, in all groups."""
    noise: GroupNoise

    @property
    def cells(self) -> int:
        """k: how many cells each group has."""
        return 1 << self.hashes.bits

    @property
    def squares(self) -> float:
        """An unbiased estimate of Σ_g Σ_x f_x(g)², f_x(g) the users of group g who hold x; at least
        the number of users, which it cannot be below."""
        k = self.cells
        even = float(self.noise.total(self.users / k))
        found = (float((self.centred**2).sum()) - k * even) / (1 - 1 / k)
        return max(found, float(self.users))

    def estimates(self, labels: Iterable[Label]) -> Floats:
        """The unbiased estimate of how many users hold each label."""
        k = self.cells
        numbers = self.hashes.numbers(list(labels))
        return k / (k - 1) * self.hashes.sums(self.centred, numbers)

    def errors(self, estimates: Floats) -> Floats:
        """The root mean squared error of such estimates: other labels in the same cells, and
        noise (docs/mathematics.md §13)."""
        k, groups = self.cells, self.hashes.groups
        held = np.clip(estimates, 0, self.users)
        others = np.maximum(self.squares - held - held**2 / groups, self.users - held)
        noise = self.noise.total(held + (self.users - held) / k)
        return np.asarray(np.sqrt(others / (k - 1) + (k / (k - 1)) ** 2 * noise))

    def reach(self, outside: float) -> float:
        """How many errors an interval reaches to each side: Student's quantile, because the squares
        are estimated from groups · (k − 1) independent numbers (its series in 1/their number)."""
        free = self.hashes.groups * (self.cells - 1)
        z = -NormalDist().inv_cdf(outside / 2)
        return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FrequenciesResult(HistogramResult):
    """How many users hold each candidate; any further label can be asked about at no cost in ε."""

    query: str = "frequencies"
    counts: GroupCounts = field(compare=False)

    def showing(self, labels: Iterable[Label]) -> FrequenciesResult:
        """The same result for other labels: post-processing of what is public already."""
        names = tuple(labels)
        values = self.counts.estimates(names)
        errors = self.counts.errors(values)
        outside = 1 - self.confidence
        alone = errors * self.counts.reach(outside)
        joint = errors * self.counts.reach(outside / max(len(names), 1))
        ends: dict[str, Any] = {
            "low": np.floor(values - alone).astype(np.int64),
            "high": np.ceil(values + alone).astype(np.int64),
            "joint_low": np.floor(values - joint).astype(np.int64),
            "joint_high": np.ceil(values + joint).astype(np.int64),
        }
        worst = float(errors.max()) if names else float(self.counts.errors(np.zeros(1))[0])
        return replace(
            self,
            labels=names,
            values=values,
            rmse=worst,
            **ends,
        )

    def frequency(self, label: Label) -> Estimate:
        """How many users hold one label, with its interval."""
        one = self.showing([label])
        return Estimate(
            query=f"frequency of {label}",
            value=float(one.values[0]),
            low=float(one.low[0]),
            high=float(one.high[0]),
            possible=(0.0, float(self.reports)),
            confidence=self.confidence,
            rmse=one.rmse,
            epsilon=self.epsilon,
            users=self.users,
            messages_per_user=self.messages_per_user,
            seeded=self.seeded,
            certificate=self.certificate,
        )

    def __str__(self) -> str:
        if self.labels:
            return super().__str__()
        return (
            f"{self.query} of {counted(self.users, 'user')}, ε = {float(self.epsilon):g}, "
            f"{percent(self.confidence)} intervals, RMSE {self.rmse:,.{decimals(self.rmse)}f} per "
            f"label{self.marks()}; no label was asked about: see showing(labels)"
        )
