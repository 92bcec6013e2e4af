"""What the analyzer gives: estimates with everything that is needed to judge them.

Every result is a `Result`: which ε and how many users it stands for, its error, its certificate,
and ways to show it (text, notebook, JSON, picture). `Estimate` is one number, `HistogramResult`
one number per label; `quantiles_result.QuantilesResult` is the third.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, decimals, percent, show
from shuffledp.protocols.frames import data_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ErrorLaw = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Errors and how likely each is."""

MOST_PRINTED, MOST_ROWS = 200, 20
"""Of a histogram with more buckets than the first number, as many as the second are printed."""
NEIGHBOURS = "replace one user's value"
"""Which change of the data a result hides: the certificate's neighbouring relation."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(ABC):
    """What every result carries: its privacy, its users, its error and its certificate."""

    epsilon: Fraction
    users: int
    """How many reports are in it."""
    messages_per_user: float
    confidence: float
    """How likely each interval holds the true value."""
    rmse: float
    """The forecast root mean squared error, at this estimate (of a histogram: its worst bucket)."""
    seeded: bool = False
    """Whether the noise was repeatable, so that the result is not private."""
    certificate: Mapping[str, Any] | None = None
    clamped: bool = False
    """Whether users' values or estimates were moved to what is possible: estimates are then not of
    the values as they were, or no longer unbiased."""
    neighbours: str = NEIGHBOURS

    @property
    def rmse_unit(self) -> str:
        """What follows the RMSE in print: nothing, unless values have a unit."""
        return ""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The result as JSON can hold it."""

    @abstractmethod
    def rows(self) -> list[tuple[str, float, float, float]]:
        """(name, estimate, low, high) of every number in the result."""

    def privacy_in_words(self) -> str:
        """What kind of privacy the result has, in words."""
        return "none: seeded" if self.seeded else "pure ε-DP in the shuffle model"

    @property
    def about(self) -> str:
        """What the numbers rest on beyond the promise, in words; empty where there is nothing."""
        return ""

    def promise(self) -> dict[str, Any]:
        """What every result carries, as JSON can hold it: the common part of `to_dict`."""
        return {
            "epsilon": float(self.epsilon),
            "epsilon_exact": str(self.epsilon),
            "privacy": self.privacy_in_words(),
            "users": self.users,
            "neighbours": self.neighbours,
            "confidence": self.confidence,
            "rmse": self.rmse,
            "messages_per_user": self.messages_per_user,
            "seeded": self.seeded,
            "clamped": self.clamped,
            "certificate": None if self.certificate is None else dict(self.certificate),
        }

    def plot(self, path: str | None = None) -> Figure:
        """A picture of the result as a matplotlib figure, saved to a file if a path is given."""
        # Pictures lie above this room. This one import upwards, allowed by name in pyproject.toml,
        # waits until somebody asks for a picture, so that results do not need matplotlib.
        from shuffledp.plots.results import plot

        return plot(self, path)

    def texts(self) -> list[tuple[str, str, str, str]]:
        """`shown_rows` as texts, each number with the digits that its error deserves."""
        return [
            (name, _text(value, low, high), _text(low, low, high), _text(high, low, high))
            for name, value, low, high in self.shown_rows()
        ]

    @property
    def size(self) -> int:
        """How many numbers the result has."""
        return len(self.rows())

    def shown_rows(self) -> list[tuple[str, float, float, float]]:
        """The rows that are printed."""
        return self.rows()

    def marks(self) -> str:
        """What weakens the promise, in words; empty if nothing does."""
        return " [seeded: not private]" * self.seeded + " [clamped]" * self.clamped

    def __repr__(self) -> str:
        size = self.size
        if size == 1:
            name, value, low, high = self.texts()[0]
            what = f"{name} ≈ {value} in {low} … {high}"
        else:
            what = f"{size:,} numbers"
        return (
            f"<{type(self).__name__}: {what}, ε = {show(self.epsilon)}, "
            f"{counted(self.users, 'user')}{self.marks()}>"
        )

    def _repr_html_(self) -> str:
        """The result in a notebook: its numbers as a table, its promise below."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td>"
            + "".join(f"<td style='text-align:right'>{number}</td>" for number in numbers)
            + "</tr>"
            for name, *numbers in self.texts()
        )
        sure = percent(self.confidence)
        head = f"<tr><th></th><th>estimate</th><th colspan=2>{sure} interval</th></tr>"
        return (
            f"<table>{head}{rows}</table><p>ε = {float(self.epsilon):g}, privacy: "
            f"{html.escape(self.privacy_in_words())}; {counted(self.users, 'user')}; "
            f"RMSE {self.rmse:,.4g}{self.rmse_unit}; "
            f"{self.messages_per_user:,.1f} messages per user{self.marks()}</p>"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Result):
    """An unbiased estimate of one number, with its interval and its promise."""

    query: str
    value: float
    low: float
    high: float
    errors: Callable[[], ErrorLaw] | None = field(default=None, compare=False)
    """Gives the law of estimate − truth, for pictures."""

    def rows(self) -> list[tuple[str, float, float, float]]:
        return [(self.query, self.value, self.low, self.high)]

    def __float__(self) -> float:
        return self.value

    def clamp(self, low: float, high: float) -> Estimate:
        """The same result cut to [low, high] and marked as clamped: it is no longer unbiased."""
        cut = [min(max(number, low), high) for number in (self.value, self.low, self.high)]
        return replace(self, value=cut[0], low=cut[1], high=cut[2], clamped=True)

    def to_dict(self) -> dict[str, Any]:
        """The estimate as JSON can hold it."""
        return {
            "query": self.query,
            "estimate": self.value,
            "interval": [self.low, self.high],
            **self.promise(),
        }

    def __str__(self) -> str:
        ((_, value, low, high),) = self.texts()
        return (
            f"{self.query} ≈ {value}  ({percent(self.confidence)} interval {low} … {high}, "
            f"RMSE {self.rmse:,.{decimals(self.rmse)}f}{self.rmse_unit}; "
            f"ε = {float(self.epsilon):g}, {counted(self.users, 'user')})"
            f"{self.marks()}"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HistogramResult(Result):
    """Unbiased estimates of all buckets, each with its own interval and one for all at once."""

    labels: tuple[str | int, ...]
    values: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    """low … high: each bucket's interval on its own."""
    joint_low: NDArray[np.int64]
    joint_high: NDArray[np.int64]
    """joint_low … joint_high: intervals that all hold at once with this confidence."""
    query: str = "histogram"

    def rows(self) -> list[tuple[str, float, float, float]]:
        return [self._row(place) for place in range(len(self.labels))]

    def _row(self, place: int) -> tuple[str, float, float, float]:
        numbers = (float(side[place]) for side in (self.values, self.low, self.high))
        value, low, high = numbers
        return str(self.labels[place]), value, low, high

    @property
    def size(self) -> int:
        return len(self.labels)

    def top(self, rows: int = MOST_ROWS) -> list[tuple[str, float, float, float]]:
        """The `rows` largest buckets as (label, estimate, low, high), largest first."""
        order = np.argsort(-self.values, kind="stable")[:rows]
        return [self._row(int(place)) for place in order]

    def __getitem__(self, label: str | int) -> tuple[float, int, int]:
        """(estimate, low, high) of one label."""
        place = self._places.get(label)
        if place is None:
            raise ParameterError("This is none of the labels; `labels` lists them.")
        return float(self.values[place]), int(self.low[place]), int(self.high[place])

    @cached_property
    def _places(self) -> dict[str | int, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def shown_rows(self) -> list[tuple[str, float, float, float]]:
        """What is printed: all buckets, or the largest ones where there are very many."""
        return self.rows() if len(self.labels) <= MOST_PRINTED else self.top()

    def clamp(self, low: float, high: float) -> HistogramResult:
        """The same result cut to [low, high] and marked as clamped: it is no longer unbiased."""
        names = ("values", "low", "high", "joint_low", "joint_high")
        cut = {name: np.clip(getattr(self, name), low, high) for name in names}
        return replace(self, clamped=True, **cut)

    def to_frame(self, backend: str | None = None) -> Any:
        """The buckets as a data frame: label, estimate, low, high, joint_low, joint_high.

        `backend` is "pandas", "polars" or "pyarrow"; the first that is installed unless said.
        """
        mixed = len({type(label) for label in self.labels}) > 1
        columns: dict[str, list[Any]] = {
            "label": [str(label) if mixed else label for label in self.labels],
            "estimate": self.values.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "joint_low": self.joint_low.tolist(),
            "joint_high": self.joint_high.tolist(),
        }
        return data_frame(columns, backend)

    def to_dict(self) -> dict[str, Any]:
        """The histogram as JSON can hold it."""
        rows = zip(
            self.labels,
            self.values,
            self.low,
            self.high,
            self.joint_low,
            self.joint_high,
            strict=True,
        )
        return {
            "query": self.query,
            "buckets": [
                {
                    "label": label,
                    "estimate": float(value),
                    "interval": [int(low), int(high)],
                    "joint_interval": [int(joint_low), int(joint_high)],
                }
                for label, value, low, high, joint_low, joint_high in rows
            ],
            **self.promise(),
        }

    def __str__(self) -> str:
        # counts are whole numbers, and so are the ends of their intervals
        digits = min(decimals(self.rmse), 1)
        rows = self.shown_rows()
        width = max(len(label) for label, *_ in rows)
        lines = [
            f"{label:>{width}}  {value:>14,.{digits}f}   {low:,.0f} … {high:,.0f}"
            for label, value, low, high in rows
        ]
        if len(rows) < len(self.labels):
            lines.append(f"the {len(rows)} largest of {len(self.labels):,} buckets")
        head = (
            f"{self.query} of {counted(self.users, 'user')}, ε = {float(self.epsilon):g}, "
            f"{percent(self.confidence)} intervals, RMSE {self.rmse:,.{decimals(self.rmse)}f} "
            f"per bucket{self.marks()}"
        )
        return "\n".join([head, *lines])


def _text(number: float, low: float, high: float) -> str:
    """A number with the digits that its interval deserves, which is about four errors wide."""
    return f"{number:,.{decimals((high - low) / 4)}f}"
