"""The target of a plan: an error, perhaps with a relative tolerance, or a number of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypedDict

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import (
    ExactNumber,
    as_fraction,
    at_precision,
    positive_as_written,
    show,
    whole,
)
from shuffledp.numbers.laws import DiscreteLaplace

DEFAULT_OVERHEAD = Fraction(1, 2)
DEFAULT_MESSAGES = 25
"""Messages in a padded report if only `error_at` is given."""


class TargetOptions(TypedDict, total=False):
    """What most planners take as keywords; `plan_count` explains them."""

    mse_overhead: ExactNumber | None
    rmse: ExactNumber | None
    relative_error: ExactNumber | None
    max_messages: ExactNumber | None
    padded: bool


@dataclass(frozen=True, kw_only=True)
class Target:
    """Exactly one of the first three is set or, to find the least ε, `rmse` and `max_messages`.
    `relative_error` may be combined with the first two."""

    mse_overhead: Fraction | None = None
    rmse: Fraction | None = None
    max_messages: Fraction | None = None
    relative_error: Fraction | None = None
    error_at: Fraction | None = None
    """The true count of a bucket at which the error is measured, instead of the worst case."""
    padded: bool = False
    """Whether a report's messages are counted after padding, or on average before it."""

    @classmethod
    def of(
        cls,
        mse_overhead: ExactNumber | None = None,
        rmse: ExactNumber | None = None,
        max_messages: ExactNumber | None = None,
        relative_error: ExactNumber | None = None,
        padded: bool = False,
        error_at: ExactNumber | None = None,
        *,
        least_epsilon: bool = False,
    ) -> Target:
        """The target from a caller's numbers; ρ = ½ by default, and with `error_at` the
        least error with 25 messages in a padded report. With `least_epsilon`, both `rmse` and
        `max_messages` are set, and a plan looks for the least ε."""
        if error_at is not None:
            if mse_overhead is not None or relative_error is not None:
                raise ParameterError(
                    "error_at can be combined with max_messages or rmse, not with mse_overhead or "
                    "relative_error; drop one."
                )
            if rmse is None and max_messages is None:
                max_messages, padded = DEFAULT_MESSAGES, True
        given = [
            name
            for name, value in (
                ("mse_overhead", mse_overhead),
                ("rmse", rmse),
                ("max_messages", max_messages),
            )
            if value is not None
        ]
        if len(given) > 1 and not (least_epsilon and mse_overhead is None):
            raise ParameterError(
                f"{' and '.join(given)} cannot be combined; choose one of them (rmse and "
                "max_messages can be combined only if epsilon is left out)."
            )
        if max_messages is not None and relative_error is not None:
            raise ParameterError("relative_error cannot be combined with max_messages; drop one.")
        if not given:
            mse_overhead = DEFAULT_OVERHEAD
        return cls(
            mse_overhead=_number(mse_overhead, "mse_overhead"),
            rmse=_number(rmse, "rmse"),
            max_messages=_number(max_messages, "max_messages"),
            relative_error=_number(relative_error, "relative_error"),
            error_at=None if error_at is None else Fraction(whole(error_at, "error_at", least=0)),
            padded=padded,
        )

    @property
    def messages(self) -> float | None:
        """The most messages allowed, if the error is minimised for them; otherwise None."""
        return None if self.max_messages is None else float(self.max_messages)

    def mse(self, central_variance: Fraction, scale: Fraction = Fraction(1)) -> Fraction:
        """The mean squared error allowed: (1+ρ) times the central mechanism's, or rmse² (with rmse
        in units of `scale`). If the error is to be minimised, it is 1 and has no meaning."""
        if self.rmse is not None:
            return (self.rmse / scale) ** 2
        if self.mse_overhead is None:
            return Fraction(1)
        return (1 + self.mse_overhead) * central_variance

    def to_dict(self) -> dict[str, Any]:
        """The target as a JSON object, with numbers as exact text."""
        asked = {
            name: str(value) for name, value in vars(self).items() if isinstance(value, Fraction)
        }
        return asked | ({"padded": True} if self.padded else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Target:
        """The target that `to_dict` describes."""
        return cls.of(**data, least_epsilon={"rmse", "max_messages"} <= set(data))

    def __str__(self) -> str:
        words = {
            "mse_overhead": "MSE at most 1 + {} times the central optimum",
            "rmse": "RMSE at most {}",
            "max_messages": "best error with at most {} messages per user",
            "relative_error": "or within {} of the true value, whichever is larger",
            "error_at": "error counted at a bucket of {} users",
            "padded": "messages counted after padding",
        }
        given = {name: value for name, value in vars(self).items() if value not in (None, False)}
        if self.rmse is not None and self.max_messages is not None:
            words["max_messages"] = "at most {} messages per user, with the least epsilon for both"
        return ", ".join(
            words[name].format(show(value) if isinstance(value, Fraction) else value)
            for name, value in given.items()
        )


def _number(value: ExactNumber | None, name: str) -> Fraction | None:
    return None if value is None else positive_as_written(value, name)


def laplace_variance(decay: Fraction) -> Fraction:
    """Var(DLap(decay)), from below by less than 2⁻¹⁰⁰ of it: the yardstick for counts."""
    return as_fraction(at_precision(128, lambda: DiscreteLaplace(decay).variance().lower()))
