"""A plan: a protocol, the proof that it is private, and what it will cost and give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.planning.target import Target
from shuffledp.privacy.certificate import Certificate
from shuffledp.protocols.base import Progress, Protocol
from shuffledp.protocols.report import Report, View
from shuffledp.protocols.report_size import report_size
from shuffledp.protocols.results import NEIGHBOURS

ENCRYPTED_BYTES = 52  # one message sealed with HPKE: 32 (key) + 4 (payload) + 16 (tag)


@dataclass(frozen=True)
class Forecast:
    """What a plan will cost and how well it will do, computed, not measured."""

    messages_per_user: float
    """Expected, for a user with the largest value: an upper bound for all."""
    limit_messages: float
    """What the same error would cost if the flood were free: for counts and histograms nothing
    in this family is cheaper (MATH §3); for larger values it is the planner's own limit."""
    rmse: float
    """At the worst true value."""
    rmse_at_zero: float
    """Where nobody holds anything: noise alone."""
    central_rmse: float
    """Of the central mechanism with the same ε, which trusts one party with all raw data."""
    error_low: float
    """95 % of errors lie between error_low …"""
    error_high: float
    """… and error_high, at the worst true value."""
    bits_per_message: int = 1

    @property
    def bytes_per_user(self) -> float:
        """The messages' bare bits."""
        return self.messages_per_user * self.bits_per_message / 8


@dataclass(frozen=True)
class Plan:
    """Everything a deployment needs: who may run it, at what cost, with what promise."""

    protocol: Any
    certificate: Certificate
    target: Target
    expected: int
    forecast: Forecast
    printed: dict[str, Any] | None = None
    """The same task with the paper's printed constants, where they apply."""

    @property
    def epsilon(self) -> Fraction:
        return self.certificate.epsilon

    @property
    def users(self) -> int:
        return self.certificate.protocol.users

    @cached_property
    def report_size(self) -> int:
        """K: what every report of the service carries in batches of `users`, so that its size says
        nothing; larger batches may need a few more."""
        return report_size(self._protocol.uses, self.users)

    @property
    def encrypted_bytes(self) -> int:
        """A padded report's messages, each encrypted for the analyzer on its own."""
        return self.report_size * ENCRYPTED_BYTES

    @cached_property
    def _proof(self) -> dict[str, Any]:
        return self.certificate.to_dict()

    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Report:
        """One user's report."""
        return self._protocol.randomize(value, entropy)

    def randomize_all(
        self, values: Any, entropy: Entropy = SYSTEM, progress: Progress | None = None
    ) -> Report:
        """Many users' reports, each randomized on its own, added up."""
        return self._protocol.randomize_all(values, entropy, progress)

    def aggregate(self, values: Any, entropy: Entropy = SYSTEM) -> Report:
        """Many users' reports drawn in one go: the same law, at hardly any cost."""
        return self._protocol.aggregate(values, entropy)

    def release(self, batch: Report) -> View:
        """The public view of a batch, refused below `users` reports."""
        return self._protocol.release(batch)

    def analyze(self, view: View, confidence: float = 0.95) -> Any:
        """The estimate, with interval and certificate."""
        if not 0 < confidence < 1:
            raise ParameterError("confidence must lie strictly between 0 and 1, for example 0.95.")
        return replace(self.protocol.analyze(view, confidence), certificate=self._proof)

    def run(self, values: Any, entropy: Entropy = SYSTEM, confidence: float = 0.95) -> Any:
        """The whole protocol on values that one process holds anyway."""
        return self.analyze(self.release(self.aggregate(values, entropy)), confidence)

    @property
    def _protocol(self) -> Protocol:
        protocol: Protocol = self.protocol
        return protocol

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON can hold it."""
        forecast = self.forecast
        return {
            "query": self.protocol.query,
            "epsilon": float(self.epsilon),
            "epsilon_exact": str(self.epsilon),
            "privacy": "pure ε-DP in the shuffle model",
            "neighbours": NEIGHBOURS,
            "users": self.users,
            "expected_users": self.expected,
            "target": self.target.to_dict(),
            "messages_per_user": forecast.messages_per_user,
            "limit_messages_per_user": forecast.limit_messages,
            "bits_per_message": forecast.bits_per_message,
            "bytes_per_user": forecast.bytes_per_user,
            "report_size": self.report_size,
            "encrypted_bytes": self.encrypted_bytes,
            "rmse": forecast.rmse,
            "rmse_at_zero": forecast.rmse_at_zero,
            "central_rmse": forecast.central_rmse,
            "interval_95": [forecast.error_low, forecast.error_high],
            "printed_constants": self.printed,
            "certificate": self._proof,
        }
