"""PostgreSQL through asyncpg.

An exclusive database has one connection, which holds an advisory lock while its service runs.
A shared one has several connections and may be used by any number of processes; the database's rows
and keys decide everything that they must agree on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from shuffledp.errors import MissingExtra
from shuffledp.service.errors import ConfigError, KeyTaken, StorageUnavailable
from shuffledp.service.store.database import Database, Row, Rows, T, Transaction, Value, Work
from shuffledp.service.store.schema import Schema, check_role, migrate

try:
    import asyncpg
except ImportError:
    raise MissingExtra("asyncpg", "postgres") from None

SCHEMA_WORDS = {
    "BYTES": "BYTEA",
    "KEYED": "",
    # In order of arrival, so that new entries of the index lie side by side.
    "REPORTS_KEY": ", rowid BIGINT GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (task, batch, rowid)",
    # Ciphertexts do not compress, and most reports fit into a page.
    "REPORTS_STORAGE": "ALTER TABLE reports ALTER COLUMN messages SET STORAGE EXTERNAL; "
    "ALTER TABLE reports SET (toast_tuple_target = 8160)",
    "OFTEN_UPDATED": "WITH (fillfactor = 10)",  # updates of the hot row stay in its page
    "RANDOM_BYTES": "decode(replace(gen_random_uuid()::text, '-', ''), 'hex')",
}
ARRAY_TYPES = {int: "bigint", bytes: "bytea", str: "text"}
ADVISORY_LOCK, MIGRATION_LOCK = 0x5D9_0001, 0x5D9_0002
"""Held by an exclusive service as long as it runs, and by a shared one while it migrates."""
SHARED_CONNECTIONS = 8
"""Connections of each process to a shared database."""
CONNECT_SECONDS, COMMAND_SECONDS = 30.0, 60.0
RUN_SECONDS = 150.0
"""The longest transaction, with connecting, and with rolling back on a connection that is dead."""
MIGRATION_SECONDS = 3600.0
"""How long a migration may take; other processes wait for it meanwhile."""
CLOSE_SECONDS = 5.0

SESSION_SETTINGS = {
    "synchronous_commit": "on",
    # Everything is looked up by its key. New tables have no statistics, so the planner would scan
    # them at every upload.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",  # so each statement is planned once
    # If the network is cut, or a process hangs in a transaction, the server must end the session
    # soon: others wait for its locks.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "15s",
}
UNAVAILABLE_ERRORS = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,  # disk full is one of these
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection broke in the middle of an answer
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,  # another server took over
    asyncpg.ObjectNotInPrerequisiteStateError,  # a standby that is not promoted yet
    asyncpg.InvalidCatalogNameError,  # the database is being replaced
    asyncpg.UndefinedTableError,  # a dump is being restored over it
    asyncpg.InvalidCachedStatementError,
)
TAKEN_ERRORS = (
    asyncpg.DivisionByZeroError,  # how a statement aborts itself
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
"""Two processes stored the same key at the same time, and this one was second."""


class PostgresTransaction(Transaction):
    """Statements on one connection."""

    dialect = "postgresql"

    def __init__(self, connection: Any, seconds: float = COMMAND_SECONDS) -> None:
        """`seconds` is the longest that one statement may take."""
        self._connection, self._seconds = connection, seconds

    def atomic(self) -> AbstractAsyncContextManager[object]:
        transaction: AbstractAsyncContextManager[object] = self._connection.transaction()
        return transaction

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        try:
            found = await self._connection.fetch(sql, *values, timeout=self._seconds)
            return [tuple(row) for row in found]
        except TAKEN_ERRORS:
            raise _taken() from None

    async def present(self, *wanted: Rows) -> list[set[Row]]:
        return [await self._stored(one) for one in wanted]

    async def _stored(self, wanted: Rows) -> set[Row]:
        if not wanted.rows:
            return set()
        names = ", ".join(wanted.columns)
        given = _unnest(wanted.columns, wanted.rows[0])
        sql = f"SELECT {names} FROM {wanted.table} JOIN {given} USING ({names})"
        return {tuple(row) for row in await self._connection.fetch(sql, *_turned(wanted.rows))}

    async def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Row], key: int = 1
    ) -> set[int]:
        if not rows:
            return set()
        names = ", ".join(columns)
        sql = (
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {_unnest(columns, rows[0])} "
            f"ON CONFLICT DO NOTHING RETURNING {', '.join(columns[:key])}"
        )
        fresh = {tuple(row) for row in await self._connection.fetch(sql, *_turned(rows))}
        positions: set[int] = set()
        for position, row in enumerate(rows):  # of equal rows, the first is the new one
            if row[:key] in fresh:
                fresh.discard(row[:key])
                positions.add(position)
        return positions


def _unnest(columns: Sequence[str], sample: Row) -> str:
    types = (ARRAY_TYPES[type(value)] for value in sample)
    arrays = ", ".join(f"${number}::{name}[]" for number, name in enumerate(types, start=1))
    return f"unnest({arrays}) AS given({', '.join(columns)})"


def _turned(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


class PostgresDatabase(Database):
    """A PostgreSQL database; lost connections are replaced."""

    now = "extract(epoch FROM clock_timestamp())::bigint"

    def __init__(self, url: str, *, shared: bool) -> None:
        self._url, self.shared = url, shared
        self._slots = asyncio.Semaphore(SHARED_CONNECTIONS if shared else 1)
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self._opened = False

    @classmethod
    async def open(cls, url: str, schema: Schema, *, shared: bool) -> PostgresDatabase:
        """The database at a URL, migrated to the schema."""
        database = cls(url, shared=shared)

        async def prepare(transaction: Transaction) -> None:
            await transaction.run(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
            await migrate(transaction, schema, SCHEMA_WORDS)

        try:
            await database.run(prepare, seconds=MIGRATION_SECONDS)
        except asyncpg.InvalidCatalogNameError:
            raise ConfigError("The PostgreSQL database does not exist; create it first.") from None
        except asyncpg.InvalidAuthorizationSpecificationError:
            raise ConfigError(
                "PostgreSQL refuses this user or password; correct the store's URL."
            ) from None
        except asyncpg.InsufficientPrivilegeError:
            raise ConfigError(
                "This PostgreSQL user may not create tables in the database; grant it that right."
            ) from None
        except BaseException:
            await database.close()
            raise
        database._opened = True
        return database

    async def _connected(self) -> Any:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        connection = await _connect(self._url)
        try:
            await _check_durable(connection)
            if not self.shared:
                await connection.execute(f"SELECT pg_advisory_lock({ADVISORY_LOCK})")
            if self.on_session is not None:
                await self.on_session(PostgresTransaction(connection))
        except BaseException:
            connection.terminate()  # otherwise it would keep the lock
            raise
        return connection

    async def run(self, work: Work[T], *, atomic: bool = True, seconds: float | None = None) -> T:
        """`seconds` is the longest that the work may take, and each of its statements."""
        statement, whole = seconds or COMMAND_SECONDS, seconds or RUN_SECONDS
        async with self._slots:
            self.check_open()
            connection = None
            try:
                async with asyncio.timeout(whole):
                    connection = await self._connected()
                    self._busy.add(connection)
                    transaction = PostgresTransaction(connection, statement)
                    if not atomic:
                        return await work(transaction)
                    async with connection.transaction():
                        return await work(transaction)
            except TAKEN_ERRORS:
                raise _taken() from None
            except UNAVAILABLE_ERRORS as error:
                if connection is not None:
                    connection.terminate()
                if isinstance(error, asyncpg.InvalidCatalogNameError) and not self._opened:
                    raise
                raise _unavailable(error) from None
            except ConfigError as error:
                if not self._opened:
                    raise
                raise StorageUnavailable(str(error)) from None
            finally:
                if connection is not None:
                    self._busy.discard(connection)
                    if self.closed:  # it may have been made while all others were closed
                        connection.terminate()
                    elif not connection.is_closed():
                        self._idle.append(connection)

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        """In one round trip: a statement alone is a transaction."""
        return await self.run(lambda transaction: transaction.rows(sql, *values), atomic=False)

    async def _close(self) -> None:
        for connection in (*self._idle, *self._busy):
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except UNAVAILABLE_ERRORS:
                connection.terminate()


async def _connect(url: str) -> Any:
    return await asyncpg.connect(
        url,
        timeout=CONNECT_SECONDS,
        command_timeout=COMMAND_SECONDS,
        server_settings=SESSION_SETTINGS,
    )


async def _check_durable(connection: Any) -> None:
    """Refuses a server that acknowledges commits before they are on disk."""
    if await connection.fetchval("SELECT current_setting('fsync')") != "on":
        raise ConfigError(
            "PostgreSQL runs with fsync = off, so a crash could lose acknowledged reports; "
            "set fsync = on and restart it."
        )


async def check_server(url: str, role: str) -> None:
    """Raises `ConfigError` unless a role's server could use this database now; creates nothing."""
    try:
        connection = await asyncpg.connect(url, timeout=10, command_timeout=10)
        try:
            await _check_durable(connection)
            made = await connection.fetchval("SELECT to_regclass('schema_version')")
            rows = await connection.fetch("SELECT role FROM schema_version") if made else []
        finally:
            await connection.close()
    except (*UNAVAILABLE_ERRORS, asyncpg.PostgresError, ValueError) as error:
        raise ConfigError(
            f"PostgreSQL cannot be used ({type(error).__name__}); check that it runs, that the "
            "database exists, and the user and password in the URL."
        ) from None
    check_role([row[0] for row in rows], role)


def _taken() -> KeyTaken:
    return KeyTaken("Another process has stored the same; look again.")


def _unavailable(error: BaseException) -> StorageUnavailable:
    return StorageUnavailable(
        f"PostgreSQL is full or cannot be reached ({type(error).__name__}); "
        "nothing was acknowledged: bring it back."
    )
