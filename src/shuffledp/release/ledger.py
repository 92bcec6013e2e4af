"""A privacy budget for several releases, exact and safe between processes.

The ledger is one JSON file. `spend` locks a file next to it, reads the ledger, decides, and
replaces it in one step, so two programs that request the last ε at the same time cannot both get
it. An entry keeps the released result, so that it can be shown again at no further cost.

Every entry has a hash of itself and the previous entry, and the file has a hash of the last entry
and the budget. A ledger with an edited, moved or removed entry is refused. Anyone who can write the
file can recompute all hashes, so keep the head elsewhere and compare it (`shuffledp ledger verify
FILE --head HASH`); the analyzer keeps it in its store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp.documents.files import lock, write_whole
from shuffledp.documents.json_text import read_json
from shuffledp.errors import BudgetExceeded, LedgerBroken, ParameterError, SeededError
from shuffledp.numbers.exact import ExactNumber, exact, positive_as_written, show

LEDGER_FORMAT = "shuffledp ledger 2"
UNCHAINED_FORMAT = "shuffledp ledger 1"
"""The format of shuffledp 0.2: entries without hashes."""
MOST_LEDGER_BYTES = 256 << 20
MOST_KEPT_BYTES = 64 << 20
"""Longer files are read each time, because what was read needs several times as much memory."""
ENTRY_FIELDS = {"epsilon", "what", "when", "note", "result", "result_sha256", "hash"}
BOOK_FIELDS = {"format", "budget", "entries", "head"}


def _digest(data: Any) -> str:
    """SHA-256 of JSON data in one form, in hexadecimal."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


START = _digest(LEDGER_FORMAT)
"""The hash before the first entry."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release: what it cost and what it was for."""

    epsilon: Fraction
    what: str
    when: str
    note: str = ""
    """The caller's note."""
    result: Mapping[str, Any] | None = None
    """What was released: `Result.to_dict` of a query, or what the analyzer published for a batch.
    None for entries that were made by hand, and after `Ledger.forget`."""
    result_sha256: str = ""
    """The hash of the result, which stays when the result is forgotten."""
    hash: str = field(default="", compare=False)
    """The hash of this entry and the one before it."""

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ParameterError("A ledger's entry must cost more than ε = 0; use its true ε.")
        if self.result is not None and self.epsilon < _epsilon_of(self.result):
            raise ParameterError(
                "A ledger's entry must cost at least the ε of its result; charge the result's ε."
            )

    def to_dict(self) -> dict[str, Any]:
        """The entry as a JSON object."""
        entry = self._facts()
        if self.result is not None:
            entry["result"] = self.result
        return {**entry, "hash": self.hash}

    def _facts(self) -> dict[str, Any]:
        """The data that is hashed; it includes the result's hash instead of the result."""
        facts = {"epsilon": str(self.epsilon), "what": self.what, "when": self.when}
        optional = {"note": self.note, "result_sha256": self.result_sha256}
        return {**facts, **{name: text for name, text in optional.items() if text}}

    def after(self, before: str) -> Entry:
        """The entry with its hashes, following an entry with the hash `before`."""
        shown = self
        if self.result is not None:
            shown = replace(self, result_sha256=_digest(self.result))
        return replace(shown, hash=_digest([before, shown._facts()]))

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Entry:
        """The entry from its JSON, exactly as `to_dict` writes it."""
        unknown = set(row) - ENTRY_FIELDS
        if unknown or any(not isinstance(row[name], str) for name in set(row) - {"result"}):
            raise LedgerBroken("an entry has fields that shuffledp did not write")
        return cls(
            epsilon=_as_written(row["epsilon"], "ε"),
            what=row["what"],
            when=row["when"],
            note=row.get("note", ""),
            result=row.get("result"),
            result_sha256=row.get("result_sha256", ""),
            hash=row.get("hash", ""),
        )


def _epsilon_of(result: Mapping[str, Any]) -> Fraction:
    """The ε of a query's result, or of the result that was published for a batch; 0 if it has
    none."""
    inner = result.get("result", result)
    rounded, written = inner.get("epsilon", 0), inner.get("epsilon_exact")
    if written is None:
        return exact(str(rounded), "ε")
    epsilon = exact(written, "ε")
    if "epsilon" in inner and rounded != float(epsilon):
        raise ParameterError(
            "The result has two different values of ε; charge a result as it was released."
        )
    return epsilon


def _as_written(text: object, name: str) -> Fraction:
    """The number that a ledger's text says; refuses any other spelling of it."""
    number = exact(str(text), name)
    if text != str(number):
        raise LedgerBroken(f"{name} is not written as shuffledp writes it")
    return number


@dataclass(frozen=True)
class Book:
    """The contents of a ledger's file."""

    budget: Fraction
    entries: tuple[Entry, ...] = ()

    @property
    def last(self) -> str:
        """The hash of the last entry."""
        return self.entries[-1].hash if self.entries else START

    @property
    def head(self) -> str:
        """The hash of everything in the file."""
        return _digest([self.last, str(self.budget)])

    @property
    def spent(self) -> Fraction:
        """The ε of all entries, added up."""
        return sum((entry.epsilon for entry in self.entries), start=Fraction(0))

    def find(self, what: str) -> Entry | None:
        """The first entry for this release; None if there is none."""
        return next((entry for entry in self.entries if entry.what == what), None)

    def with_entry(self, entry: Entry) -> Book:
        """The same with one more entry."""
        return replace(self, entries=(*self.entries, entry.after(self.last)))

    def to_dict(self) -> dict[str, Any]:
        """The file's JSON data."""
        return {
            "format": LEDGER_FORMAT,
            "budget": str(self.budget),
            "entries": [entry.to_dict() for entry in self.entries],
            "head": self.head,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Book:
        """The book from its JSON; raises `LedgerBroken` if a hash does not match."""
        if set(data) != BOOK_FIELDS:
            raise LedgerBroken("it has fields that shuffledp did not write")
        book = cls(_as_written(data["budget"], "the budget"))
        if book.budget <= 0:
            raise ValueError
        entries, before = [], START
        for number, row in enumerate(data["entries"], start=1):
            try:
                entry = Entry.from_dict(row)
            except LedgerBroken as error:
                raise LedgerBroken(f"line {number}: {error}") from None
            except ParameterError:
                raise LedgerBroken(f"line {number} costs no ε, or less than its result") from None
            expected = entry.after(before)
            if (expected.hash, expected.result_sha256) != (entry.hash, entry.result_sha256):
                raise LedgerBroken(
                    f"line {number} was edited, or a line before it was removed or moved"
                )
            entries.append(entry)
            before = entry.hash
        book = replace(book, entries=tuple(entries))
        if data["head"] != book.head:
            raise LedgerBroken("its last lines were removed, or its budget was edited")
        return book


class Ledger:
    """A privacy budget on disk. The ε of all releases about the same users add up (pure ε-DP).

    >>> import shuffledp, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = shuffledp.Ledger.create(f"{folder.name}/budget.json", 3)
    >>> found = shuffledp.count([True, False], epsilon=1, ledger=ledger)
    >>> ledger.remaining()
    Fraction(2, 1)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, keep: bool = False) -> None:
        """`keep`: what was read stays in memory, and is read again only if the file is another one.
        Then the results that this ledger returns, and those that it is given, must not be changed.
        """
        self.path = Path(path).resolve()  # all processes lock the same file, even through a link
        self._keep = keep
        self._kept: tuple[tuple[int, ...], Book] | None = None
        """What identified the file when it was read or written last, and its contents."""

    @classmethod
    def create(cls, path: str | Path, budget: ExactNumber) -> Ledger:
        """A new ledger with this ε to spend; refuses to replace a file."""
        ledger = cls(path)
        total = positive_as_written(budget, "the budget")
        with ledger._locked():
            if ledger.path.exists():
                raise ParameterError(f"{path} exists; use it, or choose another name.")
            ledger._write(Book(total))
        return ledger

    @property
    def budget(self) -> Fraction:
        """The ε that all releases together may cost."""
        return self.read().budget

    def entries(self) -> list[Entry]:
        """All recorded releases, oldest first."""
        return list(self.read().entries)

    def spent(self) -> Fraction:
        """The ε of all releases so far, added up."""
        return self.read().spent

    def remaining(self) -> Fraction:
        """The ε that is left to spend."""
        book = self.read()
        return book.budget - book.spent

    def verify(self, head: str | None = None) -> str:
        """The hash of the newest entry, after every hash was checked.

        Ensures: raises `LedgerBroken` if an entry was edited, moved or removed, or if no entry has
        the hash `head`, which an earlier call returned.
        """
        book = self.read()
        if head is not None and head not in {START, *(entry.hash for entry in book.entries)}:
            raise self._broken("it does not continue from this head, so lines were rewritten")
        return book.last

    def check(self, epsilon: ExactNumber, *, seeded: bool = False) -> None:
        """Raises what `spend` would raise now, and records nothing."""
        self._check_left(_checked_cost(epsilon, seeded), self.read())

    def spend(
        self,
        epsilon: ExactNumber,
        what: str,
        *,
        seeded: bool = False,
        note: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> Fraction:
        """Records a release, with its result if given, and returns what remains of the budget.

        Ensures: raises `BudgetExceeded` and records nothing if it is more than what remains;
        on return the entry is on disk.
        """
        cost = _checked_cost(epsilon, seeded)
        entry = Entry(epsilon=cost, what=what, when=ledger_time(), note=note, result=result)
        with self._locked():
            book = self._add(entry, self.read())
        return book.budget - book.spent

    def find(self, what: str) -> Entry | None:
        """The entry of this release; None if it was not charged."""
        return self.read().find(what)

    def spend_once(self, epsilon: ExactNumber, what: str, result: Mapping[str, Any]) -> Entry:
        """Records a release unless it is already recorded, and returns the entry on disk.

        Ensures: as `spend`; all calls with the same `what`, even in several processes, return the
        result of the first.
        """
        cost = _checked_cost(epsilon, seeded=False)
        entry = Entry(epsilon=cost, what=what, when=ledger_time(), result=result)
        with self._locked():
            book = self.read()
            return book.find(what) or self._add(entry, book).entries[-1]

    def _add(self, entry: Entry, book: Book) -> Book:
        """Writes one more entry, and returns what is then in the file. Requires: the lock."""
        self._check_left(entry.epsilon, book)
        book = book.with_entry(entry)
        self._write(book)
        return book

    def _check_left(self, cost: Fraction, book: Book) -> None:
        """Raises `BudgetExceeded` if one more release costs more than what remains."""
        left = book.budget - book.spent
        if cost > left:
            raise BudgetExceeded(
                f"This release costs ε = {show(cost)} but the ledger {self.path.name} has "
                f"{show(left)} left of {show(book.budget)}; nothing was released: use a smaller "
                "epsilon."
            )

    def raise_budget(self, budget: ExactNumber) -> None:
        """Replaces the budget with a larger one; entries and their results stay."""
        total = positive_as_written(budget, "the budget")
        with self._locked():
            book = self.read()
            if total <= book.budget:
                raise ParameterError(
                    f"The budget of {self.path.name} is {show(book.budget)}; set a larger one."
                )
            self._write(replace(book, budget=total))

    def forget(self, lines: Collection[str]) -> None:
        """Deletes the results of these entries. The entries, their ε and the hashes of the results
        stay, so that they cannot be released again."""
        with self._locked():
            book = self.read()
            kept = [
                replace(entry, result=None) if entry.what in lines else entry
                for entry in book.entries
            ]
            if kept != list(book.entries):
                self._write(replace(book, entries=tuple(kept)))

    def restore(self, budget: ExactNumber, lines: Sequence[Entry], spent: Fraction) -> int:
        """Writes the entries that are missing after a loss, creating the ledger with this budget if
        there is none, and returns how many were missing.

        Ensures: on return the ledger has every entry and has spent at least `spent`; spending whose
        purpose is unknown becomes a separate entry. The budget may be exceeded, since these
        releases were made.
        """
        with self._locked():
            missing_file = not self.path.exists()
            book = Book(positive_as_written(budget, "the budget")) if missing_file else self.read()
            before = len(book.entries)
            for entry in lines:
                if book.find(entry.what) is None:
                    book = book.with_entry(entry)
            if book.spent < spent:
                what = "releases whose lines were lost"
                book = book.with_entry(
                    Entry(epsilon=spent - book.spent, what=what, when=ledger_time())
                )
            if missing_file or len(book.entries) > before:
                self._write(book)
            return len(book.entries) - before

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the ledger's lock; a process that ends releases it."""
        try:
            held = lock(self.path.with_name(f"{self.path.name}.lock"))
            held.acquire()
        except OSError as error:
            raise ParameterError(
                f"The ledger {self.path} cannot be locked ({error.strerror}); check its folder."
            ) from None
        try:
            yield
        finally:
            held.release()

    def read(self) -> Book:
        """Everything in the file, after every hash was checked."""
        found, kept = self._identity(), self._kept
        if kept is not None and kept[0] == found:
            return kept[1]
        book = self._read()
        self._remember(found, book)
        return book

    def _identity(self) -> tuple[int, ...]:
        """What changes whenever the file is replaced or written to; empty if there is none."""
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _remember(self, identity: tuple[int, ...], book: Book) -> None:
        if self._keep and identity:
            self._kept = (identity, book) if identity[2] <= MOST_KEPT_BYTES else None

    def _read(self) -> Book:
        data = self._data()
        if data.get("format") == UNCHAINED_FORMAT:
            raise ParameterError(
                f"{self.path} was written by shuffledp 0.2, whose ledgers have no hashes; nothing "
                "was spent: create a new ledger with the budget that is left."
            )
        with self._understood():
            if data["format"] != LEDGER_FORMAT:
                raise ValueError
            return Book.from_dict(data)

    def _data(self) -> dict[str, Any]:
        """The file's JSON data."""
        try:
            with open(self.path, "rb") as file:
                text = file.read(MOST_LEDGER_BYTES + 1)
        except FileNotFoundError:
            raise ParameterError(
                f"There is no ledger {self.path}; create one with: "
                f"shuffledp ledger create {self.path} --budget 1."
            ) from None
        except OSError:
            raise self._foreign() from None
        with self._understood():
            return dict(read_json(text, "The ledger", MOST_LEDGER_BYTES))

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Turns errors about the file's data into one clear sentence."""
        try:
            yield
        except LedgerBroken as error:
            raise self._broken(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
            raise self._foreign() from None

    def _broken(self, how: str) -> LedgerBroken:
        return LedgerBroken(
            f"The ledger {self.path.name} was changed by hand: {how}; nothing was spent: restore "
            "the file as shuffledp wrote it."
        )

    def _foreign(self) -> ParameterError:
        return ParameterError(
            f"{self.path} is not a ledger of shuffledp; nothing was spent: check the file."
        )

    def _write(self, book: Book) -> None:
        text = json.dumps(book.to_dict(), indent=2, allow_nan=False)
        write_whole(self.path, text, durable=True)
        self._remember(self._identity(), book)


def ledger_time() -> str:
    """The current time in the format of entries, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _checked_cost(epsilon: ExactNumber, seeded: bool) -> Fraction:
    if seeded:
        raise SeededError(
            "A seeded result is not private, so a ledger does not record it; run without a seed."
        )
    return positive_as_written(epsilon, "epsilon")
