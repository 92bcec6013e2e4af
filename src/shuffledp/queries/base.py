"""A query: what is asked about a column of values, independent of where it runs.

A query is declared once, as a class: its name, its arguments with their meanings, its example, its
planner, its protocol, the JSON of both, its true answer, and its words in the studio. The Python
call and its help (`queries/calls.py`), the commands (`cli/query.py`, `cli/plan.py`), the studio's
form and the glossary are made from this declaration. Engines (`shuffledp.engines`) run it.
"""

from __future__ import annotations

import datetime as dt
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.documents.schema import Record, Schema
from shuffledp.errors import ParameterError
from shuffledp.plans.plan import Plan
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.results import Estimate, Result
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import RUN_DEFAULTS, TARGETS, Option, QueryOptions

if TYPE_CHECKING:
    from shuffledp.queries.by_group.groups import Groups

R = TypeVar("R", bound=Result)
Class = TypeVar("Class", bound="type[Query[Any]]")


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Which values an engine may count together before preparing and encoding them."""

    largest: int | None = None
    """Only whole numbers 0..largest are allowed, so all others may be counted as one value; None
    means that only equal values are counted together."""
    clamp: bool = False
    """Clip numbers to 0..largest."""
    few_values: bool = True
    """Whether only few different values can remain, so that one task can process all of them."""


@dataclass(frozen=True)
class KeptBounds:
    """Where the values of rows that `where` keeps must lie."""

    low: float
    high: float
    clamp: bool
    """Whether others are clipped, not refused."""


@dataclass(frozen=True, kw_only=True)
class BaselineArguments:
    """The same query as arguments of `shuffledp.baselines.run`."""

    query: str
    prepare: Callable[[Values], Values]
    buckets: tuple[Label, ...] | None = None
    bounds: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, kw_only=True)
class StudioWords:
    """What the studio says about a query, and which of its three numbers it can find."""

    asks: str
    """What it answers, in a few words."""
    about: str
    """What the error refers to."""
    whole: bool = True
    """Whether the true answer is a whole number."""
    finds: tuple[str, ...] = ("messages", "error", "epsilon")
    """Which of these can be found from the other two."""
    condition: str = "whatever the data"
    """When the forecast error holds."""
    curve: tuple[Mapping[str, Any], ...] | None = None
    """Targets of plans that show what is possible, smallest error first; None for the defaults."""
    without: tuple[str, ...] = ()
    """Arguments of the planner that the form leaves at their defaults."""
    secret: str = "you gave a particular answer"
    """What someone may suspect of you, for the sentence about ε."""
    finds_words: bool = False
    """Whether the result says which answers there are."""
    of_one: str = "sum"
    """What its error refers to: a "sum" over all users, their "mean", or a "value" such as the
    median."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Everything about a query that is not one of its arguments."""

    name: str
    """The name on the command line and in JSON."""
    example: str = ""
    """What the example of its command has besides the common options."""
    planner: Callable[..., Plan[Any]] | None = None
    finds_epsilon: bool = True
    """Whether the planner can look for the smallest ε."""
    plan_example: str = ""
    """What the example of `shuffledp plan` has besides the common options."""
    plan_options: Mapping[str, Option] = field(default_factory=dict)
    """Arguments of the planner alone."""
    plan_defaults: Mapping[str, str] = field(default_factory=dict)
    """What `shuffledp plan` uses for required arguments of the query."""
    protocol: type[Protocol[Any]] | None = None
    """None if another query's protocol is used."""
    protocol_json: Record | None = None
    """The JSON schema of its protocol."""
    result_json: Mapping[str, Schema] | None = None
    """The JSON schema of its published results, besides the guarantee; None if never published."""
    result_json_optional: Mapping[str, Schema] = field(default_factory=dict)
    studio: StudioWords | None = None
    """None if the studio does not offer it."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def query(name: str, **said: Any) -> Callable[[Class], Class]:
    """Declares a class of queries: `said` are the other fields of `Declaration`."""

    def declared(of: Class) -> Class:
        dataclass(frozen=True, kw_only=True)(of)
        of.name, of.declaration = name, Declaration(name=name, **said)
        return of

    return declared


@dataclass(frozen=True, kw_only=True)
class Query(QueryOptions, ABC, Generic[R]):
    """A query about one column in which each row is one user; R is the type of its result.

    The arguments of a query are the fields of its class, `Annotated` with an `Option`.
    """

    name: ClassVar[str]
    declaration: ClassVar[Declaration]
    planned_for: ClassVar[tuple[str, ...]] = TARGETS
    """The targets that its planner takes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse(
            tuple(name for name in TARGETS if name not in self.planned_for),
            f"{self.name} can be planned for {self.possible_targets()}; choose one of these.",
        )

    @classmethod
    def possible_targets(cls) -> str:
        """The targets that its planner takes, in words."""
        return " or ".join(name for name in cls.planned_for if name != "expected")

    def targets(self) -> dict[str, Any]:
        """The plan's target, as keyword arguments of the planner."""
        return {name: getattr(self, name) for name in self.planned_for}

    @abstractmethod
    def make_plan(self, users: int) -> Plan[R]:
        """A new plan for a number of users; raises `PlanningError` if there is none."""

    def plan(self, users: int) -> Plan[R]:
        """The plan for a number of users (cached for the same query)."""
        return cast("Plan[R]", _remembered_plan(self.for_planning(), users))

    def for_planning(self) -> Self:
        """The query as the key of the plan cache: without everything that does not affect the
        plan."""
        return self.without_run_options()

    def without_run_options(self) -> Self:
        """The query without data, ledger, random bits and other fields that only say how it is run.
        This form may be cached or sent to workers."""
        return self.changed(**RUN_DEFAULTS)

    @classmethod
    def summary(cls) -> str:
        """What it answers: the first line of its documentation; its name if Python dropped that
        (-OO)."""
        said = cls.__doc__ if sys.flags.optimize < 2 else None
        return (said or cls.name).strip().splitlines()[0]

    @classmethod
    def plan_arguments(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the query and of `plan_options` as the planner takes them."""
        return given

    # The column, or the columns

    def of_column(self, holds: ColumnType) -> Self:
        """The query adapted to a column with such values."""
        return self

    def as_asked(self) -> Query[R]:
        """The query that is actually run; the arguments may select another one."""
        return self

    @property
    def columns_together(self) -> tuple[str, ...]:
        """The columns whose combinations are counted; empty for a query about one column."""
        return ()

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of each of `columns_together`, or of the one column if it has labels."""
        return ()

    def reads_text_in(self, column: int) -> bool:
        """`reads_texts` for one of `columns_together`, by its number."""
        return False

    def check_columns(self, holds: Sequence[ColumnType]) -> None:
        """`check_column` for all of `columns_together`."""

    def codes(self, columns: Iterable[Values]) -> Values:
        """A whole number for each row, from its values in `columns_together`."""
        raise ParameterError(f"{self.name} is about one column.")

    def check_column(self, holds: ColumnType) -> None:
        """Raises `ValueOutOfRange` if the query cannot answer such a column, before anything is
        planned or read."""

    @property
    def missing_label(self) -> Label | None:
        """The label under which missing values are counted with missing="bucket"; None if there are
        no labels."""
        return None

    @property
    def reads_texts(self) -> bool:
        """Whether values of a file without types are texts even if they look like numbers or
        dates."""
        return False

    @property
    def compared_with(self) -> object | None:
        """A value with which every row is first compared, giving a column of true/false; None
        leaves rows unchanged."""
        return None

    def prepare(self, values: Values) -> Values:
        """Values of the column in the form that the protocol takes."""
        return values

    def grouping(self, holds: ColumnType) -> Grouping | None:
        """How values of such a column may be counted together; None if they may not, because there
        may be too many or the protocol draws for each. Raises `ValueOutOfRange` if the query cannot
        answer such a column."""
        return None

    # Some of the rows (`where`)

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Prepared values in which excluded rows take part without affecting the answer: as 0, or
        with a separate label."""
        raise ParameterError(f"{self.name} always uses all rows; leave where out.")

    @property
    def filtered_value(self) -> Label | float | dt.date | None:
        """The value that `filtered` gives to all rows that are not kept; None if each gets a random
        one, so that they are all different."""
        return None

    @property
    def above_filtered(self) -> float | dt.datetime | None:
        """What stands for kept values of at least `filtered_value`, all of which are outside the
        bounds: the query refuses or clips it, but does not take it for an excluded row. None if no
        kept value is taken for one."""
        return None

    @property
    def kept_bounds(self) -> KeptBounds | None:
        """Where kept values must lie, if the query about filtered values allows more."""
        return None

    def of_filtered(self) -> Query[R]:
        """The query for the values that `filtered` returns."""
        return self.changed(where=None)

    @property
    def where_text(self) -> str:
        """The condition, for results; empty if there is none."""
        if self.where is None:
            return ""
        return self.where if isinstance(self.where, str) else "by a function of the data"

    # Groups of users

    def user_groups(self) -> Groups | None:
        """The groups that each get an answer; None for all users together."""
        return None

    @property
    def grouped(self) -> Groups | None:
        """How users are grouped; None for all users together."""
        return None

    @property
    def of_each_group(self) -> Query[Estimate]:
        """The query for each group."""
        raise ParameterError(f"{self.name} is not about groups.")

    def pairs(
        self, labels: Values | None, values: Values, kept: NDArray[np.bool_] | None = None
    ) -> Values:
        """Each row's group number and prepared value; without labels, all kept rows are in the
        first group."""
        raise ParameterError(f"{self.name} is not about groups.")

    @property
    def least_value(self) -> float:
        """The least value that a row of a group may have."""
        return 0.0

    # Several rows of one user

    @property
    def adds_up(self) -> bool:
        """Whether all rows of one user can be added up to one value (`of_sums`)."""
        return False

    def of_sums(self) -> Query[R]:
        """The same query about the sums of users' rows, which are clipped to the bounds."""
        raise ParameterError(f"Rows of one user cannot be added up for {self.name}.")

    # The answer

    def finish(self, result: R) -> R:
        """The caller's result, made from the protocol's result."""
        return result

    def truth(self, values: Values) -> list[float]:
        """The true answers, one for each row of the result, from all prepared values. They are not
        private: only a rehearsal, whose caller has all values, shows them."""
        raise ParameterError(
            f"The true answer to {self.name} cannot be computed here; rehearse another query."
        )

    def beside_truth(self, result: R, values: Values) -> R:
        """The result with a row for each true answer, in their order; a row that the result does
        not have is not a number."""
        return result

    def step(self) -> Fraction:
        """The most by which one user can change the true answer."""
        return Fraction(1)

    def for_baseline(self) -> BaselineArguments:
        """The query for another protocol; raises `ParameterError` if none answers it."""
        raise ParameterError(
            f"No other protocol answers {self.name}; leave protocol out, or ask another query."
        )


@lru_cache(maxsize=64)
def _remembered_plan(query: Query[Any], users: int) -> Plan[Any]:
    return query.make_plan(users)
