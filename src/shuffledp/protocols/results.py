"""What the analyzer returns: estimates with everything needed to judge them.

Every result is a `Result` with its ε, its number of users, its error, its certificate, and ways to
show it (text, notebook, JSON, picture). `Estimate` is one number, `HistogramResult` one number per
label; the others are in `queries/…/result.py`.
"""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, decimals, percent, show, written
from shuffledp.protocols.frames import data_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ErrorLaw = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Errors and how likely each is."""

MOST_PRINTED, MOST_ROWS = 200, 20
"""A result with more labels than the first number prints as many as the second."""
NUMBERS = ("values", "low", "high", "joint_low", "joint_high")
"""The arrays of a result with labels, one number for each label."""
NEIGHBOURS = "replace one user's value"
"""The certificate's neighbouring relation: the change of the data that a result hides."""


WHERE_NOTE = (
    "Rows that do not fit the condition take part without saying anything, so that how many fit "
    "stays private; the number of all users is public"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(ABC):
    """The fields of every result: its privacy, its users, its error and its certificate."""

    epsilon: Fraction
    users: int
    """How many people took part."""
    rows_kept: int | None = None
    """How many rows were randomized, if a user may have several; None means one per user."""
    messages_per_user: float
    confidence: float
    """The probability with which each interval contains the true value."""
    rmse: float
    """The forecast root mean squared error at this estimate (for a histogram: its worst bucket)."""
    seeded: bool = False
    """Whether the noise was repeatable, so that the result is not private."""
    certificate: Mapping[str, Any] | None = None
    clamped: bool = False
    """Whether users' values or estimates were clipped. Estimates are then about the clipped values,
    or no longer unbiased."""
    neighbours: str = NEIGHBOURS
    where: str = ""
    """The condition on the rows; empty for all rows."""

    @property
    def reports(self) -> int:
        """How many values were randomized: one per user, or the rows that were kept."""
        return self.users if self.rows_kept is None else self.rows_kept

    @property
    def rmse_unit(self) -> str:
        """The unit printed after the RMSE; empty unless values have one."""
        return ""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The result as a JSON object."""

    @abstractmethod
    def to_frame(self, backend: str | None = None) -> Any:
        """The result as a data frame of "pandas", "polars" or "pyarrow"; by default, the first that
        is installed."""

    @abstractmethod
    def rows(self) -> list[tuple[str, float, float, float]]:
        """(name, estimate, low, high) of every number in the result."""

    def clipped_rows(self) -> list[tuple[str, float, float, float]]:
        """`rows` with each estimate clipped to possible values, as pictures and pages show it."""
        return self.rows()

    def privacy_in_words(self) -> str:
        """The kind of privacy, in words."""
        return "none: seeded" if self.seeded else "pure ε-DP in the shuffle model"

    def neighbours_in_words(self) -> str:
        """The neighbouring relation, and that it does not hide the number of users."""
        public = self.neighbours == NEIGHBOURS
        return (
            f"{self.neighbours}; how many users there are is public" if public else self.neighbours
        )

    @property
    def about(self) -> str:
        """What else the numbers depend on, in words; empty if there is nothing."""
        return WHERE_NOTE if self.where else ""

    def fields_of(self, of: type[Any], **changes: Any) -> dict[str, Any]:
        """The fields that results of a class share with this one, to make another result of the
        same release, whose guarantee is the same."""
        return {one.name: getattr(self, one.name) for one in fields(of)} | changes

    def promise(self) -> dict[str, Any]:
        """The fields of every result as a JSON object: the common part of `to_dict`."""
        return {
            "epsilon": float(self.epsilon),
            "epsilon_exact": str(self.epsilon),
            "privacy": self.privacy_in_words(),
            "users": self.users,
            **({} if self.rows_kept is None else {"rows_kept": self.rows_kept}),
            "neighbours": self.neighbours_in_words(),
            **({"where": self.where} if self.where else {}),
            "confidence": self.confidence,
            "rmse": self.rmse,
            "messages_per_user": self.messages_per_user,
            "seeded": self.seeded,
            "clamped": self.clamped,
            "certificate": None if self.certificate is None else dict(self.certificate),
        }

    def plot(self, path: str | None = None, what: str = "") -> Figure:
        """A picture of the result as a matplotlib figure, saved to a file if a path is given;
        `what` names the column in its title."""
        # Pictures are in a higher layer. pyproject.toml allows this import by name; it happens only
        # when a picture is drawn, so results do not need matplotlib.
        from shuffledp.plots.results import plot

        return plot(self, path, what)

    def texts(self) -> list[tuple[str, str, str, str]]:
        """`shown_rows` as texts, each number with as many digits as its error justifies."""
        rows = []
        for name, value, low, high in self.shown_rows():
            # An interval is about four errors wide. If it was clipped to a single possible number,
            # it says nothing about the error, but the RMSE does.
            digits = decimals((high - low) / 4 or self.rmse)
            rows.append((name, written(value, digits), written(low, digits), written(high, digits)))
        return rows

    @property
    def size(self) -> int:
        """How many numbers the result has."""
        return len(self.rows())

    def shown_rows(self) -> list[tuple[str, float, float, float]]:
        """The rows that are printed."""
        return self.clipped_rows()

    def marks(self) -> str:
        """In words, what weakens the guarantee; empty if nothing does."""
        return " [seeded: not private]" * self.seeded + " [clamped]" * self.clamped

    def __repr__(self) -> str:
        size = self.size
        if size == 1:
            name, value, low, high = self.texts()[0]
            what = f"{name} ≈ {value} in {low} … {high}"
        else:
            what = f"{size:,} numbers"
        return (
            f"<{type(self).__name__}: {what}, ε = {show(self.epsilon)}; {self.public_number()}"
            f"{self.marks()}>"
        )

    def public_number(self) -> str:
        """How many users there are, and that this number is public."""
        return f"public: {counted(self.users, 'user')}"

    def _repr_html_(self) -> str:
        """The result in a notebook: a table of its numbers, and below it the guarantee."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td>"
            + "".join(f"<td style='text-align:right'>{number}</td>" for number in numbers)
            + "</tr>"
            for name, *numbers in self.texts()
        )
        sure = percent(self.confidence)
        head = f"<tr><td></td><th>estimate</th><th colspan=2>{sure} interval</th></tr>"
        return (
            f"<table>{head}{rows}</table><p>ε = {float(self.epsilon):g}, privacy: "
            f"{html.escape(self.privacy_in_words())}; {self.public_number()}; "
            f"RMSE {self.rmse:,.4g}{self.rmse_unit}; "
            f"{self.messages_per_user:,.1f} messages per user{self.marks()}</p>"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate(Result):
    """An unbiased estimate of one number, with its interval and its guarantee.

    Noise may move the estimate outside the possible range, and clipping it would bias sums and
    means of estimates. So `value` is not clipped, `clipped` is the nearest possible number, and the
    interval contains only possible numbers.
    """

    query: str
    value: float
    low: float
    high: float
    possible: tuple[float, float] = (-math.inf, math.inf)
    """The least and the largest possible answer."""
    errors: Callable[[], ErrorLaw] | None = field(default=None, compare=False)
    """Returns the distribution of estimate − truth, for pictures."""

    def __post_init__(self) -> None:
        low, high = (clip(end, self.possible) for end in (self.low, self.high))
        for name, number in (("value", self.value + 0.0), ("low", low), ("high", high)):
            object.__setattr__(self, name, number)

    @property
    def clipped(self) -> float:
        """The estimate, or the possible answer nearest to it."""
        return clip(self.value, self.possible)

    def rows(self) -> list[tuple[str, float, float, float]]:
        return [(self.query, self.value, self.low, self.high)]

    def clipped_rows(self) -> list[tuple[str, float, float, float]]:
        return [(self.query, self.clipped, self.low, self.high)]

    def to_frame(self, backend: str | None = None) -> Any:
        """The estimate as a data frame of one row: query, estimate, clipped, low, high.

        `backend` is "pandas", "polars" or "pyarrow"; by default the first that is installed.
        """
        numbers = {
            "estimate": [self.value],
            "clipped": [self.clipped],
            "low": [self.low],
            "high": [self.high],
        }
        return data_frame({"query": [self.query]}, numbers, backend)

    def __float__(self) -> float:
        return self.value

    def clamp(self, low: float, high: float) -> Estimate:
        """The same result clipped to [low, high] and marked as clamped: it is no longer
        unbiased."""
        cut = [min(max(number, low), high) for number in (self.value, self.low, self.high)]
        return replace(self, value=cut[0], low=cut[1], high=cut[2], clamped=True)

    def to_dict(self) -> dict[str, Any]:
        """The estimate as a JSON object."""
        return {
            "query": self.query,
            "estimate": self.value,
            "clipped": self.clipped,
            "interval": [self.low, self.high],
            **self.promise(),
        }

    def __str__(self) -> str:
        ((_, value, low, high),) = self.texts()
        return (
            f"{self.query} ≈ {value}  ({percent(self.confidence)} interval {low} … {high}, "
            f"RMSE {self.rmse:,.{decimals(self.rmse)}f}{self.rmse_unit}; "
            f"ε = {float(self.epsilon):g}; {self.public_number()})"
            f"{self.marks()}"
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelledResult(Result):
    """One number for each label, each with its own interval and one for all at once."""

    labels: tuple[str | int, ...]
    values: NDArray[Any]
    low: NDArray[Any]
    high: NDArray[Any]
    """low … high: the interval of each label alone."""
    joint_low: NDArray[Any]
    joint_high: NDArray[Any]
    """joint_low … joint_high: intervals that all hold at once with this confidence."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", self.values + 0.0)
        for name in NUMBERS[1:]:  # never −0, and whole numbers stay whole
            ends = np.clip(getattr(self, name), *self.limits) + 0
            object.__setattr__(self, name, ends)

    @property
    @abstractmethod
    def limits(self) -> tuple[Any, Any]:
        """The least and the largest possible number, of all labels or of each."""

    @property
    def clipped(self) -> NDArray[np.float64]:
        """The estimates, or the possible numbers nearest to them."""
        return np.asarray(np.clip(self.values, *self.limits) + 0.0)

    def rows(self) -> list[tuple[str, float, float, float]]:
        return self._rows(self.values)

    def clipped_rows(self) -> list[tuple[str, float, float, float]]:
        return self._rows(self.clipped)

    def _rows(self, values: NDArray[np.float64]) -> list[tuple[str, float, float, float]]:
        numbers = zip(self.labels, values, self.low, self.high, strict=True)
        return [(str(label), float(v), float(low), float(high)) for label, v, low, high in numbers]

    @property
    def size(self) -> int:
        return len(self.labels)

    def top(self, rows: int = MOST_ROWS) -> list[tuple[str, float, float, float]]:
        """The `rows` largest as (label, possible estimate, low, high), largest first."""
        order, clipped = np.argsort(-self.values, kind="stable")[:rows], self.clipped
        return [
            (str(self.labels[at]), float(clipped[at]), float(self.low[at]), float(self.high[at]))
            for at in order.tolist()
        ]

    def shown_rows(self) -> list[tuple[str, float, float, float]]:
        """What is printed: all labels, or only the largest if there are very many."""
        return self.clipped_rows() if len(self.labels) <= MOST_PRINTED else self.top()

    def at(self, places: NDArray[np.int64], **changes: Any) -> Self:
        """The same result for some of the labels, by their positions."""
        labels = tuple(self.labels[place] for place in places.tolist())
        numbers = {name: getattr(self, name)[places] for name in NUMBERS}
        return replace(self, **{"labels": labels, **numbers, **changes})

    def _columns(self) -> dict[str, list[Any]]:
        """All numbers, for data frames."""
        numbers = {"estimate": self.values, "clipped": self.clipped}
        numbers |= {name: getattr(self, name) for name in NUMBERS[1:]}
        return {name: column.tolist() for name, column in numbers.items()}

    def _listed(self) -> list[dict[str, Any]]:
        """A JSON object for each label."""
        return [
            {
                "label": label,
                "estimate": value,
                "clipped": clipped,
                "interval": [low, high],
                "joint_interval": [joint_low, joint_high],
            }
            for label, value, clipped, low, high, joint_low, joint_high in zip(
                self.labels, *self._columns().values(), strict=True
            )
        ]

    def _table(self, head: str, rows: list[tuple[str, str, str, str]], things: str) -> str:
        """The result for a terminal: `rows` of (label, estimate, low, high) as texts."""
        width = max(len(label) for label, *_ in rows)
        lines = [
            f"{label:>{width}}  {value:>14}   {low} … {high}" for label, value, low, high in rows
        ]
        if len(rows) < len(self.labels):
            lines.append(f"the {len(rows)} largest of {len(self.labels):,} {things}")
        return "\n".join([head, *lines])

    def clamp(self, low: float, high: float) -> Self:
        """The same result clipped to [low, high] and marked as clamped: it is no longer
        unbiased."""
        cut = {name: np.clip(getattr(self, name), low, high) for name in NUMBERS}
        return replace(self, clamped=True, **cut)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HistogramResult(LabelledResult):
    """Unbiased estimates of all buckets, each with its own interval and one for all at once.

    Noise may move estimates below 0 or above the number of users; `clipped` has the nearest
    possible counts, and intervals contain only possible counts.
    """

    query: str = "histogram"

    @property
    def limits(self) -> tuple[int, int]:
        """A count is that of no user or of all."""
        return 0, self.reports

    def __getitem__(self, label: str | int) -> tuple[float, int, int]:
        """(estimate, low, high) of one label."""
        place = self._places.get(label)
        if place is None:
            raise ParameterError("This is not one of the labels; `labels` lists them.")
        return float(self.values[place]), int(self.low[place]), int(self.high[place])

    @cached_property
    def _places(self) -> dict[str | int, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def to_frame(self, backend: str | None = None) -> Any:
        """The buckets as a data frame: label, estimate, clipped, low, high, joint_low, joint_high.

        `backend` is "pandas", "polars" or "pyarrow"; by default the first that is installed.
        """
        mixed = len({type(label) for label in self.labels}) > 1
        labels: list[Any] = [str(label) if mixed else label for label in self.labels]
        return data_frame({"label": labels}, self._columns(), backend)

    def to_dict(self) -> dict[str, Any]:
        """The histogram as a JSON object."""
        buckets = self._listed()
        for bucket in buckets:  # counts are whole, also where `clamp` was given a float
            for name in ("interval", "joint_interval"):
                bucket[name] = [int(end) for end in bucket[name]]
        return {"query": self.query, "buckets": buckets, **self.promise()}

    def __str__(self) -> str:
        # counts are whole numbers, and so are the ends of their intervals
        digits = min(decimals(self.rmse), 1)
        rows = [
            (label, f"{value:,.{digits}f}", f"{low:,.0f}", f"{high:,.0f}")
            for label, value, low, high in self.shown_rows()
        ]
        head = (
            f"{self.query}, ε = {float(self.epsilon):g}, {percent(self.confidence)} intervals, "
            f"RMSE {self.rmse:,.{decimals(self.rmse)}f} per bucket; {self.public_number()}"
            f"{self.marks()}"
        )
        return self._table(head, rows, "buckets")


def whole_intervals(
    values: NDArray[np.float64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Intervals widened to contain the estimates, which are not whole numbers."""
    below, above = (edge(values).astype(np.int64) for edge in (np.floor, np.ceil))
    return np.minimum(low, below), np.maximum(high, above)


def clip(number: float, possible: tuple[float, float]) -> float:
    """The number, or the possible one nearest to it; never −0."""
    return min(max(number, possible[0]), possible[1]) + 0.0
