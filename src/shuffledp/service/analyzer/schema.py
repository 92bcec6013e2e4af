"""The analyzer's tables."""

from __future__ import annotations

from shuffledp.service.store.schema import LOG_TABLE, TASK_STATES, TASKS_TABLE, Schema

RESULT_AGES = "ALTER TABLE batches ADD COLUMN published_at BIGINT NOT NULL DEFAULT 0"
"""When a batch's result was published, in seconds since 1970; 0 if unknown."""

SERIES_TABLE = """
    CREATE TABLE series (
        series {BYTES}, place BIGINT, task {BYTES} NOT NULL, PRIMARY KEY (series, place)
    )
"""
"""Which task has which position in a series; like the log, nothing is ever deleted from it."""

NO_OLD_TALLIES = "UPDATE batches SET tally=NULL WHERE state NOT IN ('received', 'counted')"
"""Earlier versions kept the tallies of published and held batches."""

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
        TASK_STATES + RESULT_AGES,
        SERIES_TABLE,
        NO_OLD_TALLIES,
    ),
)
