"""PostgreSQL through asyncpg: writing connections under advisory locks.

A service holds `ADVISORY_LOCK` as long as it runs. Each of its further processes holds the lock of
its lane, so that what a killed predecessor had begun is over before it goes on, and a share of
`LANES_LOCK`: a service that starts waits until nobody has a share any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from shuffledp.errors import MissingExtra
from shuffledp.service.errors import ConfigError, KeyTaken, StorageUnavailable
from shuffledp.service.store.database import Database, Row, Rows, T, Transaction, Value, Work
from shuffledp.service.store.schema import Schema, check_current, check_role, migrate

try:
    import asyncpg
except ImportError:
    raise MissingExtra("asyncpg", "postgres") from None

SCHEMA_WORDS = {"BYTES": "BYTEA", "KEYED": "", "ROWID": "BIGINT"}
ARRAY_TYPES = {int: "bigint", bytes: "bytea", str: "text"}
ADVISORY_LOCK = 0x5D9_0001
"""The lock that a service holds as long as it runs; a successor waits for it."""
LANES_LOCK = 0x5D9_0002
COMMAND_SECONDS = 60.0
RUN_SECONDS = 150.0
"""The longest transaction, with connecting, and with rolling back on a connection that is dead."""
CLOSE_SECONDS = 5.0

SESSION_SETTINGS = (
    "synchronous_commit = on",
    # Everything is looked up by its key; tables that grow from nothing have no statistics, and the
    # planner would read them whole at every upload.
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    # If the network between here and the server is cut, the server must end the session soon: the
    # next one waits for its locks.
    "tcp_keepalives_idle = 30",
    "tcp_keepalives_interval = 10",
    "tcp_keepalives_count = 3",
    "idle_in_transaction_session_timeout = '90s'",
)
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
)
TAKEN_ERRORS = (
    asyncpg.UniqueViolationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
"""Two processes stored the same at the same time, and this one came second."""


class PostgresTransaction(Transaction):
    """One transaction of the writing connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        return [tuple(row) for row in await self._connection.fetch(sql, *values)]

    async def outside(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def present(self, *wanted: Rows) -> list[set[Row]]:
        found: list[set[Row]] = [set() for _ in wanted]
        asked = [(part, one) for part, one in enumerate(wanted) if one.rows]
        if asked:
            sql = _look([(part, one.table, one.columns, one.rows[0]) for part, one in asked])
            values = [column for _, one in asked for column in _turned(one.rows)]
            for part, position in await self._connection.fetch(sql, *values):
                found[part].add(wanted[part].rows[position - 1])
        return found

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

    async def append(self, *added: Rows) -> None:
        """Leaves out what is there already and counts, instead of failing: PostgreSQL would write
        the keys into its log."""
        given = [one for one in added if one.rows]
        if given:
            sql = _add([(one.table, one.columns, one.rows[0]) for one in given])
            values = (column for one in given for column in _turned(one.rows))
            if await self._connection.fetchval(sql, *values) != sum(len(one.rows) for one in given):
                raise _taken()


def _look(questions: list[tuple[int, str, tuple[str, ...], Row]]) -> str:
    """One statement that gives (number of the question, position of the row) of what is there."""
    parts, used = [], 0
    for part, table, columns, sample in questions:
        given = _unnest((*columns, "ordinal"), sample, used, " WITH ORDINALITY")
        parts.append(
            f"SELECT {part}, ordinal FROM {table} JOIN {given} USING ({', '.join(columns)})"
        )
        used += len(columns)
    return " UNION ALL ".join(parts)


def _add(additions: list[tuple[str, tuple[str, ...], Row]]) -> str:
    """One statement that adds rows to several tables, and gives how many were new."""
    parts, used = [], 0
    for number, (table, columns, sample) in enumerate(additions):
        names = ", ".join(columns)
        given = _unnest(columns, sample, used)
        parts.append(
            f"part{number} AS (INSERT INTO {table} ({names}) SELECT {names} FROM {given} "
            "ON CONFLICT DO NOTHING RETURNING 1)"
        )
        used += len(columns)
    counts = " + ".join(f"(SELECT count(*) FROM part{number})" for number in range(len(parts)))
    return f"WITH {', '.join(parts)} SELECT {counts}"


def _unnest(columns: Sequence[str], sample: Row, used: int = 0, numbered: str = "") -> str:
    arrays = ", ".join(
        f"${n}::{ARRAY_TYPES[type(value)]}[]" for n, value in enumerate(sample, start=used + 1)
    )
    return f"unnest({arrays}){numbered} AS given({', '.join(columns)})"


def _turned(rows: Sequence[Row]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


class PostgresDatabase(Database):
    """A PostgreSQL database; the connection is made again when it was lost."""

    def __init__(self, url: str, *locks: str) -> None:
        """`locks` are the locks that the writing connection holds, as SQL calls."""
        self._url, self._locks = url, locks
        self._lock, self._reading = asyncio.Lock(), asyncio.Lock()
        self._connection: Any = None
        self._reader: Any = None

    @classmethod
    async def open(cls, url: str, schema: Schema) -> PostgresDatabase:
        """The database behind a URL, migrated to the schema."""
        database = cls(url, f"pg_advisory_lock({ADVISORY_LOCK})")

        async def prepare(transaction: Transaction) -> None:
            await transaction.run(f"SELECT pg_advisory_xact_lock({LANES_LOCK})")
            await migrate(transaction, schema, SCHEMA_WORDS)
            for statement in schema.postgres_settings:
                await transaction.run(statement)

        try:
            await database.run(prepare)
        except asyncpg.InvalidCatalogNameError:
            raise ConfigError("The PostgreSQL database does not exist; create it first.") from None
        except asyncpg.InvalidAuthorizationSpecificationError:
            raise ConfigError(
                "PostgreSQL refuses this user or password; correct the store's URL."
            ) from None
        except asyncpg.InsufficientPrivilegeError:
            raise ConfigError(
                "This PostgreSQL user may not make tables in the database; grant it that."
            ) from None
        except BaseException:
            await database.close()
            raise
        return database

    @classmethod
    async def open_lane(cls, url: str, schema: Schema, lane: int) -> PostgresDatabase:
        """One more connection to the database of a service that runs."""
        shared, own = f"pg_advisory_lock_shared({LANES_LOCK})", f"({LANES_LOCK}, {lane})"
        database = cls(url, shared, f"pg_advisory_lock{own}")
        try:
            await database.run(lambda transaction: check_current(transaction, schema))
        except asyncpg.PostgresError as error:
            await database.close()
            raise _unavailable(error) from None
        except BaseException:
            await database.close()
            raise
        return database

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            connection = await _connect(self._url)
            try:
                for lock in self._locks:
                    await connection.execute(f"SELECT {lock}")
            except BaseException:
                connection.terminate()  # else it would keep the locks that it has
                raise
            self._connection = connection
        return self._connection

    async def run(self, work: Work[T]) -> T:
        async with self._lock:
            self.check_open()
            try:
                async with asyncio.timeout(RUN_SECONDS):
                    connection = await self._connected()
                    async with connection.transaction():
                        return await work(PostgresTransaction(connection))
            except TAKEN_ERRORS:
                raise _taken() from None
            except UNAVAILABLE_ERRORS as error:
                self._abandon()
                raise _unavailable(error) from None

    def _abandon(self) -> None:
        """Gives up a connection that may be broken; the next one waits until the server has ended
        its session, so that what it had begun is over."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def joined(self, table: str, column: str, key: str, low: int, high: int) -> bytes:
        """Over a connection of its own, beside the writer's."""
        async with self._reading:
            try:
                if self._reader is None or self._reader.is_closed():
                    self._reader = await _connect(self._url)
                found: bytes = await self._reader.fetchval(
                    f"SELECT coalesce(string_agg({column}, ''::bytea ORDER BY {key}), ''::bytea) "
                    f"FROM {table} WHERE {key} >= $1 AND {key} < $2",
                    low,
                    high,
                )
                return found
            except UNAVAILABLE_ERRORS as error:
                raise _unavailable(error) from None

    async def _close(self) -> None:
        for connection in (self._reader, self._connection):
            if connection is not None:
                try:
                    await connection.close(timeout=CLOSE_SECONDS)
                except UNAVAILABLE_ERRORS:
                    connection.terminate()


async def _connect(url: str) -> Any:
    connection = await asyncpg.connect(url, timeout=10, command_timeout=COMMAND_SECONDS)
    for setting in SESSION_SETTINGS:
        await connection.execute(f"SET {setting}")
    return connection


async def check_server(url: str, role: str) -> None:
    """Raises `ConfigError` unless a role's server could use this database now; makes nothing."""
    try:
        connection = await asyncpg.connect(url, timeout=10, command_timeout=10)
        try:
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
