"""A role's tables, and migrations from older ones.

In scripts, {BYTES} is the type of byte strings, and {KEYED} marks tables that are stored in the
order of their key.
"""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp.service.errors import ConfigError
from shuffledp.service.store.database import Transaction

TASKS_TABLE = """
    CREATE TABLE tasks (
        number BIGINT PRIMARY KEY, id {BYTES} NOT NULL UNIQUE,
        body TEXT NOT NULL, state TEXT NOT NULL, changed BIGINT NOT NULL DEFAULT 0
    );
"""
"""The tasks that are registered at a server; `changed` is when a task's state last changed, in
seconds since 1970 (0: never)."""
HEALTH_TABLE = "CREATE TABLE IF NOT EXISTS health (id BIGINT PRIMARY KEY, filler {BYTES})"
"""A table for testing whether the store can be written."""


Words = dict[str, str]
FIRST_VERSION = 10
"""The version of the first script; stores of shuffledp 0.2 have smaller ones."""


@dataclass(frozen=True)
class Schema:
    """The tables of a role."""

    role: str
    scripts: tuple[str, ...]
    """One per version; each runs once, in order, in one transaction."""


def check_role(found: list[str], role: str) -> None:
    """Raises `ConfigError` if a database was made by another role."""
    if any(other != role for other in found):
        raise ConfigError(
            f"This database belongs to the {found[0]}; use a separate one for the {role}."
        )


async def migrate(transaction: Transaction, schema: Schema, words: Words) -> None:
    """Brings a database to the current schema; refuses one of another role or a newer version."""
    await transaction.run(
        "CREATE TABLE IF NOT EXISTS schema_version (role TEXT PRIMARY KEY, version BIGINT NOT NULL)"
    )
    found = await transaction.rows("SELECT role, version FROM schema_version")
    check_role([other for other, _ in found], schema.role)
    done = found[0][1] + 1 - FIRST_VERSION if found else 0
    if done < 0 or (found and not done):
        raise ConfigError(
            f"This database was written by shuffledp 0.2, which the {schema.role} cannot read. "
            "Let 0.2 publish its last batches, then give this version an empty database and make "
            "new tasks."
        )
    if done > len(schema.scripts):
        raise ConfigError("This database was written by a newer shuffledp; update this one.")
    if done == len(schema.scripts):
        return
    await transaction.run(HEALTH_TABLE.format(**words))
    await transaction.run("INSERT INTO health VALUES (1, NULL) ON CONFLICT DO NOTHING")
    for script in schema.scripts[done:]:
        for statement in script.format(**words).split(";"):
            if statement.strip():
                await transaction.run(statement)
    version = FIRST_VERSION + len(schema.scripts) - 1
    await transaction.run("DELETE FROM schema_version")
    await transaction.run("INSERT INTO schema_version VALUES ($1, $2)", schema.role, version)
