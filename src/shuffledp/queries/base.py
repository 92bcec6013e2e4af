"""A query: one question about a column, independent of where it is run.

A query says how to plan for so many users, how to prepare values for the protocol, which equal
values may be counted together beforehand, and what is made of the protocol's result. Executors
(`queries.local`, `spark.executor`) do the rest. A new question is one class in `questions.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from shuffledp.data.arrays import ColumnType, Values
from shuffledp.errors import ParameterError
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Estimate, Result
from shuffledp.queries.histogram.protocol import Label
from shuffledp.queries.options import Targets

if TYPE_CHECKING:
    from shuffledp.queries.by_group.groups import Groups

R = TypeVar("R", bound=Result)


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Which values an executor may count together before they are prepared and encoded."""

    largest: int | None = None
    """Only whole numbers 0..largest are allowed, so that all others may be counted as one; None:
    only equal values are counted together."""
    clamp: bool = False
    """Move numbers outside 0..largest to its nearer end."""
    few_values: bool = True
    """Whether only few different values can be left, so that one task can hold them all."""


@dataclass(frozen=True, kw_only=True)
class BaselineQuestion:
    """The same question as the arguments that `shuffledp.baselines.run` takes."""

    query: str
    prepare: Callable[[Values], Values]
    buckets: tuple[Label, ...] | None = None
    bounds: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, kw_only=True)
class GroupQuestion:
    """What is asked about each group, as `plan_by_group` takes it."""

    answer: str
    largest: int | None = None
    bounds: tuple[Fraction, Fraction] | None = None
    clamp: bool = False


@dataclass(frozen=True, kw_only=True)
class Query(ABC, Generic[R]):
    """A question about one column of which each row is one user; R is its kind of result."""

    name: ClassVar[str]
    """As on the command line and in JSON."""
    epsilon: Fraction
    targets: Targets = field(default=Targets())

    @abstractmethod
    def make_plan(self, users: int) -> Plan[R]:
        """A new plan for so many users; raises `PlanningError` if no parameters will do."""

    def plan(self, users: int) -> Plan[R]:
        """The plan for so many users, remembered for the next call of the same query."""
        return cast("Plan[R]", _remembered_plan(self.for_planning(), users))

    def for_planning(self) -> Query[R]:
        """The query by which its plan is remembered: without what the plan does not depend on."""
        return self

    @property
    def by(self) -> tuple[str, ...]:
        """The columns of which every row gives one combination; empty where there is one column."""
        return ()

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of each of the columns in `by`."""
        return ()

    def reads_text_in(self, place: int) -> bool:
        """`reads_texts` for one of the columns in `by`."""
        return False

    def check_columns(self, holds: Sequence[ColumnType]) -> None:
        """`check_column` for all columns in `by`."""

    def codes(self, columns: Iterable[Values]) -> Values:
        """A whole number for each row, from its values in the columns in `by`."""
        raise ParameterError(f"{self.name} is about one column.")

    def for_groups(self) -> GroupQuestion:
        """The question as it is asked about each group of users."""
        raise ParameterError(f"{self.name} is not answered by group.")

    @property
    def grouped(self) -> Groups | None:
        """How users are grouped; None where all are asked about together."""
        return None

    @property
    def of_each_group(self) -> Query[Estimate]:
        """What is asked about each group."""
        raise ParameterError(f"{self.name} is not about groups.")

    def pairs(self, labels: Values, values: Values) -> Values:
        """Each row's group by its number, beside its prepared value."""
        raise ParameterError(f"{self.name} is not about groups.")

    @property
    def adds_up(self) -> bool:
        """Whether all rows of one user can be added up to one value (`of_sums`)."""
        return False

    def of_sums(self) -> Query[R]:
        """The same query about the sums of users' rows, which are moved into the bounds."""
        raise ParameterError(f"Rows of one user cannot be added up for {self.name}.")

    @property
    def missing_label(self) -> Label | None:
        """The label under which missing values are counted with missing="bucket"; None where there
        are no labels."""
        return None

    def check_column(self, holds: ColumnType) -> None:
        """Raises `ValueOutOfRange` where the query has no answer for such a column, before anything
        is planned or read."""

    @property
    def reads_texts(self) -> bool:
        """Whether values of a file without types are meant as texts, also if they look like
        numbers or dates."""
        return False

    @property
    def compared_with(self) -> object | None:
        """A value that every row is first compared with, which makes a column of true/false; None:
        rows are taken as they are."""
        return None

    def prepare(self, values: Values) -> Values:
        """Values of the column as the protocol takes them."""
        return values

    def grouping(self, holds: ColumnType) -> Grouping | None:
        """How values of such a column may be counted together; None: not at all, because there may
        be too many or the protocol draws for each. Raises `ValueOutOfRange` where the query has no
        answer for such a column."""
        return None

    def finish(self, result: R) -> R:
        """The result that the caller gets, made of the result that the protocol gives."""
        return result

    def for_baseline(self) -> BaselineQuestion:
        """The question as another protocol is asked; raises `ParameterError` where none answers."""
        raise ParameterError(
            f"No other protocol answers {self.name}; leave protocol out, or ask another query."
        )


@lru_cache(maxsize=64)
def _remembered_plan(query: Query[Any], users: int) -> Plan[Any]:
    return query.make_plan(users)
