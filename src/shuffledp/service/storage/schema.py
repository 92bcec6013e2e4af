"""Tables, and how older ones become these. Each script runs once, in order, in a transaction."""

from __future__ import annotations

from shuffledp.sealed.errors import ConfigError
from shuffledp.service.storage.database import Transaction

SHUFFLER = (
    """
    CREATE TABLE tasks (
        number BIGINT PRIMARY KEY, id {BYTES} NOT NULL UNIQUE,
        body TEXT NOT NULL, state TEXT NOT NULL
    );
    CREATE TABLE tokens (token {BYTES} PRIMARY KEY) {KEYED};
    CREATE TABLE spent (task BIGINT, token {BYTES}, PRIMARY KEY (task, token)) {KEYED};
    CREATE TABLE seen (task BIGINT, report {BYTES}, PRIMARY KEY (task, report)) {KEYED};
    CREATE TABLE reports (place {ROWID} PRIMARY KEY, body {BYTES} NOT NULL);
    CREATE TABLE batches (
        id {BYTES} PRIMARY KEY, task BIGINT NOT NULL, number BIGINT NOT NULL, state TEXT NOT NULL,
        first BIGINT NOT NULL, reports BIGINT NOT NULL, extra BIGINT NOT NULL,
        shares BIGINT NOT NULL, secret {BYTES}, digest {BYTES}, UNIQUE (task, number)
    );
    CREATE TABLE top_ups (batch {BYTES}, part BIGINT, body {BYTES}, PRIMARY KEY (batch, part));
    CREATE TABLE waiting (task BIGINT PRIMARY KEY, since BIGINT NOT NULL)
    """,
    # One table for both, so that a report's id and its token can lie in one page.
    """
    CREATE TABLE used (task BIGINT, name {BYTES}, PRIMARY KEY (task, name)) {KEYED};
    INSERT INTO used SELECT task, report FROM seen;
    INSERT INTO used SELECT task, token FROM spent;
    DROP TABLE seen;
    DROP TABLE spent
    """,
)

ANALYZER = (
    """
    CREATE TABLE tasks (
        number BIGINT PRIMARY KEY, id {BYTES} NOT NULL UNIQUE,
        body TEXT NOT NULL, state TEXT NOT NULL
    );
    CREATE TABLE batches (
        id {BYTES} PRIMARY KEY, task BIGINT NOT NULL, number BIGINT NOT NULL, state TEXT NOT NULL,
        digest {BYTES} NOT NULL, reports BIGINT NOT NULL, extra BIGINT NOT NULL,
        shares BIGINT NOT NULL, tally TEXT, result TEXT
    )
    """,
)

SCRIPTS = {"shuffler": SHUFFLER, "analyzer": ANALYZER}


async def migrate(transaction: Transaction, role: str, words: dict[str, str]) -> None:
    """Brings a database to the current schema; refuses one from the future or of another role."""
    await transaction.run(
        "CREATE TABLE IF NOT EXISTS schema_version (role TEXT PRIMARY KEY, version BIGINT NOT NULL)"
    )
    found = await transaction.rows("SELECT role, version FROM schema_version")
    if any(other != role for other, _ in found):
        raise ConfigError(
            f"This database belongs to the {found[0][0]}; give the {role} one of its own."
        )
    version = found[0][1] if found else 0
    scripts = SCRIPTS[role]
    if version > len(scripts):
        raise ConfigError("This database was written by a newer shuffledp; update this one.")
    for script in scripts[version:]:
        for statement in script.format(**words).split(";"):
            await transaction.run(statement)
    await transaction.run("DELETE FROM schema_version")
    await transaction.run("INSERT INTO schema_version VALUES ($1, $2)", role, len(scripts))
