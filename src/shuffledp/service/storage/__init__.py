"""Where services keep their state: SQLite embedded, or PostgreSQL by URL; one SQL for both."""

from __future__ import annotations

from shuffledp.sealed.errors import ConfigError
from shuffledp.service.storage.database import Database


async def open_database(url: str, role: str) -> Database:
    """The database behind `sqlite:path` or `postgresql://…`, migrated to the current schema.

    Ensures: no other service works on the same database at the same time.
    """
    if url.startswith("sqlite:"):
        from shuffledp.service.storage.sqlite import SqliteDatabase

        return await SqliteDatabase.open(url.removeprefix("sqlite:"), role)
    if url.startswith(("postgresql://", "postgres://")):
        from shuffledp.service.storage.postgres import PostgresDatabase

        return await PostgresDatabase.open(url, role)
    raise ConfigError("A store is sqlite:<path> or postgresql://<user>@<host>/<database>.")
