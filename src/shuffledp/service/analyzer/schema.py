"""The analyzer's tables.

`batches.published_at` is when a batch's result was published, in seconds since 1970 (0: never).
`series` says which task has which place in a series; nothing is ever deleted from it, as from the
log.
"""

from __future__ import annotations

from shuffledp.service.store.schema import LOG_TABLE, TASKS_TABLE, Schema

TABLES = """
    CREATE TABLE batches (
        id {BYTES} PRIMARY KEY, task BIGINT NOT NULL, number BIGINT NOT NULL,
        state TEXT NOT NULL, digest {BYTES} NOT NULL, reports BIGINT NOT NULL,
        top_up_messages BIGINT NOT NULL, noise_shares BIGINT NOT NULL, tally TEXT, result TEXT,
        reason TEXT, remembered BIGINT, published_at BIGINT NOT NULL DEFAULT 0
    );
    CREATE INDEX batches_of_task ON batches (task, number);
    CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE series (
        series {BYTES}, place BIGINT, task {BYTES} NOT NULL, PRIMARY KEY (series, place)
    )
"""
ANALYZER_SCHEMA = Schema("analyzer", (TASKS_TABLE + LOG_TABLE + TABLES,))
