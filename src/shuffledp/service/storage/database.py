"""What a database must be able to do; statements number their values $1, $2, …"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Row = tuple[Any, ...]
Value = int | str | bytes | None
T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """Rows of some columns of a table, to look for or to add."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


class Transaction(ABC):
    """Statements that take effect together or not at all."""

    @abstractmethod
    async def rows(self, sql: str, *values: Value) -> list[Row]:
        """What a statement returns."""

    @abstractmethod
    async def present(self, *wanted: Rows) -> list[set[Row]]:
        """Which of the wanted rows are there, table by table, in one go."""

    @abstractmethod
    async def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], key: int = 1
    ) -> set[int]:
        """Adds rows, leaving out those whose key (the first `key` columns) is there already, and
        gives the places of the rows that were new."""

    @abstractmethod
    async def append(self, *added: Rows) -> None:
        """Adds rows whose keys are known to be new, in one go."""

    async def run(self, sql: str, *values: Value) -> None:
        """A statement whose rows are of no interest."""
        await self.rows(sql, *values)


Work = Callable[[Transaction], Coroutine[Any, Any, T]]
"""What is done in a transaction; it waits for nothing but the transaction's own methods."""


class Database(ABC):
    """A store with one writer: transactions follow one another."""

    failures = 0
    """How many transactions have failed. Whether such a one took effect, only the database knows:
    it may have been heard and its answer lost. Counted before the next one begins."""

    @abstractmethod
    async def run(self, work: Work[T]) -> T:
        """What `work` gives, its changes durable; or `StorageUnavailable`, and nothing changed."""

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        """What one statement returns, in a transaction of its own."""
        return await self.run(lambda transaction: transaction.rows(sql, *values))

    @abstractmethod
    async def joined(self, table: str, column: str, key: str, low: int, high: int) -> bytes:
        """All bytes of a column where low ≤ key < high, one after the other; getting at them
        holds up the writer as little as can be."""

    @abstractmethod
    async def close(self) -> None:
        """Lets go of the database."""
