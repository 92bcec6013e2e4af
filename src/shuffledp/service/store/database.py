"""The interface to SQLite and PostgreSQL; statements number their values $1, $2, …"""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from shuffledp.service.errors import KeyTaken, StorageUnavailable

Row = tuple[Any, ...]
Value = int | str | bytes | None
T = TypeVar("T")
PAGE_ROWS = 5000
"""The most rows that one transaction deletes."""
PROOF_BYTES = 8192
"""Written to test whether the disk accepts data: as much as a report and its entries."""
PROOF_SECONDS = 2.0
"""Seconds for which a successful write test is reused, so that frequent checks cost little."""


@dataclass(frozen=True)
class Rows:
    """Rows of a table, in some of its columns, to look for or to add."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


class Transaction(ABC):
    """Statements that take effect together or not at all."""

    dialect: ClassVar[str]
    """sqlite or postgresql, where the SQL has to differ."""

    @abstractmethod
    async def rows(self, sql: str, *values: Value) -> list[Row]:
        """The rows that a statement returns."""

    @abstractmethod
    async def present(self, *wanted: Rows) -> list[set[Row]]:
        """Those of the wanted rows that are stored, table by table."""

    @abstractmethod
    async def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], key: int = 1
    ) -> set[int]:
        """Adds rows, leaving out those whose key (the first `key` columns) exists, and returns the
        positions of the new rows."""

    async def append(self, *added: Rows) -> None:
        """Adds rows whose keys are known to be new."""
        for one in added:
            new = await self.insert(one.table, one.columns, one.rows, key=len(one.columns))
            if len(new) < len(one.rows):
                raise KeyTaken("Another process has stored the same; look again.")

    def atomic(self) -> AbstractAsyncContextManager[object]:
        """Within it, statements take effect together even if the work is not atomic."""
        return contextlib.nullcontext()

    async def run(self, sql: str, *values: Value) -> None:
        """Runs a statement whose rows are not needed."""
        await self.rows(sql, *values)


Work = Callable[[Transaction], Coroutine[Any, Any, T]]
"""A function that runs in a transaction; it awaits only the transaction's own methods."""


class Database(ABC):
    """A database. A shared one is used by several processes at the same time, and runs several
    transactions of each; any other runs one transaction after the other."""

    closed = False
    shared = False
    now: str
    """SQL for the database's own clock, in whole seconds since 1970."""
    on_session: Callable[[Transaction], Awaitable[None]] | None = None
    """Called at the beginning of every new session with the database, every statement a separate
    transaction; if it raises, the session is not used."""

    @abstractmethod
    async def run(self, work: Work[T], *, atomic: bool = True) -> T:
        """The value that `work` returns, after its changes are durable. Raises `StorageUnavailable`
        if they could not be stored, or if the response was lost: then only the database knows
        whether they were. Raises `KeyTaken`, and stores nothing, if another connection stored one
        of the keys first. Without `atomic`, every statement may be a separate transaction."""

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        """The rows that one statement returns, in a separate transaction."""
        return await self.run(lambda transaction: transaction.rows(sql, *values))

    async def delete(self, table: str, keys: Sequence[str], where: str, *values: Value) -> int:
        """Deletes the rows that meet a condition, few in each transaction so that others need not
        wait long; returns how many. `keys` are the columns of the table's key."""
        names, gone = ", ".join(keys), 0
        sql = (
            f"DELETE FROM {table} WHERE ({names}) IN "
            f"(SELECT {names} FROM {table} WHERE {where} LIMIT {PAGE_ROWS}) RETURNING 1"
        )
        while found := len(await self.rows(sql, *values)):
            gone += found
        return gone

    _proved = float("-inf")

    async def prove_writable(self) -> None:
        """Writes a little, durably, unless that was done a moment ago; raises `StorageUnavailable`
        if the disk is full or the database cannot be reached."""
        if time.monotonic() - self._proved < PROOF_SECONDS:
            return
        filler = os.urandom(PROOF_BYTES)
        await self.rows("UPDATE health SET filler = $1 WHERE id = 1", filler)
        self._proved = time.monotonic()

    async def close(self) -> None:
        """Closes all connections; later requests raise `StorageUnavailable`."""
        if not self.closed:
            self.closed = True
            await self._close()

    @abstractmethod
    async def _close(self) -> None:
        """Closes all connections."""

    def check_open(self) -> None:
        """Raises `StorageUnavailable` after `close`."""
        if self.closed:
            raise StorageUnavailable("The server is shutting down; nothing was acknowledged.")
