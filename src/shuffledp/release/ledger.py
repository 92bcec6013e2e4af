"""A privacy budget that several releases are paid from, exact and safe between processes.

The ledger is one JSON file. `spend` locks a file beside it, reads the ledger, decides, and replaces
it in one step, so that two programs that ask for the last ε at the same time cannot both get it.
An entry keeps the released result, so that it can be shown again at no further cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp.documents.files import lock, write_whole
from shuffledp.documents.json_text import read_json
from shuffledp.errors import BudgetExceeded, ParameterError, SeededError
from shuffledp.numbers.exact import ExactNumber, exact, positive_as_written, show

LEDGER_FORMAT = "shuffledp ledger 1"
MOST_LEDGER_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release: what it cost and what it was for."""

    epsilon: Fraction
    what: str
    when: str
    note: str = field(default="", kw_only=True)
    """What the caller added."""
    result: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """What was released, as `Result.to_dict` gives it; None for releases that can be repeated from
    their batch, and for entries that were made by hand."""

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON can hold it."""
        entry: dict[str, Any] = {
            "epsilon": str(self.epsilon),
            "what": self.what,
            "when": self.when,
        }
        if self.note:
            entry["note"] = self.note
        return entry if self.result is None else {**entry, "result": self.result}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Entry:
        """The entry behind its JSON."""
        return cls(
            epsilon=exact(str(row["epsilon"]), "ε"),
            what=row["what"],
            when=row["when"],
            note=row.get("note", ""),
            result=row.get("result"),
        )


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

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()  # everybody locks the same file, also through a link

    @classmethod
    def create(cls, path: str | Path, budget: ExactNumber) -> Ledger:
        """A new ledger with this ε to spend; refuses to replace a file."""
        ledger = cls(path)
        total = positive_as_written(budget, "the budget")
        with ledger._locked():
            if ledger.path.exists():
                raise ParameterError(f"{path} exists; use it, or choose another name.")
            ledger._write(total, [])
        return ledger

    @property
    def budget(self) -> Fraction:
        """The ε that all releases together may cost."""
        return self._read()[0]

    def entries(self) -> list[Entry]:
        """All releases that were paid for, oldest first."""
        return self._read()[1]

    def spent(self) -> Fraction:
        """The ε of all releases so far, added up."""
        return _spent(self.entries())

    def remaining(self) -> Fraction:
        """The ε that is left to spend."""
        return self.budget - self.spent()

    def check(
        self, epsilon: ExactNumber, what: str, *, seeded: bool = False, once: bool = False
    ) -> None:
        """Raises what `spend` would raise now, and records nothing."""
        cost = _checked_cost(epsilon, seeded)
        budget, entries = self._read()
        if not (once and _says(entries, what)):
            self._left_after(cost, budget, entries)

    def spend(
        self,
        epsilon: ExactNumber,
        what: str,
        *,
        seeded: bool = False,
        once: bool = False,
        note: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> Fraction:
        """Records a release, with its result if given, and returns what remains of the budget.

        With `once`, an entry with the same `what` covers this release too, and nothing is recorded
        again.

        Ensures: raises `BudgetExceeded` and records nothing if it is more than what remains;
        on return the entry is on disk.
        """
        cost = _checked_cost(epsilon, seeded)
        with self._locked():
            budget, entries = self._read()
            if once and _says(entries, what):
                return budget - _spent(entries)
            left = self._left_after(cost, budget, entries)
            when = datetime.now(UTC).isoformat(timespec="seconds")
            entry = Entry(epsilon=cost, what=what, when=when, note=note, result=result)
            self._write(budget, [*entries, entry])
            return left

    def _left_after(self, cost: Fraction, budget: Fraction, entries: list[Entry]) -> Fraction:
        """What remains after one more release; raises `BudgetExceeded` if that is below 0."""
        left = budget - _spent(entries)
        if cost > left:
            raise BudgetExceeded(
                f"This release costs ε = {show(cost)} but the ledger {self.path.name} has "
                f"{show(left)} left of {show(budget)}; nothing was released: use a smaller epsilon."
            )
        return left - cost

    def restore(self, budget: ExactNumber, lines: Mapping[str, Fraction], spent: Fraction) -> int:
        """Writes the lines (what: ε) that are missing after a loss, creating the ledger with this
        budget if there is none, and returns how many were missing.

        Ensures: on return the ledger has every line, and has spent at least `spent`: what is known
        to have been spent, but not for what, becomes a separate line. The budget may be exceeded,
        since these releases were made.
        """
        with self._locked():
            missing_file = not self.path.exists()
            total, entries = (
                (positive_as_written(budget, "the budget"), []) if missing_file else self._read()
            )
            known = {entry.what for entry in entries}
            when = datetime.now(UTC).isoformat(timespec="seconds")
            added = [
                Entry(epsilon=epsilon, what=what, when=when)
                for what, epsilon in lines.items()
                if what not in known
            ]
            have = _spent([*entries, *added])
            if have < spent:
                added.append(
                    Entry(epsilon=spent - have, what="releases whose lines were lost", when=when)
                )
            if added or missing_file:
                self._write(total, [*entries, *added])
            return len(added)

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

    def _read(self) -> tuple[Fraction, list[Entry]]:
        try:
            with open(self.path, "rb") as file:
                text = file.read(MOST_LEDGER_BYTES + 1)
            data = read_json(text, "The ledger", MOST_LEDGER_BYTES)
            if data["format"] != LEDGER_FORMAT:
                raise ValueError
            entries = [Entry.from_dict(row) for row in data["entries"]]
            return exact(str(data["budget"]), "the budget"), entries
        except FileNotFoundError:
            raise ParameterError(
                f"There is no ledger {self.path}; create one with: "
                f"shuffledp ledger create {self.path} --budget 1."
            ) from None
        except (ValueError, KeyError, TypeError, ZeroDivisionError, OSError):
            raise ParameterError(
                f"{self.path} is not a ledger of shuffledp; nothing was spent: check the file."
            ) from None

    def _write(self, budget: Fraction, entries: list[Entry]) -> None:
        data: dict[str, Any] = {
            "format": LEDGER_FORMAT,
            "budget": str(budget),
            "entries": [entry.to_dict() for entry in entries],
        }
        write_whole(self.path, json.dumps(data, indent=2), durable=True)


def _checked_cost(epsilon: ExactNumber, seeded: bool) -> Fraction:
    if seeded:
        raise SeededError(
            "A seeded result is not private, so a ledger does not record it; run without a seed."
        )
    return positive_as_written(epsilon, "epsilon")


def _says(entries: list[Entry], what: str) -> bool:
    return any(entry.what == what for entry in entries)


def _spent(entries: list[Entry]) -> Fraction:
    return sum((entry.epsilon for entry in entries), start=Fraction(0))
