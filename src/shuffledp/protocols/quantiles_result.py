"""The result of quantiles: estimated bucket counts that any quantile or range is read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import exact
from shuffledp.protocols.results import Estimate, Result

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuantilesResult(Result):
    """Estimated bucket counts with their covariance; intervals here are normal approximations
    (a range adds up many independent errors)."""

    edges: Floats
    counts: Floats
    covariance: Floats
    probabilities: tuple[float, ...] = (0.25, 0.5, 0.75)
    """The quantiles that are shown; any other can be asked for at no further cost."""
    query: str = "quantiles"

    def between(self, low: float, high: float) -> Estimate:
        """How many users lie in [low, high), rounded to the buckets' edges."""
        ends = (float(exact(low, "the lower end")), float(exact(high, "the upper end")))
        start, end = (int(np.argmin(np.abs(self.edges - end))) for end in ends)
        if start >= end:
            raise ParameterError("A range needs a lower end below its upper end, a bucket apart.")
        value = float(self.counts[start:end].sum())
        error = float(self.covariance[start:end, start:end].sum()) ** 0.5
        reach = self._reach() * error
        name = f"count in [{self.edges[start]:g}, {self.edges[end]:g})"
        return self._estimate(name, value, value - reach, value + reach, error)

    def quantile(self, probability: float) -> Estimate:
        """The value below which this part of the users lies; its interval holds the values whose
        estimated rank is within the error of the wanted one."""
        share = exact(probability, "a quantile")
        if not 0 < share < 1:
            raise ParameterError("A quantile must lie strictly between 0 and 1, for example 0.5.")
        below = np.concatenate([[0.0], np.cumsum(self.counts)])
        errors = np.concatenate(
            [[0.0], np.sqrt(np.diag(np.cumsum(np.cumsum(self.covariance, 0), 1)).clip(0))]
        )
        rank, reach = float(share) * self.users, self._reach() * errors
        value, _ = self._crossing(below, rank)
        # within a bucket nothing is known: the interval reaches to the buckets' edges
        _, first = self._crossing(below + reach, rank)
        _, last = self._crossing(below - reach, rank)
        low, high = float(self.edges[max(first - 1, 0)]), float(self.edges[last])
        return self._estimate(
            f"quantile {float(share):g}", value, low, high, (high - low) / (2 * self._reach())
        )

    def quantiles(self, probabilities: Sequence[float]) -> list[Estimate]:
        """Several quantiles of one release: no further privacy cost."""
        return [self.quantile(probability) for probability in probabilities]

    def rows(self) -> list[tuple[str, float, float, float]]:
        return [(q.query, q.value, q.low, q.high) for q in self.shown()]

    def shown(self) -> list[Estimate]:
        """Estimates of the quantiles that were asked for in the query."""
        return self.quantiles(self.probabilities)

    def _reach(self) -> float:
        return NormalDist().inv_cdf(0.5 + self.confidence / 2)

    def _crossing(self, below: Floats, rank: float) -> tuple[float, int]:
        """Where the estimated number of users below first reaches a rank, and the edge there."""
        rising = np.maximum.accumulate(below)
        at = min(int(np.searchsorted(rising, rank)), len(self.edges) - 1)
        if at == 0:
            return float(self.edges[0]), 0
        step = rising[at] - rising[at - 1]
        part = min((rank - rising[at - 1]) / step, 1.0) if step > 0 else 1.0
        return float(self.edges[at - 1] + part * (self.edges[at] - self.edges[at - 1])), at

    def _estimate(self, query: str, value: float, low: float, high: float, rmse: float) -> Estimate:
        return Estimate(
            query=query,
            value=value,
            low=low,
            high=high,
            rmse=rmse,
            confidence=self.confidence,
            epsilon=self.epsilon,
            users=self.users,
            messages_per_user=self.messages_per_user,
            seeded=self.seeded,
            certificate=self.certificate,
        )

    def to_dict(self) -> dict[str, Any]:
        """The bucket counts as JSON can hold them."""
        errors = np.sqrt(np.diag(self.covariance))
        rows = zip(self.edges, self.edges[1:], self.counts, errors, strict=False)
        return {
            "query": self.query,
            "quantiles": [
                {"probability": p, "estimate": q.value, "interval": [q.low, q.high]}
                for p, q in zip(self.probabilities, self.shown(), strict=True)
            ],
            "buckets": [
                {"from": float(a), "to": float(b), "estimate": float(c), "rmse": float(e)}
                for a, b, c, e in rows
            ],
            **self.promise(),
        }

    def __str__(self) -> str:
        return "\n".join(str(estimate) for estimate in self.shown())
