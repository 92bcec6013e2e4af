"""Databases of the servers: SQLite in a file, or PostgreSQL by URL; the same SQL for both."""

from __future__ import annotations

from shuffledp.extras import require
from shuffledp.service.errors import ConfigError
from shuffledp.service.store.database import Database
from shuffledp.service.store.schema import Schema

require("service")


async def open_database(url: str, schema: Schema, *, shared: bool = False) -> Database:
    """The database at `sqlite:path` or `postgresql://…`, migrated to the current schema.

    With `shared`, any number of processes may use a PostgreSQL database at the same time.
    Ensures: otherwise no other service works on the same database at the same time.
    """
    if url.startswith("sqlite:"):
        from shuffledp.service.store.sqlite import SqliteDatabase

        return await SqliteDatabase.open(url.removeprefix("sqlite:"), schema)
    if url.startswith(("postgresql://", "postgres://")):
        from shuffledp.service.store.postgres import PostgresDatabase

        return await PostgresDatabase.open(url, schema, shared=shared)
    raise _no_store()


async def check_database(url: str, role: str) -> None:
    """Raises `ConfigError` unless a role's server could open this database now; creates nothing."""
    if url.startswith("sqlite:"):
        from shuffledp.service.store.sqlite import check_file

        check_file(url.removeprefix("sqlite:"), role)
    elif url.startswith(("postgresql://", "postgres://")):
        from shuffledp.service.store.postgres import check_server

        await check_server(url, role)
    else:
        raise _no_store()


def _no_store() -> ConfigError:
    return ConfigError("A store is sqlite:<path> or postgresql://<user>@<host>/<database>.")
