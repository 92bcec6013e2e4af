"""The analyzer's tables."""

from __future__ import annotations

from shuffledp.service.storage.schema import LOG_TABLE, TASKS_TABLE, Schema

ANALYZER_SCHEMA = Schema(
    "analyzer",
    (
        TASKS_TABLE
        + """
        CREATE TABLE batches (
            id {BYTES} PRIMARY KEY, task BIGINT NOT NULL, number BIGINT NOT NULL,
            state TEXT NOT NULL, digest {BYTES} NOT NULL, reports BIGINT NOT NULL,
            top_up_messages BIGINT NOT NULL, noise_shares BIGINT NOT NULL, tally TEXT, result TEXT,
            reason TEXT, remembered BIGINT
        );
        CREATE INDEX batches_of_task ON batches (task, number);
        CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)
        """,
        LOG_TABLE,
    ),
)
