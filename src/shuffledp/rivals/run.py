"""Running a rival on a column of values, with the same care as ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, PlanningError, ShortBatchError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.laws import DiscreteLaplace
from shuffledp.exact.numbers import ExactNumber, exact
from shuffledp.rivals.base import Claim, Rival, Task
from shuffledp.rivals.registry import rival as rival_named

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RivalResult:
    """What a rival gives: estimates with intervals, and the promise that they came under."""

    query: str
    protocol: str
    title: str
    values: Floats
    """One number, or one per bucket."""
    low: Any
    high: Any
    confidence: float
    interval: str
    """How the interval was made: "exact" or "normal approximation"."""
    rmse: float
    privacy: Claim
    users: int
    messages_per_user: float
    bits_per_message: int
    seeded: bool = False

    @property
    def value(self) -> float:
        """The estimate of a count or a sum."""
        if self.values.size != 1:
            raise ParameterError("A histogram has one value per bucket; use .values.")
        return float(self.values[0])

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        return {
            "query": self.query,
            "protocol": self.protocol,
            "estimate": _plain(self.values),
            "low": _plain(low),
            "high": _plain(high),
            "confidence": self.confidence,
            "interval_kind": self.interval,
            "rmse": self.rmse,
            "privacy": self.privacy.to_dict(),
            "users": self.users,
            "messages_per_user": self.messages_per_user,
            "bits_per_message": self.bits_per_message,
            "seeded": self.seeded,
        }

    def __str__(self) -> str:
        promise = f"{self.privacy}, trusting {_TRUST[self.privacy.trust]}"
        if not self.privacy.holds:
            promise += f", {self.privacy.basis}"
        seeded = " [seeded: not private]" * self.seeded
        if self.values.size == 1:
            span = f"{self.confidence:.0%} interval {self.low:,.2f} … {self.high:,.2f}"
            head = f"{self.query} ≈ {self.value:,.2f}  ({span}, RMSE {self.rmse:,.2f}; "
        else:
            head = f"{self.query} of {self.values.size:,} buckets  (RMSE {self.rmse:,.2f} each; "
        return f"{head}{promise}, {self.users:,} users; {self.title}){seeded}"


def _plain(numbers: Floats) -> float | list[float]:
    """One number alone, several as a list."""
    return float(numbers[0]) if numbers.size == 1 else [float(number) for number in numbers]


_TRUST = {"central": "the curator", "shuffler": "the shuffler", "local": "nobody"}


@lru_cache(maxsize=64)
def planned(query: str, name: str, task: Task) -> Rival:
    """The rival for a task, calibrated once."""
    return rival_named(query, name).plan(task)


def run(
    query: str,
    protocol_name: str,
    values: Any,
    epsilon: ExactNumber,
    delta: ExactNumber | None = None,
    users: int | None = None,
    buckets: int | None = None,
    bounds: tuple[ExactNumber, ExactNumber] | None = None,
    entropy: Entropy = SYSTEM,
    confidence: float = 0.95,
) -> RivalResult:
    """A whole rival protocol on values that one process holds anyway.

    `users` of the values are sure to be honest and carry the noise; all of them unless fewer are
    said. Values: 0/1 for a count, bucket numbers for a histogram, reals within `bounds` (0 and 1
    unless said) for a sum. Refuses a protocol whose privacy claim has nothing to stand on.
    """
    if not 0 < confidence < 1:
        raise ParameterError("confidence must lie strictly between 0 and 1, for example 0.95.")
    array = np.asarray(values)
    sure = array.size if users is None else users
    if sure > array.size:
        raise ShortBatchError(array.size, sure)
    protocol = planned(query, protocol_name, Task.of(sure, epsilon, delta, buckets))
    if protocol.claim.basis == "violated":
        raise PlanningError(f"{protocol_name} breaks its own privacy claim here; it is not run.")
    protocol.check_batch(array.size)
    scale, shift = _range(query, bounds)
    scaled = (array - shift) / scale if (scale, shift) != (1.0, 0.0) else array
    bag = protocol.aggregate(scaled, entropy)
    estimates = protocol.analyze(bag) * scale + shift * (query == "sum") * array.size
    return _result(protocol, protocol_name, estimates, bag.users, scale, confidence, bag.seeded)


def _range(query: str, bounds: Sequence[ExactNumber] | None) -> tuple[float, float]:
    """(width, lower end) of the values."""
    if bounds is None or query != "sum":
        return 1.0, 0.0
    low, high = (exact(bound, "a bound") for bound in bounds)
    if low >= high:
        raise ParameterError("bounds must be (low, high) with low < high.")
    return float(high - low), float(low)


def _result(
    protocol: Rival,
    name: str,
    estimates: Floats,
    users: int,
    scale: float,
    confidence: float,
    seeded: bool,
) -> RivalResult:
    at = [None] if protocol.query == "sum" else [min(max(x, 0.0), users) for x in estimates]
    errors = scale * np.sqrt([protocol.mean_squared_error(users, total) for total in at])
    law = protocol.error_law(users)
    reach = errors * NormalDist().inv_cdf((1 + confidence) / 2)
    if law is not None:
        reach = np.full(estimates.size, scale * _laplace_reach(*law, 1 - confidence))
    low, high = estimates - reach, estimates + reach
    one = estimates.size == 1
    forecast = protocol.forecast(users)
    return RivalResult(
        query=protocol.query,
        protocol=name,
        title=rival_named(protocol.query, name).title,
        values=estimates,
        low=float(low[0]) if one else low,
        high=float(high[0]) if one else high,
        confidence=confidence,
        interval="normal approximation" if law is None else "exact",
        rmse=float(errors.max()),
        privacy=protocol.claim,
        users=users,
        messages_per_user=forecast.messages_per_user,
        bits_per_message=forecast.bits_per_message,
        seeded=seeded,
    )


def _laplace_reach(law: DiscreteLaplace, unit: Fraction, outside: float) -> float:
    """The least t with P(|noise| > t) = 2e^(−a(t+1))/(1+e^−a) ≤ outside, in the result's units."""
    a = float(law.decay)
    t = math.log(2 / (outside * (1 + math.exp(-a)))) / a - 1
    return float(unit) * max(0, math.ceil(t))
