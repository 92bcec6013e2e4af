"""What a baseline gives: a `Result` that carries the protocol's own privacy claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from shuffledp.baselines.claim import TRUSTED, Claim
from shuffledp.errors import ParameterError
from shuffledp.protocols.results import Estimate, HistogramResult, Result

IntervalKind = Literal["exact", "normal approximation"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BaselineResult(Result):
    """A baseline's result also says which protocol gave it, and under which claim."""

    protocol: str
    """The protocol's name, as `shuffledp compare` lists it."""
    title: str
    """The protocol's name in tables and pictures."""
    claim: Claim
    interval_kind: IntervalKind
    """How the intervals were made."""
    bits_per_message: int

    def __post_init__(self) -> None:
        if self.epsilon != self.claim.epsilon:
            raise ParameterError("A result's ε must be the ε of its privacy claim.")

    def privacy_in_words(self) -> str:
        return super().privacy_in_words() if self.seeded else self.claim.in_words()

    def promise(self) -> dict[str, Any]:
        """What `Result.promise` gives, and the protocol with its claim, as JSON can hold it."""
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
