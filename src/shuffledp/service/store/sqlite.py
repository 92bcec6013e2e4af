"""SQLite through apsw: WAL, synchronous=FULL, one connection in a dedicated thread.

A lock file next to the database allows one process at a time. Others may read: a backup sees a
consistent snapshot while the service keeps writing.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
from filelock import BaseFileLock

from shuffledp.service.blocking import run_blocking
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.store.database import Database, Row, Rows, T, Transaction, Value, Work
from shuffledp.service.store.private import lock_file, private_file
from shuffledp.service.store.schema import Schema, check_role, migrate

SCHEMA_WORDS = {
    "BYTES": "BLOB",
    "KEYED": "WITHOUT ROWID",
    "REPORTS_KEY": "",  # `used` keeps names apart; an index of them would cost a page each
    "REPORTS_STORAGE": "CREATE INDEX reports_of_batch ON reports (task, batch)",
    "OFTEN_UPDATED": "",
    "RANDOM_BYTES": "randomblob(16)",
}
PRAGMAS = (
    "PRAGMA page_size=4096",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA secure_delete=ON",
    "PRAGMA cache_size=-32768",  # a larger one was slower: pages are written once
    "PRAGMA mmap_size=1073741824",  # reads only: nearly a tenth more uploads
    "PRAGMA wal_autocheckpoint=3000",  # more at once lengthens the slowest commits
)

BUSY_MILLISECONDS = 10_000
"""How long to wait for a predecessor that is still ending."""


class SqliteTransaction(Transaction):
    """The statements between BEGIN and COMMIT; they run in the store's thread and never wait."""

    dialect = "sqlite"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        return list(self._connection.execute(re.sub(r"\$(\d+)", r"?\1", sql), values))

    async def present(self, *wanted: Rows) -> list[set[Row]]:
        return [self._stored(one) for one in wanted]

    def _stored(self, wanted: Rows) -> set[Row]:
        if not wanted.rows:
            return set()
        given, values = _packed(wanted.rows)
        test = " AND ".join(map("{} = {}".format, wanted.columns, given))
        ((positions,),) = self._connection.execute(
            "SELECT group_concat(key) FROM json_each(?1) "
            f"WHERE EXISTS (SELECT 1 FROM {wanted.table} WHERE {test})",
            values,
        )
        return {wanted.rows[int(one)] for one in (positions or "").split(",") if one}

    async def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], key: int = 1
    ) -> set[int]:
        names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        fresh = set()
        for position, row in enumerate(rows):
            self._connection.execute(sql, row)
            if self._connection.changes():
                fresh.add(position)
        return fresh

    async def append(self, *added: Rows) -> None:
        for one in added:
            if one.rows:
                given, values = _packed(one.rows)
                self._connection.execute(
                    f"INSERT INTO {one.table} ({', '.join(one.columns)}) "
                    f"SELECT {', '.join(given)} FROM json_each(?1)",
                    values,
                )


def _packed(rows: Sequence[Row]) -> tuple[list[str], tuple[str, bytes]]:
    """Many rows for one statement: (the SQL of each column's value; two values to bind). All bytes
    are joined into one long value, and JSON says where in it each value begins and ends. SQLite
    then reads row after row without Python's global lock, so the event loop keeps running."""
    located, texts, at = [], [], 1
    for row in rows:
        cells: list[Value] = []
        for value in row:
            if isinstance(value, bytes):
                cells += (at, len(value))
                texts.append(value)
                at += len(value)
            else:
                cells.append(value)
        located.append(cells)
    given, cell = [], 0
    for value in rows[0]:
        if isinstance(value, bytes):
            given.append(f"substr(?2, value->>{cell}, value->>{cell + 1})")
        else:
            given.append(f"value->>{cell}")
        cell += 2 if isinstance(value, bytes) else 1
    return given, (json.dumps(located), b"".join(texts))


class SqliteDatabase(Database):
    """An SQLite database in a file, with one connection in a dedicated thread."""

    now = "unixepoch()"

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._connection: Any = None
        self._lock: BaseFileLock | None = None

    @classmethod
    async def open(cls, path: str, schema: Schema) -> SqliteDatabase:
        """The database in a file, which is made if there is none, migrated to the schema."""
        database = cls(path)
        try:
            await database._call(database._connect)
            await database.run(lambda transaction: migrate(transaction, schema, SCHEMA_WORDS))
        except BaseException:
            await database.close()
            raise
        return database

    def _connect(self) -> None:
        self._lock = lock_store(self._path, BUSY_MILLISECONDS / 1000)
        try:
            private_file(Path(self._path))  # its log gets the same rights
            self._connection = apsw.Connection(self._path)
            self._connection.set_busy_timeout(BUSY_MILLISECONDS)
            for setting in PRAGMAS:
                self._connection.execute(setting)
        except (OSError, apsw.CantOpenError, apsw.BusyError) as error:
            raise ConfigError(
                f"The SQLite store {self._path} cannot be opened ({reason(error)}); its folder "
                "must exist and be writable."
            ) from None
        except apsw.NotADBError:
            raise ConfigError(
                f"The file {self._path} is not an SQLite database; choose another file."
            ) from None

    async def run(self, work: Work[T], *, atomic: bool = True) -> T:
        self.check_open()
        return await self._call(lambda: self._transact(work))

    def _transact(self, work: Work[T]) -> T:
        """Runs a whole transaction in the store's thread, which is entered once and not at every
        statement."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = run_blocking(work(SqliteTransaction(self._connection)))
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return result

    async def _call(self, work: Callable[[], T]) -> T:
        """Runs `work` in the connection's thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (
            OSError,
            apsw.FullError,
            apsw.IOError,
            apsw.ReadOnlyError,
            apsw.BusyError,
        ) as error:
            raise StorageUnavailable(
                f"The store cannot be written ({type(error).__name__}); "
                "nothing was acknowledged: free space on its disk."
            ) from None

    async def _close(self) -> None:
        if self._connection is not None:
            await self._call(self._connection.close)
        self._thread.shutdown()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def lock_store(path: str, seconds: float) -> BaseFileLock:
    """The lock that a service holds on its SQLite file while it runs."""
    try:
        lock = lock_file(Path(f"{path}.lock"), seconds)
    except OSError as error:
        raise ConfigError(
            f"The SQLite store {path} cannot be opened ({reason(error)}); its folder must exist "
            "and be writable."
        ) from None
    if lock is None:
        raise ConfigError(
            f"The SQLite store {path} is in use by another service; stop it, or use a "
            "separate file for every service."
        )
    return lock


def check_file(path: str, role: str) -> None:
    """Raises `ConfigError` unless a role's server could open this file now; makes no database."""
    try:
        with tempfile.TemporaryFile(dir=Path(path).absolute().parent):
            pass
        if not Path(path).exists():
            return
        lock_store(path, 0).release()
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            known = "SELECT 1 FROM sqlite_schema WHERE name = 'schema_version'"
            made = list(connection.execute(known))
            rows = list(connection.execute("SELECT role FROM schema_version")) if made else []
        finally:
            connection.close()
    except (OSError, apsw.Error) as error:
        raise ConfigError(
            f"The SQLite store {path} cannot be opened ({reason(error)}); use a file in a folder "
            "that exists and is writable; the file must be a database or not exist yet."
        ) from None
    check_role([row[0] for row in rows], role)


def reason(error: Exception) -> str:
    """Why a file cannot be used, without its path."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else type(error).__name__
