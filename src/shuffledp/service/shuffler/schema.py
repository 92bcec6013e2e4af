"""The shuffler's tables.

`filling` has one permanent row per task, which says which batch is being filled and how far; it is
updated in the statement that stores reports. `used` holds the ids of stored reports (16 bytes)
and the hashes of spent tokens (32 bytes; where a token counts once in every batch, the batch's
number follows in 4 bytes). `checksum` tells a retry from another report of the same id.
`store.lost` counts how often the record of used tokens was lost with an older store, and
`tokens.losses` says how many losses there had been when a token was enrolled.
"""

from __future__ import annotations

import json
import os
from collections import Counter

from shuffledp.service.errors import ConfigError
from shuffledp.service.store.database import Row, Rows, Transaction
from shuffledp.service.store.schema import (
    TASK_STATES,
    TASKS_TABLE,
    WITNESS_TABLES,
    Schema,
    Words,
    run_script,
)

TOKEN_AGES = "ALTER TABLE tokens ADD COLUMN enrolled BIGINT NOT NULL DEFAULT 0"
"""The day of a token's enrolment, counted from 1970; 0: not known."""

FIRST_TABLES = """
    CREATE TABLE tokens (token {BYTES} PRIMARY KEY) {KEYED};
    CREATE TABLE used (
        task BIGINT, name {BYTES}, checksum BIGINT, PRIMARY KEY (task, name)
    ) {KEYED};
    CREATE TABLE reports (number BIGINT PRIMARY KEY, messages {BYTES} NOT NULL);
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
"""
STORE_TABLES = """
    CREATE TABLE placements (task {BYTES} PRIMARY KEY, store TEXT NOT NULL);
    CREATE TABLE store_names (name TEXT PRIMARY KEY, owner {BYTES} NOT NULL)
"""
REPLICA_TABLES = """
    CREATE TABLE store (
        id BIGINT PRIMARY KEY, identity {BYTES} NOT NULL, epoch BIGINT NOT NULL,
        history TEXT NOT NULL, changes BIGINT NOT NULL, lost BIGINT NOT NULL
    );
    CREATE TABLE epochs (
        epoch BIGINT, task BIGINT, number BIGINT NOT NULL, reports BIGINT NOT NULL,
        PRIMARY KEY (epoch, task)
    );
    CREATE TABLE filling (
        task BIGINT PRIMARY KEY, number BIGINT NOT NULL, reports BIGINT NOT NULL,
        size BIGINT NOT NULL, since BIGINT NOT NULL, accepting BIGINT NOT NULL, reason TEXT NOT NULL
    );
    CREATE TABLE reports (
        task BIGINT NOT NULL, batch BIGINT NOT NULL, name {BYTES} NOT NULL,
        messages {BYTES} NOT NULL {REPORTS_KEY}
    );
    {REPORTS_INDEX};
    CREATE TABLE batches (
        task BIGINT, number BIGINT, id {BYTES} NOT NULL, state TEXT NOT NULL,
        reports BIGINT NOT NULL, top_up_messages BIGINT NOT NULL, noise_shares BIGINT NOT NULL,
        digest {BYTES}, folder TEXT NOT NULL, tries BIGINT NOT NULL, problem TEXT NOT NULL,
        lease TEXT NOT NULL, lease_until BIGINT NOT NULL, PRIMARY KEY (task, number)
    );
    CREATE INDEX unfinished_batches ON batches (lease_until)
        WHERE state NOT IN ('deleted', 'discarded');
    CREATE TABLE replicas (name TEXT PRIMARY KEY, seen BIGINT NOT NULL);
    ALTER TABLE tasks ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
    ALTER TABLE tokens ADD COLUMN losses BIGINT NOT NULL DEFAULT 0
"""
POSTGRES_SETTINGS = """
    ALTER TABLE filling SET (fillfactor = 10);
    ALTER TABLE reports ALTER COLUMN messages SET STORAGE EXTERNAL;
    ALTER TABLE reports SET (toast_tuple_target = 8160)
"""
"""Updates of the hot row stay in its page; ciphertexts do not compress, and most reports fit into a
page."""
MOVED_REPORTS = 1000
"""Reports of an older store that are in memory at a time."""
OLD_TASK_NUMBERS = 1 << 40
"""Before version 0.3 the reports of task t had the numbers t·2⁴⁰, t·2⁴⁰ + 1, …"""


async def _to_replicas(transaction: Transaction, words: Words) -> None:
    """From one process that handed out places (0.2) to a row per task. Reports that wait keep their
    keys: a stored report is bound to its name, and the name of an old one is its number."""
    old = "SELECT COUNT(*) FROM batches WHERE state NOT IN ('scrubbed', 'discarded')"
    placed = "SELECT COUNT(*) FROM placements WHERE store <> ''"
    if int((await transaction.rows(old))[0][0]):
        raise ConfigError(
            "This store has batches that version 0.2 has not delivered yet; start 0.2 once more, "
            "wait until its status shows none, stop it, and start this version again."
        )
    if int((await transaction.rows(placed))[0][0]):
        raise ConfigError(
            "Tasks of this shuffler are in several stores (more_stores), which this version does "
            "not support; let 0.2 finish and archive them, or stay with 0.2."
        )
    for table in ("reports", "batches"):
        await transaction.run(f"ALTER TABLE {table} RENAME TO old_{table}")
    await run_script(transaction, REPLICA_TABLES, words)
    if transaction.dialect == "postgresql":
        await run_script(transaction, POSTGRES_SETTINGS, words)
    await transaction.run(
        "INSERT INTO store (id, identity, epoch, history, changes, lost) "
        "VALUES (1, $1, 1, '', 0, 0)",
        os.urandom(16),
    )
    tasks = await transaction.rows("SELECT number, body, state FROM tasks WHERE state <> 'deleted'")
    for number, body, state in tasks:
        size = int(json.loads(body)["batch"]["reports"])
        await _move_task(transaction, number, size, state == "open")
    await transaction.run(
        "INSERT INTO batches (task, number, id, state, reports, top_up_messages, noise_shares, "
        "digest, folder, tries, problem, lease, lease_until) SELECT task, number, id, "
        "CASE WHEN state = 'scrubbed' THEN 'deleted' ELSE state END, reports, top_up_messages, "
        "noise_shares, digest, '', 0, '', '', 0 FROM old_batches"
    )
    for table in ("old_reports", "old_batches", "top_ups", "waiting", "placements", "store_names"):
        await transaction.run(f"DROP TABLE {table}")


async def _move_reports(
    transaction: Transaction, task: int, size: int, closed: int, batch: int
) -> Counter[int]:
    """Moves the reports of a task that wait, page by page; returns how many each batch has.
    `closed` of them are in batches before `batch`."""
    counts: Counter[int] = Counter()
    low, high = task * OLD_TASK_NUMBERS, (task + 1) * OLD_TASK_NUMBERS
    at = low
    while True:
        old = await transaction.rows(
            "SELECT number, messages FROM old_reports WHERE number >= $1 AND number < $2 "
            f"ORDER BY number LIMIT {MOVED_REPORTS}",
            at,
            high,
        )
        if not old:
            return counts
        moved: list[Row] = [
            (
                task,
                batch + (place - low - closed) // size,
                place.to_bytes(8, "big"),
                bytes(messages),
            )
            for place, messages in old
        ]
        await transaction.append(Rows("reports", ("task", "batch", "name", "messages"), moved))
        counts.update(row[1] for row in moved)
        at = old[-1][0] + 1


async def _move_task(transaction: Transaction, task: int, size: int, accepting: bool) -> None:
    ((closed, number),) = await transaction.rows(
        "SELECT COALESCE(MAX(first_report + reports), 0), COALESCE(MAX(number), 0) "
        "FROM old_batches WHERE task=$1",
        task,
    )
    counts = await _move_reports(transaction, task, size, int(closed), int(number) + 1)
    last = max(counts, default=int(number) + 1)
    if last > int(number) + 1 or counts[last] >= size:
        raise ConfigError(
            "This store has full batches that version 0.2 has not closed yet; start 0.2 once "
            "more, wait until they are delivered, stop it, and start this version again."
        )
    since = await transaction.rows("SELECT since FROM waiting WHERE task=$1", task)
    await transaction.run(
        "INSERT INTO filling (task, number, reports, size, since, accepting, reason) "
        "VALUES ($1, $2, $3, $4, $5, $6, '')",
        task,
        last,
        counts[last],
        size,
        int(since[0][0]) if since else 0,
        int(accepting),
    )


SHUFFLER_SCHEMA = Schema(
    "shuffler",
    (
        TASKS_TABLE + FIRST_TABLES,
        WITNESS_TABLES,
        TASK_STATES + TOKEN_AGES,
        STORE_TABLES,
        _to_replicas,
    ),
)
