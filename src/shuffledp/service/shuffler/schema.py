"""The shuffler's tables."""

from __future__ import annotations

from shuffledp.service.store.schema import TASK_STATES, TASKS_TABLE, WITNESS_TABLES, Schema

TOKEN_AGES = "ALTER TABLE tokens ADD COLUMN enrolled BIGINT NOT NULL DEFAULT 0"
"""The day of a token's enrolment, counted from 1970; 0: not known."""

STORE_TABLES = """
    CREATE TABLE placements (task {BYTES} PRIMARY KEY, store TEXT NOT NULL);
    CREATE TABLE store_names (name TEXT PRIMARY KEY, owner {BYTES} NOT NULL)
"""
"""In the first store, in which store each task lives (those that are not listed: in the first);
in every store, its name, and by which it knows its shuffler."""

SHUFFLER_SCHEMA = Schema(
    "shuffler",
    (
        TASKS_TABLE
        # `used` holds ids of stored reports and hashes of spent tokens in one table, so that a
        # report's id and its token can lie in one page of the disk. `checksum` tells a retry from
        # another report of the same id.
        + """
        CREATE TABLE tokens (token {BYTES} PRIMARY KEY) {KEYED};
        CREATE TABLE used (
            task BIGINT, name {BYTES}, checksum BIGINT, PRIMARY KEY (task, name)
        ) {KEYED};
        CREATE TABLE reports (number {ROWID} PRIMARY KEY, messages {BYTES} NOT NULL);
        CREATE TABLE batches (
            id {BYTES} PRIMARY KEY, task BIGINT NOT NULL, number BIGINT NOT NULL,
            state TEXT NOT NULL, first_report BIGINT NOT NULL, reports BIGINT NOT NULL,
            top_up_messages BIGINT NOT NULL, noise_shares BIGINT NOT NULL,
            digest {BYTES}, UNIQUE (task, number)
        );
        CREATE TABLE top_ups (
            batch {BYTES}, part BIGINT, messages {BYTES}, PRIMARY KEY (batch, part)
        );
        CREATE TABLE waiting (task BIGINT PRIMARY KEY, since BIGINT NOT NULL)
        """,
        WITNESS_TABLES,
        TASK_STATES + TOKEN_AGES,
        STORE_TABLES,
    ),
    (
        # Ciphertexts do not compress, and most reports fit into a page.
        "ALTER TABLE reports ALTER COLUMN messages SET STORAGE EXTERNAL",
        "ALTER TABLE reports SET (toast_tuple_target = 8160)",
    ),
)
