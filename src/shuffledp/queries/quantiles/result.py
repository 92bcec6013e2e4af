"""The result of quantiles: estimated bucket counts, from which any quantile or range follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import exact
from shuffledp.protocols.frames import data_frame
from shuffledp.protocols.results import Estimate, Result
from shuffledp.queries.quantiles.axis import Axis
from shuffledp.queries.quantiles.range_errors import RangeErrors, mean_squares, mean_steps_below
from shuffledp.queries.quantiles.unevenness import (
    EVEN_IN_BIN,
    FEWEST_BINS,
    Lumps,
    finer_squares,
    lump_squares,
    lumps_of,
)

Floats = NDArray[np.float64]
SMOOTHING = 0.25
"""How much extra noise quantiles are averaged over, relative to the actual noise. More reduces
errors if the noise is large, but pulls estimates towards the middle (docs/coverage.md)."""
FARTHEST, MOST_PARTS = 8.0, 2048
"""How many errors of a rank the search covers, and at how many points."""
NOT_A_SHARE = "A quantile must be strictly between 0 and 1, for example 0.5."


@dataclass(frozen=True, kw_only=True, repr=False)
class QuantileEstimate(Estimate):
    """An estimated quantile, in the values' unit."""

    axis: Axis
    probability: float

    def texts(self) -> list[tuple[str, str, str, str]]:
        if not self.axis.points:
            return super().texts()
        value, low, high = (self.axis.text(number) for number in (self.value, self.low, self.high))
        return [(self.query, value, low, high)]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "probability": self.probability, **self.dates()}

    def dates(self) -> dict[str, Any]:
        """The estimate and its interval as dates, if values are dates."""
        if not self.axis.unit:
            return {}
        value, low, high = self.texts()[0][1:]
        return {"date": value, "date_interval": [low, high]}

    @property
    def rmse_unit(self) -> str:
        return self.axis.unit_text


class Ranks(NamedTuple):
    """How far the ranks of edges are above that of a quantile: estimates, errors and intervals."""

    heights: Floats
    errors: Floats
    lower: Floats
    upper: Floats
    unclipped: Floats
    """The unclipped estimates."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuantilesResult(Result):
    """Unbiased bucket counts with the distribution of their errors. `rmse` is that of the least
    certain quantile shown, in the unit of the values."""

    axis: Axis
    counts: Floats
    errors: RangeErrors
    rank_rmse: float
    """The forecast error of the number of users below an edge, at the worst edge and data."""
    probabilities: tuple[float, ...] = (0.25, 0.5, 0.75)
    """The quantiles that are shown; any other can be computed at no further cost."""
    query: str = "quantiles"

    @property
    def rmse_unit(self) -> str:
        return self.axis.unit_text

    @property
    def edges(self) -> Floats:
        """The finest buckets' ends."""
        return self.axis.edges

    @cached_property
    def below(self) -> Floats:
        """The estimated number of users below each edge."""
        inner = np.cumsum(self.counts)[:-1]
        return np.concatenate([[0.0], inner, [float(self.reports)]])

    @cached_property
    def band(self) -> tuple[Floats, Floats]:
        """For each edge the interval of the number of users below it."""
        low, high = self.errors.ends(self.errors.below_edges()[1:-1], 1 - self.confidence)
        low, high = (np.concatenate([[0.0], end, [0.0]]) for end in (low, high))
        return self.below - high, self.below - low

    def showing(self, probabilities: Sequence[float]) -> QuantilesResult:
        """The same result that shows these quantiles."""
        shown = replace(self, probabilities=tuple(probabilities))
        return replace(shown, rmse=max(estimate.rmse for estimate in shown.shown()))

    def between(self, low: object, high: object) -> Estimate:
        """How many users are in [low, high).

        If an end is inside a bucket, its users are assumed to be spread evenly, and the interval
        allows for all or none of them: its lower end counts only buckets that are entirely inside,
        its upper end all that overlap. The name shows their edges.
        """
        start = self.axis.position(low, "the lower end")
        end = self.axis.position(high, "the upper end")
        if not start < end:
            raise ParameterError(
                "A range needs a lower end below its upper end, and a part within the bounds."
            )
        if (start, end) == (0, self.axis.bins):
            return self._everybody()
        inner, outer = (math.ceil(start), math.floor(end)), (math.floor(start), math.ceil(end))
        bins = np.arange(self.axis.bins)
        parts = np.clip(np.minimum(bins + 1, end) - np.maximum(bins, start), 0.0, 1.0)
        value = float(parts @ self.counts)
        least = self._range_ends(*inner)[0] if inner[0] < inner[1] else 0.0
        most = self._range_ends(*outer)[1]
        variance = float(self.errors.of_sums((parts @ self.errors.weights)[None, :])[0][0])
        cut = (parts > 0) & (parts < 1)
        unknown = float((np.maximum(self.counts[cut], 0.0) ** 2).sum()) / 12
        return Estimate(
            query=self._range_name(low, high, start, end, outer),
            value=value,
            low=min(least, value),
            high=max(most, value),
            possible=(0.0, float(self.reports)),
            **self.fields_of(Result, rmse=math.sqrt(variance + unknown)),
        )

    def _everybody(self) -> Estimate:
        """The number of users within the bounds, which is public."""
        count = float(self.reports)
        name = self._range_name("", "", 0, self.axis.bins, (0, self.axis.bins))
        shared = self.fields_of(Result, rmse=0.0)
        return Estimate(query=name, value=count, low=count, high=count, **shared)

    def _range_ends(self, start: int, end: int) -> tuple[float, float]:
        """The interval of the number of users in buckets start..end−1."""
        weights = self.errors.weights[start:end].sum(axis=0)[None, :]
        low, high = self.errors.ends(weights, 1 - self.confidence)
        value = float(self.counts[start:end].sum())
        return value - float(high[0]), value - float(low[0])

    def _range_name(
        self, low: object, high: object, start: float, end: float, outer: tuple[int, int]
    ) -> str:
        edges = ", ".join(self.axis.edge_text(edge) for edge in outer)
        if (start, end) == outer:
            return f"count in [{edges})"
        return f"count in [{low}, {high}), interpolated in buckets that reach over [{edges})"

    def quantile(self, probability: float) -> QuantileEstimate:
        """The value that this fraction of the users do not exceed.

        The estimated number of users below a value is noisy, so it may cross the wanted rank more
        than once. Sorting its values never moves it further from the truth, and then it crosses
        once. The estimate averages the points where it would cross with a little more noise, which
        makes it less erratic. The interval extends from the first to the last bucket whose true
        rank may be the wanted one, so a single test on each side decides whether it contains the
        truth.
        """
        share = float(exact(probability, "a quantile"))
        if not 0 < share < 1:
            raise ParameterError(NOT_A_SHARE)
        ranks = self.ranks(share)
        position = mean_steps_below(ranks.heights, 0.0, SMOOTHING * ranks.errors)
        first = int(np.flatnonzero(ranks.upper >= 0)[0]) - 1
        last = int(np.flatnonzero(ranks.lower < 0)[-1])
        low, high = self.axis.ends(first, last)
        value = min(max(self.axis.value_at(position), low), high)
        return QuantileEstimate(
            query=f"quantile {share:g}",
            probability=share,
            value=value,
            low=low,
            high=high,
            axis=self.axis,
            **self.fields_of(Result, rmse=self._quantile_rmse(ranks, value, position)),
        )

    def ranks(self, share: float) -> Ranks:
        """How far the ranks of all edges are above that of a quantile."""
        rank, (lower, upper) = share * self.reports, self.band
        return Ranks(
            heights=np.clip(self.below, 0.0, self.reports) - rank,
            errors=np.concatenate([[0.0], self._rank_errors, [0.0]]),
            lower=lower - rank,
            upper=upper - rank,
            unclipped=self.below - rank,
        )

    @cached_property
    def _rank_errors(self) -> Floats:
        """The errors of the numbers of users below the inner edges."""
        variances = self.errors.of_sums(self.errors.below_edges()[1:-1])[0]
        return np.sqrt(np.maximum(variances, 1e-12))

    def _quantile_rmse(self, ranks: Ranks, value: float, position: float) -> float:
        """How far the true quantile typically is from the estimate, in the values' unit. This
        includes the noise of ranks and the uneven spread of users inside bins."""
        edges = np.arange(self.axis.bins + 1)
        inner_errors = ranks.errors[1:-1]
        errors = np.concatenate([inner_errors[:1], inner_errors, inner_errors[-1:]])
        likely = np.flatnonzero(np.abs(ranks.unclipped) < FARTHEST * errors)
        middle = int(min(max(position, 0), self.axis.bins - 1))
        first = max(0, min([middle, *likely.tolist()]) - 1)
        last = min(self.axis.bins, max([middle, *likely.tolist()]) + 2)
        parts = self.axis.parts_of_bin(max(MOST_PARTS // (last - first), 16))
        places = first + np.arange((last - first) * parts + 1) / parts
        above, spread = (np.interp(places, edges, one) for one in (ranks.unclipped, errors))
        law = NormalDist()
        inner = [law.cdf(one) for one in (-above[1:-1] / spread[1:-1]).tolist()]
        place = self.axis.middle_of(value, position)
        inside = self.axis.variance_inside(parts)
        later, centre = np.array([1.0, *inner, 0.0]), (place - first) * parts
        shares, squares = mean_squares(later, centre, inside, parts)
        squares = squares / parts**2
        if self.axis.group > 1:
            squares = self._with_unevenness(slice(first, last), middle, place, shares, squares)
        return self.axis.width * math.sqrt(float(squares.sum()))

    def _with_unevenness(
        self, bins: slice, middle: int, place: float, shares: Floats, squares: Floats
    ) -> Floats:
        """The squared errors of a quantile at `place` in the bin `middle`, given those of noise,
        with the uneven spread of users inside bins; all weighted with the probabilities `shares`
        that the true quantile is in each of the bins."""
        if self.axis.bins < FEWEST_BINS:
            return squares + shares * EVEN_IN_BIN
        lumps, others = self._lumps
        finer = finer_squares(self.counts, others, self._step_variances, middle, bins)
        numbers = np.arange(bins.start, bins.stop)
        own = lumps[bins] ** 2
        round_places = np.array(
            [
                self.axis.round_place(k) if part else 0.5
                for k, part in zip(numbers, own, strict=True)
            ]
        )
        return (1 - own) * squares + shares * (
            own * lump_squares(place - numbers, round_places) + finer
        )

    @cached_property
    def _lumps(self) -> Lumps:
        return lumps_of(self.counts, self.errors.of_sums(self.errors.weights)[0])

    @cached_property
    def _step_variances(self) -> Floats:
        """The noise in the differences of neighbouring counts."""
        return self.errors.of_sums(np.diff(self.errors.weights, axis=0))[0]

    def quantiles(self, probabilities: Sequence[float]) -> list[QuantileEstimate]:
        """Several quantiles of one release: no further privacy cost."""
        return [self.quantile(probability) for probability in probabilities]

    def rows(self) -> list[tuple[str, float, float, float]]:
        return [(q.query, q.value, q.low, q.high) for q in self.shown()]

    def to_frame(self, backend: str | None = None) -> Any:
        """The shown quantiles as a data frame: probability, estimate, low, high, rmse; of dates
        also the date and its interval as texts.

        `backend` is "pandas", "polars" or "pyarrow"; by default the first that is installed.
        """
        shown = self.shown()
        numbers: dict[str, list[Any]] = {"estimate": [one.value for one in shown]}
        for name in ("low", "high", "rmse"):
            numbers[name] = [getattr(one, name) for one in shown]
        if self.axis.unit:
            texts = zip(*(one.texts()[0][1:] for one in shown), strict=True)
            names = ("date", "date_low", "date_high")
            numbers |= {name: list(column) for name, column in zip(names, texts, strict=True)}
        return data_frame({"probability": [one.probability for one in shown]}, numbers, backend)

    def texts(self) -> list[tuple[str, str, str, str]]:
        return [text for estimate in self.shown() for text in estimate.texts()]

    def shown(self) -> list[QuantileEstimate]:
        """Estimates of the query's quantiles."""
        return self.quantiles(self.probabilities)

    def to_dict(self) -> dict[str, Any]:
        """The quantiles and the bucket counts as a JSON object; dates also as numbers."""
        errors = np.sqrt(np.maximum(self.errors.of_sums(self.errors.weights)[0], 0.0))
        rows = zip(self.edges, self.edges[1:], self.counts, errors, strict=False)
        unit = {"unit": f"{self.axis.unit}s since 1970-01-01"} if self.axis.unit else {}
        return {
            "query": self.query,
            "quantiles": [
                {
                    "probability": q.probability,
                    "estimate": q.value,
                    "interval": [q.low, q.high],
                    "rmse": q.rmse,
                    **q.dates(),
                }
                for q in self.shown()
            ],
            "buckets": [
                {"from": float(a), "to": float(b), "estimate": float(c), "rmse": float(e)}
                for a, b, c, e in rows
            ],
            **unit,
            **self.promise(),
            "rank_rmse": self.rank_rmse,
        }

    def __str__(self) -> str:
        return "\n".join(str(estimate) for estimate in self.shown())


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeptQuantilesResult(QuantilesResult):
    """The same about the rows that `where` keeps. How many there are is private, so the rank of a
    quantile is a share of an estimate, and its error is part of every interval."""

    top: float
    """The upper bound of the values."""

    @classmethod
    def of(cls, whole: QuantilesResult, top: Fraction) -> KeptQuantilesResult:
        """The result restricted to the bins up to the one that contains `top`."""
        axis = whole.axis
        bins = math.floor((top - axis.low) / axis.exact_width) + 1
        high = axis.low + bins * axis.exact_width - (1 if axis.points else 0)
        said = whole.fields_of(
            QuantilesResult,
            axis=replace(axis, high=high, bins=bins),
            counts=whole.counts[:bins],
            errors=replace(whole.errors, weights=whole.errors.weights[:bins]),
        )
        return cls(**said, top=float(top))

    @cached_property
    def below(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.counts)])

    @cached_property
    def band(self) -> tuple[Floats, Floats]:
        low, high = self.errors.ends(self.errors.below_edges()[1:], 1 - self.confidence)
        low, high = (np.concatenate([[0.0], end]) for end in (low, high))
        return self.below - high, self.below - low

    def ranks(self, share: float) -> Ranks:
        """An edge is above the quantile if more than this share of all kept rows is below it, so
        the error of that difference matters. All kept rows are between the first and the last
        edge."""
        edges = self.errors.below_edges()
        weights = edges - share * edges[-1]
        low, high = self.errors.ends(weights, 1 - self.confidence)
        variances = self.errors.of_sums(weights)[0]
        unclipped = self.below - share * self.below[-1]
        heights, lower, upper = unclipped.copy(), unclipped - high, unclipped - low
        heights[0], heights[-1] = min(heights[0], 0.0), max(heights[-1], 0.0)
        lower[0] = upper[0] = -math.inf
        lower[-1] = upper[-1] = math.inf
        errors = np.sqrt(np.maximum(variances, 1e-12))
        return Ranks(heights, errors, lower, upper, unclipped)

    def quantile(self, probability: float) -> QuantileEstimate:
        found = super().quantile(probability)
        value, high = (min(number, self.top) for number in (found.value, found.high))
        return replace(found, value=value, high=high)

    def _everybody(self) -> Estimate:
        """How many rows are kept, which is private."""
        low, high = self._range_ends(0, self.axis.bins)
        variance = float(self.errors.of_sums(self.errors.below_edges()[-1:])[0][0])
        return Estimate(
            query=self._range_name("", "", 0, self.axis.bins, (0, self.axis.bins)),
            value=float(self.counts.sum()),
            low=low,
            high=high,
            possible=(0.0, float(self.reports)),
            **self.fields_of(Result, rmse=math.sqrt(variance)),
        )
