"""The options that every query takes, locally and on Spark: their types, defaults and meanings."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, TypedDict, TypeVar, cast

import numpy as np

from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import ExactNumber, as_written, checked_confidence, truth, whole
from shuffledp.numbers.seeded import SeededEntropy
from shuffledp.protocols.base import Progress
from shuffledp.release.ledger import Ledger

MEANINGS = {
    "column": "The column of a data frame or file; may be left out where there is only one.",
    "encoding": "The encoding of a CSV file, for example latin-1; UTF-8 unless said.",
    "delimiter": "What separates the columns of a CSV file; a comma unless said, a tab in .tsv.",
    "users": "How many rows the privacy guarantee may count on; all of them unless fewer are said.",
    "user": "The column of a data frame or file (or the list) that says whose row each is: ε is "
    "then per user, not per row.",
    "rows_per_user": "With `user`: how many rows of each user are kept, at random; left out, sums "
    "add up all rows of a user and move the total into the bounds.",
    "missing": 'A value that stands for every missing one, or "bucket" for a label of their own '
    "in a histogram; without it, a column with missing values is refused.",
    "confidence": "How likely an interval holds the true value (0.95).",
    "ledger": "A `Ledger` or its path: pays for the release, or refuses it.",
    "note": "A text that the ledger keeps beside the release.",
    "per_user": "True randomizes row by row, as devices do; otherwise all rows are drawn together "
    "from the same law, which is much faster.",
    "entropy": "Where random bits come from; `SeededEntropy` repeats a result and marks it as not "
    "private.",
    "seed": "A number or text that repeats a result, which is then marked as not private.",
    "progress": "A function that is told how many more rows are done.",
    "protocol": "The name of another protocol (see `shuffledp compare`) that answers instead.",
    "delta": "δ of such a protocol, if it is only (ε, δ)-private.",
    "mse_overhead": "Target: mean squared error within 1 + this of the central optimum (½ unless "
    "another target is given; 8 for real sums and means).",
    "rmse": "Target: root mean squared error at most this.",
    "relative_error": "Target, beside one of these two: or within this part of the true value.",
    "max_messages": "Target: the best error with at most so many messages per user.",
    "expected": "How many users the error is planned for, if more than `users`.",
}
"""What each option means, in a sentence for the help pages."""

MOST_NOTE = 1_000
"""Characters of a note in a ledger."""
TARGETS = ("mse_overhead", "rmse", "relative_error", "max_messages", "expected")


class QueryOptions(TypedDict, total=False):
    """The keyword arguments that every query takes besides its own and `protocol`."""

    column: str | None
    encoding: str | None
    delimiter: str | None
    users: int | None
    user: str | Sequence[Any] | None
    rows_per_user: int | None
    missing: str | ExactNumber | None
    confidence: ExactNumber
    ledger: Ledger | str | Path | None
    note: str
    per_user: bool
    entropy: Entropy
    seed: int | str | None
    progress: Progress | None
    delta: ExactNumber | None
    mse_overhead: ExactNumber | None
    rmse: ExactNumber | None
    relative_error: ExactNumber | None
    max_messages: ExactNumber | None
    expected: int | None


class ErrorTargets(TypedDict):
    """The targets that every planner takes, as its keyword arguments."""

    mse_overhead: Fraction | None
    rmse: Fraction | None
    relative_error: Fraction | None
    expected: int | None


class AllTargets(ErrorTargets):
    """The targets of planners that can also plan for a number of messages."""

    max_messages: Fraction | None


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What a query's plan is asked for; the planner's own default where nothing is said."""

    mse_overhead: Fraction | None = None
    rmse: Fraction | None = None
    relative_error: Fraction | None = None
    max_messages: Fraction | None = None
    expected: int | None = None

    def of_error(self) -> ErrorTargets:
        """All targets but `max_messages`, as keyword arguments of a planner."""
        return {
            "mse_overhead": self.mse_overhead,
            "rmse": self.rmse,
            "relative_error": self.relative_error,
            "expected": self.expected,
        }

    def all(self) -> AllTargets:
        """All targets, as keyword arguments of a planner."""
        return {**self.of_error(), "max_messages": self.max_messages}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a query is run, checked; `MEANINGS` says what each option means."""

    column: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    users: int | None = None
    user: Any = None
    rows_per_user: int | None = None
    missing: Any = None
    confidence: float = 0.95
    ledger: Ledger | None = None
    note: str = ""
    per_user: bool = False
    entropy: Entropy = SYSTEM
    seed: int | str | None = None
    progress: Progress | None = None
    protocol: str | None = None
    delta: ExactNumber | None = None
    mse_overhead: Fraction | None = None
    rmse: Fraction | None = None
    relative_error: Fraction | None = None
    max_messages: Fraction | None = None
    expected: int | None = None

    @classmethod
    def checked(cls, given: Mapping[str, object]) -> Options:
        """The options behind a call's keyword arguments; refuses unknown names and bad values."""
        for name in given:
            if name not in MEANINGS:
                raise ParameterError(
                    f"There is no option {name!r}; there are {', '.join(MEANINGS)}."
                )
        values: dict[str, Any] = dict(given)
        for name in TARGETS:
            if values.get(name) is not None:
                check = whole if name == "expected" else as_written
                values[name] = check(values[name], name)
        if values.get("users") is not None:
            values["users"] = whole(values["users"], "users")
        if values.get("rows_per_user") is not None:
            values["rows_per_user"] = whole(values["rows_per_user"], "rows_per_user")
        _check_missing(values.get("missing"))
        values["confidence"] = checked_confidence(values.get("confidence", cls.confidence))
        ledger = values.get("ledger")
        values["ledger"] = _checked_ledger(ledger)
        values["note"] = _checked_note(values.get("note", ""), ledger)
        values["per_user"] = truth(values.get("per_user", False), "per_user")
        values["entropy"] = _checked_entropy(values.get("entropy", SYSTEM), values.get("seed"))
        if values.get("progress") is not None and not callable(values["progress"]):
            raise ParameterError("progress must be a function that is told how many rows are done.")
        _check_file_format(values.get("encoding"), values.get("delimiter"))
        return cls(**values)

    @property
    def targets(self) -> Targets:
        """Those options that say what the plan is asked for."""
        return Targets(
            mse_overhead=self.mse_overhead,
            rmse=self.rmse,
            relative_error=self.relative_error,
            max_messages=self.max_messages,
            expected=self.expected,
        )

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raises `ParameterError` if one of these options was given: `why` says what to do."""
        for option in fields(self):
            if option.name in names and getattr(self, option.name) != option.default:
                raise ParameterError(f"The option {option.name} cannot be used here: {why}")


def _check_missing(missing: object) -> None:
    if missing == "drop":
        raise ParameterError(
            'missing="drop" is refused: how many rows are left would tell who has a value, and '
            'that number is public; count them with missing="bucket" or as a value, missing=0.'
        )
    if missing is not None and not isinstance(missing, str | int | float | np.generic | Fraction):
        raise ParameterError("missing must be a value of the column's type, or the word bucket.")


def _checked_ledger(ledger: object) -> Ledger | None:
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if not isinstance(ledger, str | Path):
        raise ParameterError(
            f"ledger must be a Ledger or the path of one; a {type(ledger).__name__} was given."
        )
    return Ledger(ledger)


def _checked_note(note: object, ledger: object) -> str:
    if not isinstance(note, str) or len(note) > MOST_NOTE:
        raise ParameterError(f"note must be a text of at most {MOST_NOTE:,} characters.")
    if note and ledger is None:
        raise ParameterError("A note is kept by a ledger; give ledger= too, or leave note out.")
    return note


def _checked_entropy(entropy: object, seed: object) -> Entropy:
    if not isinstance(entropy, Entropy):
        raise ParameterError(
            "entropy must be a source of random bits such as SeededEntropy(42); a "
            f"{type(entropy).__name__} was given: to repeat a result, give seed=."
        )
    if seed is None:
        return entropy
    if entropy is not SYSTEM:
        raise ParameterError("Give seed or entropy, not both.")
    if isinstance(seed, np.integer):
        seed = int(seed)
    if isinstance(seed, bool) or not isinstance(seed, int | str):
        raise ParameterError(
            f"seed must be a whole number or a text; a {type(seed).__name__} was given."
        )
    return SeededEntropy(seed)


def _check_file_format(encoding: object, delimiter: object) -> None:
    if encoding is not None and not isinstance(encoding, str):
        raise ParameterError("encoding must be a text, for example latin-1.")
    if delimiter is not None and (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or delimiter in '\r\n"'
        or not delimiter.isascii()
    ):
        raise ParameterError("delimiter must be one character, for example ; or a tab.")


Call = TypeVar("Call", bound=Callable[..., Any])
OPTIONS_IN_HELP = "        options: those of every query (`QueryOptions`).\n"
ERRORS_IN_HELP = "        ShuffleDPError: see `shuffledp.errors`.\n"
ERRORS = {
    "ParameterError": "An argument is not allowed.",
    "DataError": "The column cannot be read, or has missing values.",
    "ValueOutOfRange": "Some value does not fit the query; it is not said which.",
    "ShortBatchError": "There are fewer rows than `users`.",
    "PlanningError": "No parameters reach the target.",
    "BudgetExceeded": "The ledger has less than `epsilon` left; nothing was released.",
    "MissingExtra": "An optional package is needed and not installed.",
}
"""What every query may raise, for the help pages."""


class Shown(str):
    """A text that a help page shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def with_options(call: Call) -> Call:
    """The same function, whose help page and completion list every shared option by name."""
    signature = inspect.signature(call)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    known = {one.name for one in own}
    shared = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=Shown("SYSTEM") if option.default is SYSTEM else option.default,
            annotation=QueryOptions.__annotations__[option.name].__forward_arg__,
        )
        for option in fields(Options)
        if option.name not in known
    ]
    listed = [one.replace(annotation=Shown(one.annotation)) for one in [*own, *shared]]
    function = cast(Any, call)
    function.__signature__ = signature.replace(
        parameters=listed, return_annotation=Shown(signature.return_annotation)
    )
    options = "".join(_help_line(name, text) for name, text in MEANINGS.items())
    errors = "".join(_help_line(name, text) for name, text in ERRORS.items())
    text = (call.__doc__ or "").replace(OPTIONS_IN_HELP, options)
    function.__doc__ = text.replace(ERRORS_IN_HELP, errors)
    return call


def _help_line(name: str, text: str) -> str:
    text = f"{name}: {text}"
    indent = " " * 8
    return textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent * 2) + "\n"
