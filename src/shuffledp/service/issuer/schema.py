"""The issuer's tables."""

from __future__ import annotations

from shuffledp.service.store.schema import TASK_STATES, TASKS_TABLE, Schema

ISSUER_SCHEMA = Schema(
    "issuer",
    (
        TASKS_TABLE
        # `holder` is whom an enrolment belongs to: the attested person or device, else the
        # enrolment itself. `issued` holds, for each holder and task, the hash of the one request
        # that was answered.
        + """
        CREATE TABLE enrolments (
            token {BYTES} PRIMARY KEY, holder {BYTES} NOT NULL, attested BIGINT NOT NULL
        ) {KEYED};
        CREATE TABLE issued (
            task BIGINT, holder {BYTES}, request {BYTES} NOT NULL, PRIMARY KEY (task, holder)
        ) {KEYED};
        CREATE TABLE issuer_keys (id {BYTES} PRIMARY KEY, task {BYTES} NOT NULL)
        """,
        TASK_STATES,
        # `tokens` is how many tokens of a task were ever issued; it stays when it is forgotten to
        # whom. What the states mean stands in `store`.
        """
        CREATE TABLE issuing (
            task BIGINT PRIMARY KEY, tokens BIGINT NOT NULL, state TEXT NOT NULL
        );
        INSERT INTO issuing (task, tokens, state)
            SELECT number, (SELECT COUNT(*) FROM issued WHERE issued.task = tasks.number),
            'unrecorded' FROM tasks WHERE state <> 'deleted'
        """,
    ),
)
