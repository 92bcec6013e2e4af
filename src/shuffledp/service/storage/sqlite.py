"""SQLite through apsw: WAL, synchronous=FULL, one connection in one thread of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from shuffledp.errors import MissingExtra
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.storage.database import Database, Row, Rows, Transaction, Value
from shuffledp.service.storage.schema import migrate

try:
    import apsw
except ImportError:
    raise MissingExtra("apsw", "service") from None

WORDS = {"BYTES": "BLOB", "KEYED": "WITHOUT ROWID", "ROWID": "INTEGER"}
SETTINGS = (
    "PRAGMA page_size=4096",
    "PRAGMA locking_mode=EXCLUSIVE",  # one service per file; before WAL, see its docs
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA secure_delete=ON",
    "PRAGMA cache_size=-131072",
    "PRAGMA wal_autocheckpoint=1000",
)

PATIENCE = 10_000
"""Milliseconds to wait for a predecessor that is still ending."""

T = TypeVar("T")


class SqliteTransaction(Transaction):
    """Statements between BEGIN and COMMIT."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        text = re.sub(r"\$(\d+)", r"?\1", sql)
        return await self._database.call(
            lambda connection: list(connection.execute(text, values))
        )

    async def present(self, *wanted: Rows) -> list[set[Row]]:
        def look(connection: Any) -> list[set[Row]]:
            return [set(connection.executemany(_select(one), one.rows)) for one in wanted]

        return await self._database.call(look)

    async def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], key: int = 1
    ) -> set[int]:
        sql = f"{_insert(table, columns)} ON CONFLICT DO NOTHING"

        def run(connection: Any) -> set[int]:
            fresh = set()
            for place, row in enumerate(rows):
                connection.execute(sql, row)
                if connection.changes():
                    fresh.add(place)
            return fresh

        return await self._database.call(run)

    async def append(self, *added: Rows) -> None:
        def add(connection: Any) -> None:
            for one in added:
                connection.executemany(_insert(one.table, one.columns), one.rows)

        await self._database.call(add)


def _select(one: Rows) -> str:
    test = " AND ".join(f"{column}=?" for column in one.columns)
    return f"SELECT {', '.join(one.columns)} FROM {one.table} WHERE {test}"


def _insert(table: str, columns: Sequence[str]) -> str:
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


class SqliteDatabase(Database):
    """One file, one writer."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._lock = asyncio.Lock()
        self._connection: Any = None

    @classmethod
    async def open(cls, path: str, role: str) -> SqliteDatabase:
        """The database at a path; made if there is none."""
        database = cls(path)
        try:
            await database.call(lambda _: database._connect())
            async with database.transaction() as transaction:
                await migrate(transaction, role, WORDS)
        except BaseException:
            await database.close()
            raise
        return database

    def _connect(self) -> None:
        try:
            self._connection = apsw.Connection(self._path)
            self._connection.set_busy_timeout(PATIENCE)
            for setting in SETTINGS:
                self._connection.execute(setting)
        except (apsw.CantOpenError, apsw.BusyError):
            raise ConfigError(
                "The SQLite store cannot be opened: its folder is missing or not writable, or "
                "another service uses the file; give every service a file of its own."
            ) from None

    async def call(self, work: Callable[[Any], T]) -> T:
        """Runs `work` with the connection, in its thread."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, lambda: work(self._connection))
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.BusyError) as error:
            raise StorageUnavailable(
                f"The store cannot be written ({type(error).__name__}); "
                "nothing was acknowledged: make room on its disk."
            ) from None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._lock:
            await self.call(lambda connection: connection.execute("BEGIN IMMEDIATE"))
            try:
                yield SqliteTransaction(self)
                await self.call(lambda connection: connection.execute("COMMIT"))
            except BaseException:
                await asyncio.shield(self.call(_roll_back))
                raise

    async def close(self) -> None:
        if self._connection is not None:
            await self.call(lambda connection: connection.close())
        self._thread.shutdown()


def _roll_back(connection: Any) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
