"""A query: what is asked about a column of values, independent of where it runs.

A query is declared once, as a class: its name, its arguments with their meanings, its example, its
planner, its protocol, the JSON of both, its true answer, and its words in the studio. The Python
call and its help (`queries/calls.py`), the commands (`cli/query.py`, `cli/plan.py`), the studio's
form and the glossary are made from this declaration. Engines (`shuffledp.engines`) run it.
"""

from __future__ import annotations

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
    """Which values an engine may count together before they are prepared and encoded."""

    largest: int | None = None
    """Only whole numbers 0..largest are allowed, so that all others may be counted as one; None:
    only equal values are counted together."""
    clamp: bool = False
    """Clip numbers to 0..largest."""
    few_values: bool = True
    """Whether only few different values can be left, so that one task can hold them all."""


@dataclass(frozen=True, kw_only=True)
class BaselineArguments:
    """The same query as the arguments that `shuffledp.baselines.run` takes."""

    query: str
    prepare: Callable[[Values], Values]
    buckets: tuple[Label, ...] | None = None
    bounds: tuple[Fraction, Fraction] | None = None


@dataclass(frozen=True, kw_only=True)
class GroupArguments:
    """What is answered for each group, as the arguments that `plan_by_group` takes."""

    answer: str
    largest: int | None = None
    bounds: tuple[Fraction, Fraction] | None = None
    clamp: bool = False


@dataclass(frozen=True, kw_only=True)
class StudioWords:
    """What the studio says about a query, and which of its three numbers it can find."""

    asks: str
    """What it answers, in a few words."""
    about: str
    """What the error is the error of."""
    whole: bool = True
    """Whether the true answer is a whole number."""
    finds: tuple[str, ...] = ("messages", "error", "epsilon")
    """Which of these can be found from the other two."""
    condition: str = "whatever the data"
    """When the forecast error holds."""
    curve: tuple[Mapping[str, Any], ...] | None = None
    """Targets of plans that show what is possible, smallest error first; None: the usual ones."""
    without: tuple[str, ...] = ()
    """Arguments of the planner that the form leaves at their defaults."""
    secret: str = "you gave a particular answer"
    """What someone may suspect of you, for the sentence about ε."""
    finds_words: bool = False
    """Whether the result says which answers there are."""
    of_one: str = "sum"
    """What its error is the error of: a "sum" over all users, their "mean", or a "value" among
    theirs, such as the median."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Everything about a query that is not one of its arguments."""

    name: str
    """As on the command line and in JSON."""
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
    """What `shuffledp plan` takes for arguments that a query must be given."""
    protocol: type[Protocol[Any]] | None = None
    """None where another query's protocol is used."""
    protocol_json: Record | None = None
    """What the JSON of its protocol may hold."""
    result_json: Mapping[str, Schema] | None = None
    """What the JSON of its published results holds besides the promise; None: never published."""
    result_json_optional: Mapping[str, Schema] = field(default_factory=dict)
    studio: StudioWords | None = None
    """None where the studio does not offer it."""


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
    """What is asked about one column of which each row is one user; R is the type of its result.

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
            f"{self.name} is planned for {self.possible_targets()}; give one of these.",
        )

    @classmethod
    def possible_targets(cls) -> str:
        """The targets that its planner takes, in words."""
        return " or ".join(name for name in cls.planned_for if name != "expected")

    def targets(self) -> dict[str, Any]:
        """What the plan is asked for, as keyword arguments of the planner."""
        return {name: getattr(self, name) for name in self.planned_for}

    @abstractmethod
    def make_plan(self, users: int) -> Plan[R]:
        """A new plan for a number of users; raises `PlanningError` if there is none."""

    def plan(self, users: int) -> Plan[R]:
        """The plan for a number of users, remembered for the next call of the same query."""
        return cast("Plan[R]", _remembered_plan(self.for_planning(), users))

    def for_planning(self) -> Self:
        """The query by which its plan is remembered: without what the plan does not depend on."""
        return self.without_run_options()

    def without_run_options(self) -> Self:
        """The query without data, ledger, random bits and everything else that only says how it is
        run: this is what may be kept, or sent to workers."""
        return self.changed(**RUN_DEFAULTS)

    @classmethod
    def summary(cls) -> str:
        """What it answers: the first line of its documentation; its name where Python dropped that
        (-OO)."""
        said = cls.__doc__ if sys.flags.optimize < 2 else None
        return (said or cls.name).strip().splitlines()[0]

    @classmethod
    def plan_arguments(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the query and of `plan_options` as the planner takes them."""
        return given

    # The column, or the columns

    def of_column(self, holds: ColumnType) -> Self:
        """The query for a column that holds such values, where that makes a difference."""
        return self

    def as_asked(self) -> Query[R]:
        """The query that is run: another one where the arguments ask for it."""
        return self

    @property
    def columns_together(self) -> tuple[str, ...]:
        """The columns whose combinations are counted; empty for a query about one column."""
        return ()

    @property
    def label_lists(self) -> tuple[tuple[Label, ...], ...]:
        """The labels of each of `columns_together`."""
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
        """Raises `ValueOutOfRange` where the query has no answer for such a column, before anything
        is planned or read."""

    @property
    def missing_label(self) -> Label | None:
        """The label under which missing values are counted with missing="bucket"; None where there
        are no labels."""
        return None

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

    # Some of the rows (`where`)

    def filtered(self, values: Values, kept: NDArray[np.bool_]) -> Values:
        """Prepared values in which the rows that are not kept take part without saying anything:
        as 0, or with a separate label."""
        raise ParameterError(f"{self.name} is about all rows; leave where out.")

    @property
    def filtered_value(self) -> Label | None:
        """The value that `filtered` gives to all rows that are not kept; None if there is none."""
        return None

    def of_filtered(self) -> Query[R]:
        """The query about the values that `filtered` gives."""
        return self.changed(where=None)

    @property
    def where_text(self) -> str:
        """The condition, for results; empty where there is none."""
        if self.where is None:
            return ""
        return self.where if isinstance(self.where, str) else "by a function of the data"

    # Groups of users

    def user_groups(self) -> Groups | None:
        """The groups for each of which the query is to be answered; None: all users together."""
        return None

    def for_groups(self) -> GroupArguments:
        """What is answered for each group."""
        raise ParameterError(f"{self.name} is not answered by group.")

    @property
    def grouped(self) -> Groups | None:
        """How users are grouped; None where all are asked about together."""
        return None

    @property
    def of_each_group(self) -> Query[Estimate]:
        """What is asked about each group."""
        raise ParameterError(f"{self.name} is not about groups.")

    def pairs(
        self, labels: Values | None, values: Values, kept: NDArray[np.bool_] | None = None
    ) -> Values:
        """Each row's group by its number, beside its prepared value; without labels, all kept rows
        are in the first group."""
        raise ParameterError(f"{self.name} is not about groups.")

    @property
    def least_value(self) -> float:
        """The least value that a row of a group may hold."""
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
        """The result that the caller gets, made of the result that the protocol gives."""
        return result

    def truth(self, values: Values) -> list[float]:
        """The true answers, one for each row of the result, from all prepared values. They are not
        private: only a rehearsal, whose caller holds all values, shows them."""
        raise ParameterError(f"The true answer to {self.name} is not known here; rehearse another.")

    def beside_truth(self, result: R, values: Values) -> R:
        """The result with a row for each true answer, in their order; a row that the result does
        not have is not a number."""
        return result

    def step(self) -> Fraction:
        """By how much one user can change the true answer at most."""
        return Fraction(1)

    def for_baseline(self) -> BaselineArguments:
        """The query as another protocol is asked; raises `ParameterError` where none answers."""
        raise ParameterError(
            f"No other protocol answers {self.name}; leave protocol out, or ask another query."
        )


@lru_cache(maxsize=64)
def _remembered_plan(query: Query[Any], users: int) -> Plan[Any]:
    return query.make_plan(users)
