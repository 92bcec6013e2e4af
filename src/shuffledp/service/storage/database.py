"""What a database must be able to do; statements number their values $1, $2, …"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Value = int | str | bytes | None


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


class Database(ABC):
    """A store with one writer: transactions follow one another."""

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction, durable when the block has ended; `StorageUnavailable` if it failed."""

    @abstractmethod
    async def close(self) -> None:
        """Lets go of the database."""
