"""A plan: a protocol, the proof that it is private, and its expected cost and error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

from shuffledp.cells.base import MOST_USERS
from shuffledp.cells.report_size import promise
from shuffledp.documents.json_text import read_json_file
from shuffledp.documents.schema import (
    Anything,
    Either,
    Flag,
    Listing,
    Nothing,
    OneOf,
    Rational,
    Real,
    Record,
    Whole,
)
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import counted, show, whole
from shuffledp.plans.certificate import CERTIFICATE, SENTENCE, Certificate, certify, verify
from shuffledp.plans.checks import checked_size
from shuffledp.plans.target import Target
from shuffledp.protocols.base import Progress, Protocol, R, R_co
from shuffledp.protocols.report import ENCRYPTED_MESSAGE_BYTES, Report, View
from shuffledp.protocols.results import NEIGHBOURS, Result

PLAN_FORMAT = "shuffledp plan 2"
TARGET_NUMBER = Rational(Fraction(0), Fraction(10**30))
NAMED_NUMBERS = (
    "messages_per_user",
    "bits_per_message",
    "rmse",
    "rmse_at_zero",
    "central_rmse",
)

TARGET = Record(
    {},
    {
        "mse_overhead": TARGET_NUMBER,
        "rmse": TARGET_NUMBER,
        "max_messages": TARGET_NUMBER,
        "relative_error": TARGET_NUMBER,
        "error_at": TARGET_NUMBER,
        "padded": Flag(),
    },
)
PLAN = Record(
    {
        "format": OneOf((PLAN_FORMAT,)),
        "expected_users": Whole(1, MOST_USERS),
        "target": TARGET,
        "interval_95": Listing(Real(), 2, 2),
        "certificate": CERTIFICATE,
        "limit_messages_per_user": Either((Real(), Nothing())),
        **{name: Real() for name in NAMED_NUMBERS},
    },
    {"rmse_at": Either((Nothing(), Real()))},
    others=Anything(),
)
"""The JSON schema of a plan."""
PRINTED = Record({"messages_per_user": Real(), "rmse": Real(), "keeps_its_error": Flag()})
REFUSED = Record({"refused": SENTENCE})
"""What a plan says about the paper's printed constants."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The cost and the error of a plan, computed rather than measured."""

    messages_per_user: float
    """The expected number for a user with the largest value: an upper bound for all users."""
    limit_messages: float | None
    """A proved lower bound for this design with the same losses and the same error
    (docs/mathematics.md §3 and §12); None if none is known."""
    rmse: float
    """At the worst true value."""
    rmse_at_zero: float
    """RMSE when the true answer is 0: noise alone."""
    central_rmse: float
    """RMSE of the central mechanism with the same ε, which trusts one party with all raw data."""
    error_low: float
    """95 % of errors lie between error_low …"""
    error_high: float
    """… and error_high, at the worst true value."""
    bits_per_message: int = 1
    rmse_at: float | None = None
    """RMSE at the target's count; None if the target names none."""

    @classmethod
    def of(
        cls,
        protocol: Protocol[Result],
        users: int,
        *,
        central_rmse: float,
        error_at: Fraction | None = None,
    ) -> Forecast:
        """The cost and the error of a protocol with `users` reports."""
        messages = protocol.messages_per_user()
        checked_size(users * messages)
        low, high = protocol.error_range(users, 0.05)
        return cls(
            messages_per_user=messages,
            limit_messages=protocol.fewest_messages(),
            rmse=protocol.rmse(users),
            rmse_at_zero=protocol.rmse_at_zero(users),
            central_rmse=central_rmse,
            error_low=low,
            error_high=high,
            bits_per_message=protocol.bits_per_message,
            rmse_at=None if error_at is None else protocol.rmse_at(users, error_at),
        )

    @property
    def bytes_per_user(self) -> float:
        """The bits of the messages alone."""
        return self.messages_per_user * self.bits_per_message / 8


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Generic[R_co]):
    """Everything a deployment needs: the protocol, its proof, and its cost and error."""

    protocol: Protocol[R_co]
    certificate: Certificate
    target: Target
    expected: int
    """The number of reports for which the error is forecast."""
    forecast: Forecast
    printed: Mapping[str, Any] | None = None
    """The same task with the paper's printed constants, if they apply."""

    @staticmethod
    def of(
        protocol: Protocol[R],
        target: Target,
        expected: int,
        *,
        central_rmse: float,
        printed: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Plan[R]:
        """The last steps of every planner: decides exactly whether a protocol is private, and
        forecasts its cost and error with `expected` reports.

        Ensures: raises unless the protocol is certified.
        """
        return Plan(
            protocol=protocol,
            forecast=Forecast.of(
                protocol, expected, central_rmse=central_rmse, error_at=target.error_at
            ),
            certificate=certify(protocol, progress),
            target=target,
            expected=expected,
            printed=printed,
        )

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of taking part."""
        return self.certificate.epsilon

    @property
    def users(self) -> int:
        """How many reports a release needs."""
        return self.protocol.users

    @property
    def padding(self) -> str:
        """How reports of the service are padded."""
        return self.protocol.padding

    @cached_property
    def report_size(self) -> int:
        """K: the number of messages in every report of the service, so that its size reveals
        nothing. It is for batches of `users`; larger ones may need a few more."""
        return self.protocol.report_size(self.users)

    @property
    def encrypted_bytes(self) -> int:
        """A padded report's messages, each encrypted separately for the analyzer."""
        return self.report_size * ENCRYPTED_MESSAGE_BYTES

    @cached_property
    def _proof(self) -> dict[str, Any]:
        return self.certificate.to_dict()

    def renewed(self, entropy: Entropy = SYSTEM) -> Plan[R_co]:
        """The same plan with fresh public random choices of the protocol."""
        protocol = self.protocol.renewed(entropy)
        return replace(
            self, protocol=protocol, certificate=replace(self.certificate, protocol=protocol)
        )

    def randomize(self, value: Any, entropy: Entropy = SYSTEM) -> Report:
        """One user's report, made on the device."""
        return self.protocol.randomize(value, entropy)

    def randomize_all(
        self, values: Any, entropy: Entropy = SYSTEM, progress: Progress | None = None
    ) -> Report:
        """Many users' reports, each randomized independently, added up."""
        return self.protocol.randomize_all(values, entropy, progress)

    def aggregate(self, values: Any, entropy: Entropy = SYSTEM) -> Report:
        """Many users' reports drawn at once, from the same distribution but much faster."""
        return self.protocol.aggregate(values, entropy)

    def release(self, batch: Report) -> View:
        """The public view of a batch; refuses fewer than `users` reports."""
        return self.protocol.release(batch)

    def analyze(self, view: View, confidence: float = 0.95) -> R_co:
        """The result, with intervals and certificate."""
        return replace(self.protocol.analyze(view, confidence), certificate=self._proof)

    def run(self, values: Any, entropy: Entropy = SYSTEM, confidence: float = 0.95) -> R_co:
        """Runs the whole protocol in this process, on values that you already hold."""
        return self.analyze(self.release(self.aggregate(values, entropy)), confidence)

    # For people

    def __repr__(self) -> str:
        return (
            f"<Plan: {self.protocol.query}, ε = {show(self.epsilon)}, "
            f"{counted(self.users, 'user')}, {self.forecast.messages_per_user:,.1f} messages per "
            f"user, RMSE {self.forecast.rmse:,.4g}>"
        )

    def __str__(self) -> str:
        """The plan in words, for a terminal."""
        from shuffledp.plans.text import plan_in_words  # imports this module

        return plan_in_words(self)

    def _repr_html_(self) -> str:
        """The plan as a table, for a notebook."""
        from shuffledp.plans.text import plan_as_html

        return plan_as_html(self)

    # As JSON

    def to_dict(self) -> dict[str, Any]:
        """The plan as a JSON object; `from_dict` reads it back."""
        forecast = self.forecast
        return {
            "format": PLAN_FORMAT,
            "query": self.protocol.query,
            "epsilon": float(self.epsilon),
            "epsilon_exact": str(self.epsilon),
            "privacy": "pure ε-DP in the shuffle model",
            "privacy_of_padded_reports": promise(self.padding),
            "neighbours": NEIGHBOURS,
            "users": self.users,
            "expected_users": self.expected,
            "target": self.target.to_dict(),
            "cells": sorted({member.cell.kind for member in self.protocol.members}),
            "messages_per_user": forecast.messages_per_user,
            "limit_messages_per_user": forecast.limit_messages,
            "bits_per_message": forecast.bits_per_message,
            "bytes_per_user": forecast.bytes_per_user,
            "report_size": self.report_size,
            "padding": self.padding,
            "encrypted_bytes": self.encrypted_bytes,
            "rmse": forecast.rmse,
            "rmse_at_zero": forecast.rmse_at_zero,
            **({} if forecast.rmse_at is None else {"rmse_at": forecast.rmse_at}),
            "central_rmse": forecast.central_rmse,
            "interval_95": [forecast.error_low, forecast.error_high],
            **self.protocol.further_forecast(self.expected),
            "printed_constants": self.printed,
            "certificate": self._proof,
        }

    @staticmethod
    def from_dict(data: object) -> Plan[Result]:
        """The plan from `to_dict`; proves its certificate again.

        Ensures: raises unless the parameters are private. The forecast is not checked.
        """
        if not isinstance(data, dict) or data.get("format") != PLAN_FORMAT:
            raise ParameterError(
                f"This is not a plan: its format must be {PLAN_FORMAT!r}; "
                "use a file that `shuffledp plan … --output` wrote."
            )
        PLAN.check(data, "plan")
        certificate = verify(data)
        try:
            printed = data.get("printed_constants")
            if printed is not None:
                (REFUSED if "refused" in printed else PRINTED).check(printed, "printed_constants")
            low, high = data["interval_95"]
            names = {"limit_messages": "limit_messages_per_user"}
            known = {
                field.name: data[names.get(field.name, field.name)]
                for field in fields(Forecast)
                if field.name not in ("error_low", "error_high", "rmse_at")
            }
            return Plan(
                protocol=certificate.protocol,
                certificate=certificate,
                target=Target.from_dict(data["target"]),
                expected=whole(data["expected_users"], "expected_users"),
                forecast=Forecast(
                    error_low=low, error_high=high, rmse_at=data.get("rmse_at"), **known
                ),
                printed=printed,
            )
        except (KeyError, TypeError, ValueError):
            raise ParameterError(
                "The plan is incomplete or malformed; get a new copy from its author."
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickled plan is proved again when it is loaded, like one in a file."""
        return Plan.from_dict, (self.to_dict(),)

    def save(self, path: str | Path) -> None:
        """Writes the plan as JSON."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False), "utf-8")
        except OSError as error:
            raise ParameterError(
                f"{path} cannot be written ({error.strerror}); choose a folder you may write to."
            ) from None

    @staticmethod
    def load(path: str | Path) -> Plan[Result]:
        """The plan from a file; proves its certificate again."""
        return Plan.from_dict(read_json_file(path))
