"""Makes the callable function for a declared query: `shuffledp.count` from `CountQuery`.

Its types are those of the class's arguments, so mypy checks every call. Its help lists every
argument with its meaning and default. Which engine runs it depends on the data.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any, ParamSpec, Protocol, TypeVar, cast, get_args, get_origin, overload

from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.protocols.results import Estimate, Result
from shuffledp.queries.base import Query
from shuffledp.queries.by_group.query import GroupableQuery
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.options import Argument, arguments

P = ParamSpec("P")
G = ParamSpec("G")
R = TypeVar("R", bound=Result)
R_co = TypeVar("R_co", bound=Result, covariant=True)

DATA = (
    "A list, NumPy array, Series, data frame, the path of a CSV or Parquet file, or a Spark "
    "DataFrame, for which the query runs on Spark."
)
ERRORS = {
    "ParameterError": "An argument is not allowed, or the engine does not support it.",
    "DataError": "The column cannot be read, or has missing values.",
    "ValueOutOfRange": "Some values do not fit the query; the error does not say which.",
    "ShortBatchError": "There are fewer rows than `users`.",
    "PlanningError": "No parameters reach the target.",
    "BudgetExceeded": "The ledger has less than `epsilon` left; nothing was released.",
    "MissingExtra": "A required optional package is not installed.",
    "ClusterError": "Spark did not finish; nothing was released.",
}
"""The exceptions of every query, for the help pages."""


class Call(Protocol[P, R_co]):
    """The function of a query."""

    def __call__(self, data: object, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The answer to the query about a column."""


class GroupedCall(Protocol[G, P]):
    """The function of a query that is also answered by group: then `by` says which groups."""

    @overload
    def __call__(self, data: object, *args: G.args, **kwargs: G.kwargs) -> GroupsResult: ...
    @overload
    def __call__(self, data: object, *args: P.args, **kwargs: P.kwargs) -> Estimate: ...


def call(of: Callable[P, Query[R]]) -> Call[P, R]:
    """The function that asks queries of a class."""
    return cast("Call[P, R]", _function(cast("type[Query[Any]]", of)))


def call_by_group(
    of: Callable[P, GroupableQuery], grouped: Callable[G, GroupableQuery]
) -> GroupedCall[G, P]:
    """The function that asks queries of a class, also by group; `grouped` is the class with `by` as
    a required argument, which provides the types of that call."""
    return cast("GroupedCall[G, P]", _function(cast("type[Query[Any]]", of)))


def _function(of: type[Query[Any]]) -> Callable[..., Any]:
    signature = _signature(of)
    known = list(signature.parameters)

    def ask(data: object, **given: Any) -> Any:
        from shuffledp.engines.answer import answer  # imported here, because engines import queries

        for name in given:
            if name not in known:
                raise ParameterError(
                    f"There is no option {name!r}; there are {', '.join(known[1:])}."
                )
        signature.bind(data, **given)  # refuses a call without a required argument
        return answer(of(**given), data)

    ask.__name__ = ask.__qualname__ = of.name.replace("-", "_")
    ask.__module__, ask.__doc__ = of.__module__, _help(of)
    cast(Any, ask).__signature__ = signature
    return ask


class _Shown(str):
    """A text that a help page shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(of: type[Query[Any]]) -> inspect.Signature:
    """The arguments by name, with their types and defaults as the help shows them."""
    data = inspect.Parameter(
        "data", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_Shown("object")
    )
    others = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.required else _shown_default(one),
            annotation=_shown_type(one.type),
        )
        for one in arguments(of)
    ]
    return inspect.Signature([data, *others], return_annotation=_result_type(of))


def _result_type(of: type[Query[Any]]) -> _Shown:
    """R of the `Query[R]` that a class derives from, and its result type by group."""
    bases = (base for one in of.__mro__ for base in getattr(one, "__orig_bases__", ()))
    result = next(get_args(base)[0].__name__ for base in bases if get_origin(base) is Query)
    return _Shown(result + (" | GroupsResult" if issubclass(of, GroupableQuery) else ""))


def _shown_default(argument: Argument) -> Any:
    return _Shown("SYSTEM") if argument.default is SYSTEM else argument.default


def _shown_type(kind: Any) -> _Shown:
    """A type without the modules of its names."""
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(kind))
    return _Shown(text.replace("int | float | str | Fraction | Decimal", "ExactNumber"))


def _help(of: type[Query[Any]]) -> str:
    """The class's documentation, with all arguments before the return value and all exceptions
    after it; empty if Python dropped it (-OO)."""
    if sys.flags.optimize > 1:
        return ""
    before, _, after = inspect.cleandoc(of.__doc__ or "").partition("Returns:\n")
    returns, examples = after.split("\n>>> ", 1)
    told = [("data", DATA), *((one.name, _meaning(one)) for one in arguments(of))]
    return (
        f"{before}Args:\n{_listed(told)}\nReturns:\n{returns.rstrip()}\n\n"
        f"Raises:\n{_listed(list(ERRORS.items()))}\n>>> {examples}"
    )


def _meaning(argument: Argument) -> str:
    default = argument.default
    said = argument.option.meaning
    if default in (MISSING, None, "", False, ()) or default is SYSTEM:
        return said
    return f"{said} Default {default}."


def _listed(items: list[tuple[str, str]]) -> str:
    return "".join(
        textwrap.fill(f"{name}: {text}", 100, initial_indent=" " * 4, subsequent_indent=" " * 12)
        + "\n"
        for name, text in items
    )
