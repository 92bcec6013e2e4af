"""What every rival has: the paper's verbs, a privacy claim, and a forecast.

A rival is a protocol that [GKM23] is compared with. It has the same verbs as ours: `randomize`
(one user's messages), `shuffle` (of `protocols.report`), `collect` (a bag of messages as the
counts that the analyzer reads), `aggregate` (the same law for many users in one go) and
`analyze`. What it promises is a `Claim`; a claim with δ > 0 is approximate and can be nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError, PlanningError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.exact.laws import DiscreteLaplace
from shuffledp.exact.numbers import ExactNumber, positive, probability, show, whole
from shuffledp.rivals.draws import Counts, whole_values

Trust = Literal["central", "shuffler", "local"]
Basis = Literal["computed", "theorem", "not verified", "violated"]
Query = Literal["count", "sum", "histogram"]
Messages = NDArray[np.int64]
"""One row per message."""

BASES: dict[str, str] = {
    "computed": "computed for these very numbers, in exact or ball arithmetic or with a margin "
    "far above the rounding error",
    "theorem": "rests on the published theorem, not computed for these numbers",
    "not verified": "no proof at hand and too large to compute here",
    "violated": "a computation found a view that breaks it",
}


@dataclass(frozen=True)
class Claim:
    """A privacy promise: how much, against whom, and on what it rests."""

    epsilon: Fraction
    delta: Fraction
    trust: Trust
    """Who must be trusted: a curator, the shuffler, or nobody."""
    basis: Basis
    note: str = ""

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 <= self.delta < 1:
            raise ParameterError("A claim needs ε > 0 and 0 ≤ δ < 1.")

    @property
    def kind(self) -> Literal["pure", "approximate"]:
        """Pure only where δ is exactly 0: nobody can declare it otherwise."""
        return "pure" if self.delta == 0 else "approximate"

    @property
    def holds(self) -> bool:
        """Whether anything supports it."""
        return self.basis in ("computed", "theorem")

    def __str__(self) -> str:
        if self.kind == "pure":
            return f"pure ε = {show(self.epsilon)}"
        return f"(ε, δ) = ({show(self.epsilon)}, {float(self.delta):g})"

    def to_dict(self) -> dict[str, Any]:
        """The claim as JSON can hold it."""
        return {
            "kind": self.kind,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "trust": self.trust,
            "basis": self.basis,
            "note": self.note,
        }


@dataclass(frozen=True)
class RivalForecast:
    """Error and cost, from formulas."""

    rmse: float
    """At the worst data (of the worst bucket, for a histogram)."""
    messages_per_user: float
    """Expected, at the worst value."""
    bits_per_message: int

    @property
    def bits_per_user(self) -> float:
        return self.messages_per_user * self.bits_per_message


@dataclass(frozen=True)
class Task:
    """What a rival is made for."""

    users: int
    epsilon: Fraction
    delta: Fraction | None = None
    buckets: int | None = None

    @classmethod
    def of(
        cls,
        users: int,
        epsilon: ExactNumber,
        delta: ExactNumber | None = None,
        buckets: int | None = None,
    ) -> Task:
        """The task behind a caller's numbers."""
        return cls(
            whole(users, "users"),
            positive(epsilon, "epsilon"),
            None if delta is None else probability(delta, "delta"),
            None if buckets is None else whole(buckets, "buckets", least=2),
        )

    @property
    def some_delta(self) -> Fraction:
        """δ, which an approximate rival cannot do without."""
        if self.delta is None:
            raise ParameterError(
                "This protocol is only (ε, δ)-private; give delta (for example 1e-6), "
                "or choose a pure protocol."
            )
        return self.delta

    @property
    def some_buckets(self) -> int:
        if self.buckets is None:
            raise ParameterError("A histogram needs the number of buckets; give buckets=….")
        return self.buckets


@dataclass(frozen=True, eq=False)
class Bag:
    """What the analyzer reads: the counts behind a shuffled bag of messages."""

    users: int
    counts: Counts
    seeded: bool = False


class Rival(ABC):
    """A protocol with its parameters, all exact."""

    query: ClassVar[Query]
    users: int
    """Honest users that are sure to take part: together they carry the whole noise."""

    @cached_property
    @abstractmethod
    def claim(self) -> Claim:
        """What it promises."""

    @property
    @abstractmethod
    def bits_per_message(self) -> int:
        """How long a message is."""

    @abstractmethod
    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Messages:
        """One user's messages."""

    @abstractmethod
    def collect(self, messages: Messages, users: int) -> Bag:
        """The counts behind everybody's messages, in whatever order they are."""

    @abstractmethod
    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        """The law of `collect` over the shuffled messages of these users, in one go."""

    @abstractmethod
    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        """The estimate: one number, or one per bucket. Unbiased."""

    @abstractmethod
    def mean_squared_error(self, users: int, total: float | None = None) -> float:
        """Of the estimate (of one bucket), at a true total; at the worst one if none is given."""

    @abstractmethod
    def messages_per_user(self) -> float:
        """Expected, at the value that costs most."""

    def error_law(self, users: int) -> tuple[DiscreteLaplace, Fraction] | None:
        """The error's exact law and its unit where it is a discrete Laplace law; else None."""
        return None

    def forecast(self, users: int | None = None) -> RivalForecast:
        """Error and cost with so many users; with those planned for if none are given."""
        error = self.mean_squared_error(self.users if users is None else users)
        return RivalForecast(float(error**0.5), self.messages_per_user(), self.bits_per_message)

    def check_batch(self, users: int) -> None:
        """Refuses a number of users that the analyzer cannot take."""
        return


class Counter(Rival):
    """A rival that counts users with the value 1."""

    query: ClassVar[Query] = "count"

    @abstractmethod
    def draw(self, ones: int, users: int, entropy: Entropy = SYSTEM) -> Counts:
        """The counts of a bag, when `ones` of the users hold 1."""

    @abstractmethod
    def estimate(self, counts: Counts, users: int) -> float:
        """The unbiased estimate of how many hold 1."""

    @abstractmethod
    def messages(self, value: int) -> float:
        """Expected messages of a user that holds `value`."""

    def aggregate(self, values: NDArray[Any], entropy: Entropy = SYSTEM) -> Bag:
        bits = whole_values(values, 1)
        counts = self.draw(int(bits.sum()), bits.size, entropy)
        return Bag(bits.size, counts, entropy.seeded)

    def analyze(self, bag: Bag) -> NDArray[np.float64]:
        return np.array([self.estimate(bag.counts, bag.users)])

    def messages_per_user(self) -> float:
        return max(self.messages(0), self.messages(1))


def needs(condition: bool, reason: str) -> None:
    """Refuses a task that a rival's own conditions exclude."""
    if not condition:
        raise PlanningError(reason)
