"""Running a baseline on a column of values, with the same checks as ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.baselines.base import Bag, Baseline, Setting
from shuffledp.baselines.claim import TRUSTED, Claim
from shuffledp.baselines.registry import Entry, baseline, planned
from shuffledp.errors import ParameterError, PlanningError, ShortBatchError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ExactNumber, checked_confidence, exact
from shuffledp.numbers.laws import DiscreteLaplace
from shuffledp.protocols.results import ErrorLaw, Estimate, HistogramResult, Result
from shuffledp.queries.histogram.protocol import Label, checked_labels

IntervalKind = Literal["exact", "normal approximation"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BaselineResult(Result):
    """A result that also names the baseline that produced it, with its privacy claim."""

    protocol: str
    """The protocol's name, as `shuffledp compare` lists it."""
    title: str
    """The protocol's name in tables and pictures."""
    claim: Claim
    interval_kind: IntervalKind
    """How the intervals were made."""
    bits_per_message: int

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[misc]  # of the kind of result beside this class
        if self.epsilon != self.claim.epsilon:
            raise ParameterError("A result's ε must be the ε of its privacy claim.")

    def privacy_in_words(self) -> str:
        return super().privacy_in_words() if self.seeded else self.claim.in_words()

    def promise(self) -> dict[str, Any]:
        """`Result.promise` plus the protocol and its claim, as a JSON object."""
        return {
            **super().promise(),
            "protocol": self.protocol,
            "claim": self.claim.to_dict(),
            "interval_kind": self.interval_kind,
            "bits_per_message": self.bits_per_message,
        }

    def __str__(self) -> str:
        trusted = TRUSTED[self.claim.trust]
        warning = "" if self.claim.holds else f", {self.claim.basis}"
        return (
            f"{super().__str__()}\n{self.title}: {self.claim}, trusting {trusted}{warning}; "
            f"intervals: {self.interval_kind}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class BaselineEstimate(BaselineResult, Estimate):
    """A baseline's unbiased estimate of one number, with its interval and its privacy claim."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BaselineHistogram(BaselineResult, HistogramResult):
    """A baseline's unbiased estimates of all buckets, with intervals and privacy claim."""


Floats = NDArray[np.float64]

PICTURE_TAIL = 1e-5  # the probability of errors that pictures leave out


@overload
def run(
    query: Literal["count", "real-sum"],
    protocol_name: str,
    values: ArrayLike,
    epsilon: ExactNumber,
    delta: ExactNumber | None = None,
    *,
    users: int | None = None,
    bounds: tuple[ExactNumber, ExactNumber] | None = None,
    entropy: Entropy = SYSTEM,
    confidence: float = 0.95,
) -> BaselineEstimate: ...


@overload
def run(
    query: Literal["histogram"],
    protocol_name: str,
    values: ArrayLike,
    epsilon: ExactNumber,
    delta: ExactNumber | None = None,
    *,
    users: int | None = None,
    buckets: int | Sequence[Label] | None = None,
    entropy: Entropy = SYSTEM,
    confidence: float = 0.95,
) -> BaselineHistogram: ...


@overload
def run(
    query: str,
    protocol_name: str,
    values: ArrayLike,
    epsilon: ExactNumber,
    delta: ExactNumber | None = None,
    *,
    users: int | None = None,
    buckets: int | Sequence[Label] | None = None,
    bounds: tuple[ExactNumber, ExactNumber] | None = None,
    entropy: Entropy = SYSTEM,
    confidence: float = 0.95,
) -> BaselineEstimate | BaselineHistogram: ...


def run(
    query: str,
    protocol_name: str,
    values: ArrayLike,
    epsilon: ExactNumber,
    delta: ExactNumber | None = None,
    *,
    users: int | None = None,
    buckets: int | Sequence[Label] | None = None,
    bounds: tuple[ExactNumber, ExactNumber] | None = None,
    entropy: Entropy = SYSTEM,
    confidence: float = 0.95,
) -> BaselineEstimate | BaselineHistogram:
    """Simulates a whole baseline protocol in one process and returns its result.

    Values are 0 or 1 for a count, bucket numbers 0, 1, … for a histogram (`buckets`: their number
    or their labels), and reals within `bounds` (by default 0 and 1) for a real sum. `users` is the
    guaranteed number of honest users, who send the noise (default: all). Refuses a protocol whose
    privacy claim was found violated.

    >>> from shuffledp.numbers.entropy import SeededEntropy
    >>> result = run("count", "gkmp20", [0, 1, 1] * 100, 1, "1e-6", entropy=SeededEntropy(1))
    >>> result.claim.pure, str(result.claim)
    (False, '(ε, δ) = (1, 1e-06)')
    """
    confidence = checked_confidence(confidence)
    entry = baseline(query, protocol_name)
    low, width = _range(entry, bounds)
    labels = _bucket_labels(entry, buckets)
    array = np.asarray(values)
    sure = array.size if users is None else users
    if sure > array.size:
        raise ShortBatchError(array.size, sure)
    buckets_asked = None if labels is None else len(labels)
    protocol = planned(query, protocol_name, Setting.of(sure, epsilon, delta, buckets_asked))
    if protocol.claim.basis == "violated":
        raise PlanningError(
            f"{protocol_name} violates its privacy claim here and was not run; choose another one."
        )
    protocol.check_batch(array.size)
    if (low, width) != (0.0, 1.0):
        array = (array - low) / width
    answer = _Answer(
        entry=entry,
        protocol=protocol,
        bag=protocol.aggregate(array, entropy),
        confidence=confidence,
        low=low,
        width=width,
    )
    return answer.estimate() if labels is None else answer.histogram(labels)


def _range(entry: Entry, bounds: Sequence[ExactNumber] | None) -> tuple[float, float]:
    """(low, width) of the caller's values, which are 0 to 1 in the protocol."""
    if bounds is None:
        return 0.0, 1.0
    if entry.query != "real-sum":
        raise ParameterError(f"bounds are only for real sums; remove them from the {entry.query}.")
    low, high = (exact(bound, "a bound") for bound in bounds)
    if low >= high:
        raise ParameterError("bounds must be (low, high) with low < high.")
    return float(low), float(high - low)


def _bucket_labels(entry: Entry, buckets: int | Sequence[Label] | None) -> tuple[Label, ...] | None:
    if entry.query == "histogram":
        if buckets is None:
            raise ParameterError("A histogram needs the number of buckets; pass buckets=….")
        return checked_labels(buckets)
    if buckets is not None:
        raise ParameterError(
            f"buckets are only for histograms; remove them from the {entry.query}."
        )
    return None


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What a baseline's analyzer has received, and how it becomes a result."""

    entry: Entry
    protocol: Baseline
    bag: Bag
    confidence: float
    low: float
    width: float

    def estimate(self) -> BaselineEstimate:
        """The result of a count or a real sum."""
        users, numbers = self.bag.users, self.protocol.analyze(self.bag)
        errors = self._errors(numbers)
        value = float(numbers[0]) * self.width + self.low * users
        reach = float(self._reach(errors, 1 - self.confidence)[0])
        law = self.protocol.error_law(users)
        return BaselineEstimate(
            query=self.entry.query,
            value=value,
            low=value - reach,
            high=value + reach,
            possible=(self.low * users, users * self.width + self.low * users),
            errors=None if law is None else partial(laplace_errors, *law, self.width),
            **self._shared(errors),
        )

    def histogram(self, labels: tuple[Label, ...]) -> BaselineHistogram:
        """The result of a histogram: counts are whole numbers, so intervals are rounded outwards.
        The joint intervals hold for all buckets at once (Bonferroni)."""
        numbers = self.protocol.analyze(self.bag)
        errors = self._errors(numbers)
        alone = self._reach(errors, 1 - self.confidence)
        joint = self._reach(errors, (1 - self.confidence) / len(labels))
        return BaselineHistogram(
            labels=labels,
            values=numbers,
            low=np.floor(numbers - alone).astype(np.int64),
            high=np.ceil(numbers + alone).astype(np.int64),
            joint_low=np.floor(numbers - joint).astype(np.int64),
            joint_high=np.ceil(numbers + joint).astype(np.int64),
            **self._shared(errors),
        )

    def _errors(self, numbers: Floats) -> Floats:
        """The root mean squared error of each number, in the caller's values."""
        users = self.bag.users
        totals = np.clip(numbers, 0.0, users).tolist()
        squared = [self.protocol.mean_squared_error(users, total) for total in totals]
        return np.asarray(self.width * np.sqrt(squared))

    def _reach(self, errors: Floats, outside: float) -> Floats:
        """Half the width of each number's interval, which misses with probability `outside`."""
        law = self.protocol.error_law(self.bag.users)
        if law is None:
            return errors * NormalDist().inv_cdf(1 - outside / 2)
        return np.full(errors.size, self.width * laplace_reach(*law, outside))

    def _shared(self, errors: Floats) -> dict[str, Any]:
        """The fields that estimates and histograms share."""
        forecast = self.protocol.forecast(self.bag.users)
        exactly = self.protocol.error_law(self.bag.users) is not None
        return {
            "epsilon": self.protocol.claim.epsilon,
            "users": self.bag.users,
            "messages_per_user": forecast.messages_per_user,
            "confidence": self.confidence,
            "rmse": float(errors.max()),
            "seeded": self.bag.seeded,
            "protocol": self.entry.name,
            "title": self.entry.title,
            "claim": self.protocol.claim,
            "interval_kind": "exact" if exactly else "normal approximation",
            "bits_per_message": forecast.bits_per_message,
        }


def laplace_reach(law: DiscreteLaplace, unit: Fraction, outside: float) -> float:
    """The least t with P(|noise| > t) = 2e^(−a(t+1))/(1+e^−a) ≤ outside, in the result's units."""
    a = float(law.decay)
    t = math.log(2 / (outside * (1 + math.exp(-a)))) / a - 1
    return float(unit) * max(0, math.ceil(t))


def laplace_errors(law: DiscreteLaplace, unit: Fraction, width: float) -> ErrorLaw:
    """(errors, how likely each is) of a discrete Laplace error, without its far tails."""
    reach = round(laplace_reach(law, Fraction(1), PICTURE_TAIL))
    places = np.arange(-reach, reach + 1)
    a = float(law.decay)
    errors = np.asarray(places * (float(unit) * width), np.float64)
    return errors, math.tanh(a / 2) * np.exp(-a * np.abs(places))
