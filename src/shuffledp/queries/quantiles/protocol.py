"""Range counts and quantiles: histograms of one range at one or several resolutions.

A replacement moves one bucket down and one up on every level, so the loss is the sum over the
levels of up + down. One level is a plain histogram. Several levels make long ranges cheap, because
these consist of few buckets. All levels are combined by least squares with the known number of
users, which yields the best linear estimate of every bucket and the error of every range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.cells.base import Cell, CellGroup, Counts, Values
from shuffledp.cells.registry import cell_from_dict, group_of_buckets
from shuffledp.errors import ParameterError
from shuffledp.numbers.chernoff import Unlikely
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import to_float
from shuffledp.numbers.tails import third_and_fourth_cumulants
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report, View
from shuffledp.queries.quantiles.axis import Axis
from shuffledp.queries.quantiles.range_errors import Common, Cumulants, RangeErrors
from shuffledp.queries.quantiles.result import QuantilesResult

Floats = NDArray[np.float64]

MOST_BUCKETS = 4096
KNOWN = 1e9  # weight of "all buckets add up to n", relative to the most precise level


def fit_bytes(buckets: Sequence[int]) -> int:
    """About how many bytes `combine` and the errors of ranges take."""
    finest = buckets[-1]
    return 8 * finest * (2 * finest + 4 * sum(buckets))


def combine(
    buckets: Sequence[int], variances: Sequence[Floats | float]
) -> tuple[Floats, list[Floats]]:
    """(covariance of the finest buckets, the weights of each level's observations), for
    observations with these variances, one per level or one per bucket."""
    finest = buckets[-1]
    known = KNOWN / min(float(np.min(variance)) for variance in variances)
    weights = np.full((finest, finest), known / finest)
    spreads = [np.repeat(np.eye(level), finest // level, axis=1) for level in buckets]
    scaled = [
        spread.T / np.broadcast_to(variance, len(spread))
        for spread, variance in zip(spreads, variances, strict=True)
    ]
    for scale, spread in zip(scaled, spreads, strict=True):
        weights += scale @ spread
    covariance = np.linalg.inv(weights)
    return covariance, [covariance @ scale for scale in scaled]


def worst_range_variance(buckets: Sequence[int], variances: Sequence[float]) -> float:
    """The largest variance of the number of users below a bucket's edge, if all buckets of a level
    have the same variance: the same as from `combine`, in one pass over the edges.

    The levels are a tree. `own` is the variance of a node's total by its subtree alone. An edge
    inside a node lies behind a fraction `part` of the node's total, plus an error of variance
    `spread` that does not depend on that total; at the root, the total is known.
    """
    own, part, spread = float(variances[-1]), np.zeros(1), np.zeros(1)
    coarser = [1, *buckets[:-1]]
    for place in range(len(buckets) - 1, -1, -1):
        children = buckets[place] // coarser[place]
        before = np.repeat(np.arange(children), len(part)).astype(np.float64)
        part, spread = np.tile(part, children), np.tile(spread, children)
        spread = spread + own * (before + part**2 - (before + part) ** 2 / children)
        part = (before + part) / children
        if place:
            own = 1 / (1 / float(variances[place - 1]) + 1 / (children * own))
    return float(spread.max())


@lru_cache(maxsize=64)
def _variance_at(cell: Cell, users: int, total: int) -> float:
    """The variance of a bucket with this many users; the same for every view."""
    return cell.rmse(users, total) ** 2


@lru_cache(maxsize=64)
def _covariance(cell: Cell, users: int) -> tuple[float, float]:
    """`Cell.covariance`."""
    return cell.covariance(users)


@lru_cache(maxsize=64)
def _cumulants_at(cell: Cell, users: int, total: int) -> tuple[float, float, float]:
    """The second, third and fourth cumulants of such a bucket's error."""
    variance = _variance_at(cell, users, total)
    log_error = partial(cell.log_error, users=users, total=float(total))
    return variance, *third_and_fourth_cumulants(log_error, variance)


@dataclass(frozen=True)
class Level:
    """A histogram of the whole range at one resolution."""

    buckets: int
    cell: Cell
    """The cell of each bucket."""
    down: Fraction
    """The ε that a change downwards may cost."""

    def bucket_cumulants(self, users: int, held: Floats) -> Cumulants:
        """The second, third and fourth cumulants of the errors of buckets with this many of the
        users (they are affine in that number)."""
        ends = (_cumulants_at(self.cell, users, total) for total in (0, users))
        part = np.clip(held / users, 0.0, 1.0)
        _, third, fourth = (none + (every - none) * part for none, every in zip(*ends, strict=True))
        return self.bucket_variances(users, part * users), third, fourth

    def bucket_variances(self, users: int, held: Floats) -> Floats:
        """The variances of the errors of buckets that hold this many of the users, less what two
        such buckets have in common (they are affine in that number)."""
        none, all_users = (_variance_at(self.cell, users, total) for total in (0, users))
        fixed, each = _covariance(self.cell, users)
        own = none + (all_users - none) * held / users
        return np.asarray(own - fixed - 2 * each * held)

    def common(self, users: int, held: Floats) -> Common:
        """What the buckets' errors have in common."""
        fixed, each = _covariance(self.cell, users)
        return Common(fixed=fixed, by_user=each, held=np.clip(held, 0.0, users))


@dataclass(frozen=True, kw_only=True)
class QuantilesProtocol(Protocol[QuantilesResult]):
    """How many users are in each bin of [low, high]."""

    epsilon: Fraction
    levels: tuple[Level, ...]
    """Coarsest first; each number of buckets divides the next."""
    low: Fraction
    high: Fraction
    points: bool = False
    """Whether values are whole numbers, so that buckets are points or groups of points."""
    unit: str = ""
    """The unit of whole numbers that represent dates since 1970: day or second."""
    query: ClassVar[str] = "quantiles"
    loss_rule: ClassVar[str] = "sum over levels of up + down"
    allows_top_up: ClassVar[bool] = False  # every bucket estimate needs the number of users exact

    def __post_init__(self) -> None:
        numbers = [level.buckets for level in self.levels]
        if not numbers or numbers[0] < 2 or numbers[-1] > MOST_BUCKETS:
            raise ParameterError(f"A level needs 2 to {MOST_BUCKETS:,} buckets.")
        if any(fine % coarse or fine == coarse for coarse, fine in pairwise(numbers)):
            raise ParameterError("Each level's number of buckets must divide the next one's.")
        if any(level.cell.largest != 1 or level.cell.absent_value != 0 for level in self.levels):
            raise ParameterError("Levels need cells for the values 0 and 1, without a stand-in.")
        if len({level.cell.users for level in self.levels}) != 1 or not self.low < self.high:
            raise ParameterError("Levels need the same users, and low must be below high.")
        _ = self.axis  # refuses bounds that do not fit
        if not all(level.cell.for_levels for level in self.levels):
            raise ParameterError("Sparse cells cannot be the levels of quantiles; plan it again.")
        _ = self.cell_groups  # refuses cells that are for other numbers of buckets or losses

    @cached_property
    def cell_groups(self) -> tuple[CellGroup, ...]:
        return tuple(
            group_of_buckets(level.cell, level.buckets, level.cell.up_loss, level.down)
            for level in self.levels
        )

    def loss(self) -> Fraction:
        """On every level one bucket goes down and one goes up."""
        return sum((member.up + member.down for member in self.members), start=Fraction(0))

    @property
    def finest(self) -> int:
        return self.levels[-1].buckets

    @cached_property
    def axis(self) -> Axis:
        """The axis of the finest buckets."""
        return Axis(
            low=self.low, high=self.high, bins=self.finest, points=self.points, unit=self.unit
        )

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        return self.axis.bins_of(values)

    def group_codes(self, codes: Values) -> Iterable[Values]:
        return (codes // (self.finest // level.buckets) for level in self.levels)

    def parse(self, text: str) -> Any:
        return self.axis.parse(text)

    def sample_values(self, size: int) -> Values:
        return self.axis.samples(size)

    def tally(self, codes: Values) -> Counts:
        return np.bincount(codes, minlength=self.finest).astype(np.int64)

    def working_bytes(self) -> int:
        """Also the matrices of the least-squares fit."""
        return super().working_bytes() + fit_bytes([level.buckets for level in self.levels])

    def variances(self, users: int, counts: Floats) -> list[Floats]:
        """The error of every bucket on each level, if the finest buckets have `counts`."""
        held = np.maximum(counts, 0.0)
        return [
            level.bucket_variances(users, held.reshape(level.buckets, -1).sum(axis=1))
            for level in self.levels
        ]

    def rmse(self, users: int) -> float:
        """The error of the number of users below an edge, at the worst edge and the worst data: on
        every level, all users together add at most what they add in one bucket. What all buckets of
        a level have in common cancels, because the number of users is known."""
        numbers = [level.buckets for level in self.levels]
        ends = [level.bucket_variances(users, np.array([0.0, users])) for level in self.levels]
        noise = worst_range_variance(numbers, [float(end[0]) for end in ends])
        return math.sqrt(noise + sum(float(end[1] - end[0]) for end in ends))

    def result_of(self, view: View, confidence: float) -> QuantilesResult:
        """All buckets combined, ready for range counts and quantiles: first as if users were spread
        evenly, and then with the errors for the estimated counts."""
        counts = np.full(self.finest, view.users / self.finest)
        for _ in range(2):
            held = counts
            counts, weights = self._combined(view, held)
        result = QuantilesResult(
            axis=self.axis,
            counts=counts,
            errors=self._errors(view.users, counts, weights),
            rmse=math.nan,
            rank_rmse=self.rmse(view.users),
            **self.promise(view, confidence),
        )
        return result.showing(result.probabilities)

    def _combined(self, view: View, counts: Floats) -> tuple[Floats, Floats]:
        """(bucket counts, their weights of every observation) by least squares, with the errors for
        such counts."""
        numbers = [level.buckets for level in self.levels]
        _, gains = combine(numbers, self.variances(view.users, counts))
        even, at = np.full(self.finest, view.users / self.finest), 0
        for level, gain in zip(self.levels, gains, strict=True):
            sums = (view.plus - view.minus)[at : at + level.buckets]
            found = level.cell.estimates(sums, view.users)
            even = even + gain @ (found - view.users / level.buckets)
            at += level.buckets
        return even, np.hstack(gains)

    def _errors(self, users: int, counts: Floats, weights: Floats) -> RangeErrors:
        """The errors of all observations, where the finest buckets hold `counts`, and what each
        bucket takes of them."""
        held = np.maximum(counts, 0.0)
        parts = [(level, held.reshape(level.buckets, -1).sum(axis=1)) for level in self.levels]
        found = [level.bucket_cumulants(users, own) for level, own in parts]
        second, third, fourth = (np.concatenate(part) for part in zip(*found, strict=True))
        common = tuple(level.common(users, own) for level, own in parts)
        return RangeErrors(weights, (second, third, fourth), common)

    def unlikely(self, batch: Report) -> list[Unlikely]:
        return [*super().unlikely(batch), *self._unlikely_totals(batch)]

    def messages_per_user(self) -> float:
        """On each level one bucket has a 1, the others 0."""
        return sum(to_float(group.messages_per_user) for group in self.cell_groups)

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "low": str(self.low),
            "high": str(self.high),
            **self.axis.to_dict(),
            "levels": [
                {
                    "buckets": level.buckets,
                    "cell": level.cell.to_dict(),
                    "down": str(level.down),
                }
                for level in self.levels
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            epsilon=Fraction(data["epsilon"]),
            levels=tuple(
                Level(int(one["buckets"]), cell_from_dict(one["cell"]), Fraction(one["down"]))
                for one in data["levels"]
            ),
            low=Fraction(data["low"]),
            high=Fraction(data["high"]),
            points=bool(data.get("points", False)),
            unit=str(data.get("unit", "")),
        )
