"""What the analyzer gives: an estimate with everything needed to judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

NEIGHBOURS = "replace one user's value"


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate of one number, with its interval and its promise."""

    query: str
    value: float
    low: float
    high: float
    confidence: float
    rmse: float
    """The forecast root mean squared error, at this estimate."""
    epsilon: Fraction
    users: int
    messages_per_user: float
    seeded: bool = False
    certificate: Mapping[str, Any] | None = None
    clamped: bool = False
    neighbours: str = NEIGHBOURS

    def clamp(self, low: float, high: float) -> Estimate:
        """The same, cut to what is possible, and marked as such: no longer unbiased."""
        cut = [min(max(number, low), high) for number in (self.value, self.low, self.high)]
        return replace(self, value=cut[0], low=cut[1], high=cut[2], clamped=True)

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON can hold it."""
        return {
            "query": self.query,
            "estimate": self.value,
            "interval": [self.low, self.high],
            "confidence": self.confidence,
            "rmse": self.rmse,
            "epsilon": str(self.epsilon),
            "users": self.users,
            "neighbours": self.neighbours,
            "messages_per_user": self.messages_per_user,
            "seeded": self.seeded,
            "clamped": self.clamped,
            "certificate": None if self.certificate is None else dict(self.certificate),
        }

    def __str__(self) -> str:
        marks = " [seeded: not private]" * self.seeded + " [clamped]" * self.clamped
        return (
            f"{self.query} ≈ {self.value:,.2f}  "
            f"({self.confidence:.0%} interval {self.low:,.2f} … {self.high:,.2f}, "
            f"RMSE {self.rmse:,.2f}; ε = {float(self.epsilon):g}, {self.users:,} users){marks}"
        )
