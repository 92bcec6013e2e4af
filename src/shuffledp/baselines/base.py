"""The interface of every baseline: the paper's verbs, a privacy claim, and a forecast.

A baseline is a protocol that [GKM23] is compared with. It has the same verbs as ours: `randomize`
(one user's messages), `shuffle` (of `protocols.report`), `collect` (the counts of shuffled
messages, which are everything the analyzer reads), `aggregate` (the same law for many users at
once) and `analyze`. Its privacy guarantee is a `Claim`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from shuffledp.baselines.claim import Basis, Claim
from shuffledp.baselines.draws import Counts, whole_values
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ExactNumber, positive_as_written, probability, whole
from shuffledp.numbers.laws import DiscreteLaplace

QueryName = Literal["count", "real-sum", "histogram"]
DEFAULT_COUNT = 100
"""The true count of a bucket at which the error of histograms is shown."""
CHUNK = 1 << 14
"""How many messages of noise are drawn at once."""
Messages = NDArray[np.int64]
"""The messages of one or more users, one row per message."""


@dataclass(frozen=True, kw_only=True)
class BaselineForecast:
    """A baseline's error and cost, computed from formulas."""

    rmse: float
    """The root mean squared error for the worst data (of the worst bucket, for a histogram)."""
    messages_per_user: float
    """The expected number, for a user with the value that costs most."""
    bits_per_message: int
    rmse_at_zero: float | None = None
    """For a histogram: the RMSE of an empty bucket; None if it equals that of the worst bucket."""
    rmse_at: float | None = None
    """For a histogram: the RMSE of a bucket with `error_at` users; None as above."""

    @property
    def at_zero(self) -> float:
        """RMSE when the true count is 0."""
        return self.rmse if self.rmse_at_zero is None else self.rmse_at_zero

    @property
    def at_count(self) -> float:
        """RMSE when the true count is the setting's `error_at`."""
        return self.rmse if self.rmse_at is None else self.rmse_at

    @property
    def bits_per_user(self) -> float:
        """The expected number of bits that one user sends."""
        return self.messages_per_user * self.bits_per_message


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a baseline is planned for: users, privacy and, for histograms, buckets."""

    users: int
    epsilon: Fraction
    delta: Fraction | None = None
    buckets: int | None = None
    error_at: int = DEFAULT_COUNT
    """The true count of a bucket at which tables show the error, in addition to 0 and the worst
    case."""

    @classmethod
    def of(
        cls,
        users: int | str,
        epsilon: ExactNumber,
        delta: ExactNumber | None = None,
        buckets: int | str | None = None,
        error_at: int | str = DEFAULT_COUNT,
    ) -> Setting:
        """A setting from the caller's numbers, checked and converted to exact ones."""
        return cls(
            users=whole(users, "users"),
            epsilon=positive_as_written(epsilon, "epsilon"),
            delta=None if delta is None else probability(delta, "delta"),
            buckets=None if buckets is None else whole(buckets, "buckets", least=2),
            error_at=whole(error_at, "error_at", least=0),
        )

    @property
    def required_delta(self) -> Fraction:
        """δ, for baselines that are not pure; raises `ParameterError` if none was given."""
        if self.delta is None:
            raise ParameterError(
                "This protocol is only (ε, δ)-private; pass delta (for example 1e-6), "
                "or choose a pure protocol."
            )
        return self.delta

    def claim(self, basis: Basis, note: str) -> Claim:
        """The claim of (ε, δ)-DP, trusting the shuffler."""
        return Claim(
            epsilon=self.epsilon,
            delta=self.required_delta,
            trust="shuffler",
            basis=basis,
            note=note,
        )

    def checked(self, holds: bool) -> Claim:
        """The claim of published constants whose δ was computed."""
        return self.claim("computed" if holds else "violated", "published constants")

    @property
    def required_buckets(self) -> int:
        """The number of buckets, for histograms; raises `ParameterError` if none was given."""
        if self.buckets is None:
            raise ParameterError("A histogram needs the number of buckets; pass buckets=….")
        return self.buckets


@dataclass(frozen=True, eq=False)
class Bag:
    """What the analyzer reads: how often each message arrived, and from how many users."""

    users: int
    counts: Counts
    seeded: bool = False


class Baseline(ABC):
    """A protocol of the literature with its parameters, all exact."""

    query: ClassVar[QueryName]
    users: int
    """The guaranteed number of honest users; together they send all the noise."""

    @cached_property
    @abstractmethod
    def claim(self) -> Claim:
        """The privacy that the protocol promises with these parameters."""

    @property
    @abstractmethod
    def bits_per_message(self) -> int:
        """How many bits one message takes."""

    @abstractmethod
    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Messages:
        """The messages that one user with this value sends."""

    @abstractmethod
    def collect(self, messages: Messages, users: int) -> Bag:
        """The counts of all users' messages, independent of their order."""

    @abstractmethod
    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        """One draw with the same distribution as `collect` of all these users' messages."""

    @abstractmethod
    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        """The unbiased estimate: one number, or one per bucket."""

    @abstractmethod
    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """The estimate's expected squared error (of one bucket) with `users` users, if the true
        answer is `total`; by default for the worst true answer."""

    @abstractmethod
    def messages_per_user(self) -> float:
        """The expected number of messages of a user with the value that costs most."""

    def error_law(self, users: int) -> tuple[DiscreteLaplace, Fraction] | None:
        """(law, unit) if the error is `unit` times a discrete Laplace draw; otherwise None."""
        return None

    def forecast(self, users: int | None = None, error_at: int = DEFAULT_COUNT) -> BaselineForecast:
        """Error and cost with `users` users; by default with the planned number."""
        users = self.users if users is None else users
        at = (0, min(error_at, users)) if self.query == "histogram" else ()
        worst, *others = (
            float(self.mean_squared_error(users, total) ** 0.5) for total in (None, *at)
        )
        return BaselineForecast(
            rmse=worst,
            messages_per_user=self.messages_per_user(),
            bits_per_message=self.bits_per_message,
            rmse_at_zero=others[0] if others else None,
            rmse_at=others[1] if others else None,
        )

    def check_batch(self, users: int) -> None:
        """Raises `ParameterError` if the analyzer cannot take a batch of `users` users."""
        return


class Promised(Baseline):
    """A baseline whose claim is made with its parameters."""

    promise: Claim

    @cached_property
    def claim(self) -> Claim:
        return self.promise


class Counter(Baseline):
    """A baseline that counts users with the value 1."""

    query: ClassVar[QueryName] = "count"

    @abstractmethod
    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        """A draw of the counts that arrive if `ones` of the users have the value 1."""

    @abstractmethod
    def estimate(self, counts: Counts, users: int) -> float:
        """The unbiased estimate of how many users have the value 1."""

    @abstractmethod
    def messages(self, value: int) -> float:
        """The expected number of messages of a user that holds `value`."""

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        bits = whole_values(values, 1)
        counts = self.draw(int(bits.sum()), bits.size, entropy)
        return Bag(bits.size, counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        return np.array([self.estimate(bag.counts, bag.users)])

    def messages_per_user(self) -> float:
        return max(self.messages(0), self.messages(1))


def collected(
    baseline: Baseline,
    own: Messages,
    noise: Callable[[int, Entropy], Messages],
    count: int,
    entropy: Entropy,
) -> Bag:
    """The counts of the users' own messages, a row for each user, and of `count` messages of noise,
    which are drawn in chunks."""
    counts = baseline.collect(own, len(own)).counts
    for begin in range(0, count, CHUNK):
        drawn = noise(min(count - begin, CHUNK), entropy)
        counts = counts + baseline.collect(drawn, len(own)).counts
    return Bag(len(own), counts, entropy.seeded)


def needs(condition: bool, reason: str) -> None:
    """Raises `PlanningError` with this reason unless the condition holds."""
    if not condition:
        raise PlanningError(reason)
