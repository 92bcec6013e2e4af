"""The shuffler's tables.

`filling` has one permanent row per task, which says which batch is being filled and how far; it is
updated in the statement that stores reports. `used` holds the ids of stored reports (16 bytes)
and the hashes of spent tokens (32 bytes; where a token counts once in every batch, the batch's
number follows in 4 bytes). `checksum` tells a retry from another report of the same id.
`tokens.enrolled` is the day of a token's enrolment, counted from 1970 (0: not known). `store.lost`
counts how often uses of tokens were lost with an older store, and `tokens.losses` says
how many losses there had been when a token was enrolled. `histories` has a random id for each epoch
of the store; its rows are never changed, so a row that was written again shows that a dump was
restored. `vanished` names the tasks that the store has lost altogether. `witnessed` has the newest
head of each log that the shuffler has witnessed, and `proofs` the proof of each registered task.
"""

from __future__ import annotations

from shuffledp.service.store.schema import TASKS_TABLE, Schema

TABLES = """
    CREATE TABLE witnessed (
        log_key {BYTES} PRIMARY KEY, size BIGINT NOT NULL, root {BYTES} NOT NULL,
        signature {BYTES} NOT NULL
    );
    CREATE TABLE proofs (task {BYTES} PRIMARY KEY, proof TEXT NOT NULL);
    ALTER TABLE tasks ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
    CREATE TABLE tokens (
        token {BYTES} PRIMARY KEY, enrolled BIGINT NOT NULL DEFAULT 0,
        losses BIGINT NOT NULL DEFAULT 0
    ) {KEYED};
    CREATE TABLE used (
        task BIGINT, name {BYTES}, checksum BIGINT, PRIMARY KEY (task, name)
    ) {KEYED};
    CREATE TABLE store (
        id BIGINT PRIMARY KEY, identity {BYTES} NOT NULL, epoch BIGINT NOT NULL,
        history TEXT NOT NULL, changes BIGINT NOT NULL, lost BIGINT NOT NULL
    );
    INSERT INTO store (id, identity, epoch, history, changes, lost)
        VALUES (1, {RANDOM_BYTES}, 1, '', 0, 0);
    CREATE TABLE histories (epoch BIGINT PRIMARY KEY, id {BYTES} NOT NULL);
    INSERT INTO histories (epoch, id) VALUES (1, {RANDOM_BYTES});
    CREATE TABLE vanished (name {BYTES} PRIMARY KEY) {KEYED};
    CREATE TABLE epochs (
        epoch BIGINT, task BIGINT, number BIGINT NOT NULL, reports BIGINT NOT NULL,
        PRIMARY KEY (epoch, task)
    );
    CREATE TABLE filling (
        task BIGINT PRIMARY KEY, number BIGINT NOT NULL, reports BIGINT NOT NULL,
        size BIGINT NOT NULL, since BIGINT NOT NULL, accepting BIGINT NOT NULL, reason TEXT NOT NULL
    ) {OFTEN_UPDATED};
    CREATE TABLE reports (
        task BIGINT NOT NULL, batch BIGINT NOT NULL, name {BYTES} NOT NULL,
        messages {BYTES} NOT NULL {REPORTS_KEY}
    );
    {REPORTS_STORAGE};
    CREATE TABLE batches (
        task BIGINT, number BIGINT, id {BYTES} NOT NULL, state TEXT NOT NULL,
        reports BIGINT NOT NULL, top_up_messages BIGINT NOT NULL, noise_shares BIGINT NOT NULL,
        digest {BYTES}, folder TEXT NOT NULL, tries BIGINT NOT NULL, problem TEXT NOT NULL,
        lease TEXT NOT NULL, lease_until BIGINT NOT NULL, PRIMARY KEY (task, number)
    );
    CREATE INDEX unfinished_batches ON batches (lease_until)
        WHERE state NOT IN ('deleted', 'discarded');
    CREATE TABLE replicas (name TEXT PRIMARY KEY, seen BIGINT NOT NULL)
"""
SHUFFLER_SCHEMA = Schema("shuffler", (TASKS_TABLE + TABLES,))
