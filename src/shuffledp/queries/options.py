"""The options that every query takes: types, defaults, meanings and checks, each written once.

A query's own arguments are declared in the same way, as fields of its class (`queries/base.py`).
Python's help, the command line and the studio read these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Self, cast, get_type_hints

import numpy as np

from shuffledp.data.columns import FileFormat
from shuffledp.data.conditions import HELP, parsed
from shuffledp.documents.json_text import is_text
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM, Entropy, SeededEntropy
from shuffledp.numbers.exact import (
    ExactNumber,
    as_written,
    checked_confidence,
    positive_as_written,
    truth,
    whole,
)
from shuffledp.protocols.base import Progress
from shuffledp.release.ledger import Ledger

MOST_NOTE = 1_000
"""The most characters of a note in a ledger."""
TARGETS = ("mse_overhead", "rmse", "relative_error", "max_messages", "expected")


def number_or_text(text: str) -> int | float | str:
    """A whole number, a real number or a text, as it is written."""
    for kind in (int, float):
        try:
            found: int | float = kind(text)
        except ValueError:
            continue
        if kind is float or str(found) == text:
            return found
    return text


@dataclass(frozen=True)
class Option:
    """What an argument means, and how it is written on the command line."""

    meaning: str
    """One or two sentences; names of other options are in backticks."""
    metavar: str = ""
    """The name of the value in a command's help; empty for a flag."""
    _: KW_ONLY
    command: bool = True
    """Whether the query's command has it."""
    plans: bool = False
    """Whether the planner takes it too, so that `shuffledp plan` has it."""
    flag: str = ""
    """The option of the command, if its name differs from the argument's."""
    written: str = ""
    """How to write the value on the command line, if that is not obvious."""
    read: Callable[[Any], Any] | None = None
    """Converts the given text to the value."""
    repeated: bool = False
    """Whether the option may be repeated; `read` then gets a list of texts."""
    one_by_one: str = ""
    """A second, repeatable option that adds one item to the list, unchanged."""
    as_column: bool = False
    """Whether texts become numbers or true/false if that is the column's type."""
    choices: tuple[str, ...] = ()
    form: str = ""
    """What the studio's page calls it."""
    least: int = 1
    """The smallest number that the studio's form takes."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument of a query: its declaration, its type, and its default."""

    name: str
    option: Option
    type: Any
    default: Any
    """`dataclasses.MISSING` if the argument is required."""

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING


def arguments(of: type[QueryOptions]) -> list[Argument]:
    """The arguments of a class of queries: ε first, then its own, then those of every query."""
    first, *others = _arguments(of)
    common = {one.name for one in fields(QueryOptions)}
    declared = [name for one in of.__mro__ for name in vars(one).get("__annotations__", ())]
    own = [one for one in others if one.name not in common]
    own.sort(key=lambda one: declared.index(one.name))  # those of the class before its base's
    return [first, *own, *(one for one in others if one.name in common)]


def _arguments(of: type[QueryOptions]) -> list[Argument]:
    hints = get_type_hints(of, include_extras=True)
    declared = ((one, getattr(hints[one.name], "__metadata__", ())) for one in fields(of))
    return [
        Argument(
            name=one.name, option=said[0], type=hints[one.name].__origin__, default=one.default
        )
        for one, said in declared
        if said
    ]


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The arguments that every query takes. They are checked when the query is made."""

    epsilon: Annotated[
        ExactNumber, Option("The privacy loss allowed; 0.1 means exactly 1/10.", "E")
    ]
    column: Annotated[
        str | None,
        Option("The column of a data frame or file; not needed if there is only one.", "C"),
    ] = field(default=None, compare=False)
    encoding: Annotated[
        str | None, Option("The text encoding of a CSV file, e.g. latin-1; default UTF-8.", "NAME")
    ] = field(default=None, compare=False)
    delimiter: Annotated[
        str | None,
        Option(
            "The character between the columns of a CSV file; default a comma, a tab in .tsv.",
            "C",
            read=lambda text: "\t" if text in ("\\t", "tab") else text,
        ),
    ] = field(default=None, compare=False)
    users: Annotated[
        int | None,
        Option(
            "The number of rows that the privacy guarantee relies on; default: all of them.", "N"
        ),
    ] = field(default=None, compare=False)
    user: Annotated[
        str | Sequence[Any] | None,
        Option(
            "The column (or the list) that says which user each row belongs to: ε is then per "
            "user, not per row.",
            "C",
        ),
    ] = field(default=None, compare=False)
    rows_per_user: Annotated[
        int | None,
        Option(
            "With `user`: how many rows of each user to keep, chosen at random. Without it, sums "
            "add up all rows of a user and clip the total to the bounds.",
            "K",
        ),
    ] = field(default=None, compare=False)
    missing: Annotated[
        str | ExactNumber | None,
        Option(
            'The value to use for every missing one, or "bucket" to count them under a label of a '
            "histogram. Without it, a column with missing values is refused.",
            "VALUE",
            read=number_or_text,
        ),
    ] = field(default=None, compare=False)
    where: Annotated[
        str | Callable[[Any], Any] | None,
        Option(
            "Ask about some rows only: a condition on columns, such as way = 'bus' and age >= 18; "
            "in Python also a function of the data frame. The other rows take part as 0 or in a "
            "separate bucket, so that the number of rows that fit stays private.",
            "CONDITION",
        ),
    ] = field(default=None, compare=False)
    confidence: Annotated[
        ExactNumber, Option("The probability that an interval contains the true value.", "P")
    ] = field(default=0.95, compare=False)
    ledger: Annotated[
        Ledger | str | Path | None,
        Option("The privacy budget that pays for the release, or refuses it.", "FILE"),
    ] = field(default=None, compare=False)
    note: Annotated[str, Option("A text that the ledger stores with the release.", "TEXT")] = field(
        default="", compare=False
    )
    per_user: Annotated[
        bool,
        Option(
            "Randomize row by row, as devices do. By default all rows are drawn together from the "
            "same distribution, which is much faster."
        ),
    ] = field(default=False, compare=False)
    entropy: Annotated[
        Entropy,
        Option(
            "The source of random bits; `SeededEntropy` repeats a result and marks it as not "
            "private.",
            command=False,
        ),
    ] = field(default=SYSTEM, compare=False)
    seed: Annotated[
        int | str | None,
        Option("Repeat a result: a number or text. The result is marked as not private.", "S"),
    ] = field(default=None, compare=False)
    progress: Annotated[
        Progress | None,
        Option("A function that is called with the number of further rows done.", command=False),
    ] = field(default=None, compare=False)
    protocol: Annotated[
        str | None,
        Option("The name of another protocol to use (see `shuffledp compare`).", "NAME"),
    ] = field(default=None, compare=False)
    delta: Annotated[
        ExactNumber | None, Option("δ of another protocol that is only (ε, δ)-private.", "D")
    ] = field(default=None, compare=False)
    mse_overhead: Annotated[
        ExactNumber | None,
        Option(
            "Target: mean squared error at most 1 + this times the central optimum. The default "
            "target is ½; for real sums and means ½, or the least error that 1,000 messages per "
            "user allow; for both by group 8.",
            "RHO",
        ),
    ] = None
    rmse: Annotated[
        ExactNumber | None, Option("Target: root mean squared error at most this.", "R")
    ] = None
    relative_error: Annotated[
        ExactNumber | None,
        Option(
            "In addition to one of these two targets: also allow an error of this fraction of "
            "the true value.",
            "R",
        ),
    ] = None
    max_messages: Annotated[
        ExactNumber | None,
        Option("Target: the smallest error with at most this many messages per user.", "M"),
    ] = None
    expected: Annotated[
        int | None,
        Option("How many users the error is planned for, if more than `users`.", "N"),
    ] = None

    def __post_init__(self) -> None:
        """Checks all options and stores them as exact numbers."""
        _check_missing(self.missing)
        _check_where(self.where)
        FileFormat(encoding=self.encoding, delimiter=self.delimiter)  # refuses others
        if self.progress is not None and not callable(self.progress):
            raise ParameterError("progress must be a function that takes the number of rows done.")
        checked: dict[str, Any] = {
            "epsilon": positive_as_written(self.epsilon, "epsilon"),
            "confidence": checked_confidence(self.confidence),
            "per_user": truth(self.per_user, "per_user"),
            "note": _checked_note(self.note, self.ledger),
            "ledger": _checked_ledger(self.ledger),
            "entropy": _checked_entropy(self.entropy, self.seed),
            "seed": None,  # the entropy now repeats it
        }
        for name in ("users", "rows_per_user", "expected"):
            if getattr(self, name) is not None:
                checked[name] = whole(getattr(self, name), name)
        for name in TARGETS[:-1]:
            if getattr(self, name) is not None:
                checked[name] = as_written(getattr(self, name), name)
        self._store(**checked)

    def _store(self, **checked: Any) -> None:
        """Replaces arguments by their checked values."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def changed(self, **changes: Any) -> Self:
        """The same query with other arguments."""
        return replace(self, **changes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without fields that only say how the query is run, such as its source of random
        bits; workers get those separately."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return _remade, (type(self), {k: v for k, v in given.items() if k not in RUN_DEFAULTS})

    @property
    def exact_epsilon(self) -> Fraction:
        """ε, exactly."""
        return cast(Fraction, self.epsilon)

    @property
    def open_ledger(self) -> Ledger | None:
        """The ledger that pays, opened."""
        return cast("Ledger | None", self.ledger)

    def options(self) -> dict[str, Any]:
        """These options by name, to make another query with them."""
        return {one.name: getattr(self, one.name) for one in fields(QueryOptions)}

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raises `ParameterError` if one of these options was given: `why` says what to do."""
        for option in fields(QueryOptions):
            if option.name not in names:
                continue
            value = getattr(self, option.name)  # may be an array, which != compares row by row
            if value is not option.default and (option.default is None or value != option.default):
                raise ParameterError(f"The option {option.name} cannot be used here: {why}")


RUN_DEFAULTS = {one.name: one.default for one in fields(QueryOptions) if not one.compare}
"""The defaults of all options that a plan does not depend on."""


def _remade(of: type[QueryOptions], given: dict[str, Any]) -> QueryOptions:
    return of(**given)


def _check_missing(missing: object) -> None:
    if missing is not None and not isinstance(missing, str | int | float | np.generic | Fraction):
        raise ParameterError("missing must be a value of the column's type, or the word bucket.")
    if missing == "drop":
        raise ParameterError(
            'missing="drop" is refused: the number of remaining rows would reveal who has a '
            'value, and that number is public; count them with missing="bucket", or as a value '
            "with missing=0."
        )


def _check_where(where: object) -> None:
    if isinstance(where, str):
        parsed(where)
    elif where is not None and not callable(where):
        raise ParameterError(f"where must be a condition or a function; {HELP}")


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
        raise ParameterError("A note is stored in a ledger; pass ledger=, too, or leave note out.")
    return note


def _checked_entropy(entropy: object, seed: object) -> Entropy:
    if not isinstance(entropy, Entropy):
        raise ParameterError(
            "entropy must be a source of random bits such as SeededEntropy(42); a "
            f"{type(entropy).__name__} was given: to repeat a result, use seed=."
        )
    if seed is None:
        return entropy
    if entropy is not SYSTEM:
        raise ParameterError("Pass seed or entropy, not both.")
    if isinstance(seed, np.generic) and not isinstance(seed, np.timedelta64 | np.datetime64):
        seed = seed.item()
    if isinstance(seed, bool) or not isinstance(seed, int | str):
        raise ParameterError(
            f"seed must be a whole number or a text; a {type(seed).__name__} was given."
        )
    if isinstance(seed, str) and not is_text(seed):
        raise ParameterError("seed contains half of a surrogate pair; use another text.")
    return SeededEntropy(seed)
