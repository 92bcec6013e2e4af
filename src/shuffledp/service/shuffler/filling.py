"""The batch that each task is filling: one row per task, changed in the statement that stores.

The row's counter and the reports are written together, so a full batch has exactly as many reports
as the task's rule says, even if processes are killed. The number of the batch, and with it the key
that encrypts its reports, is known before reports are stored.
"""

from __future__ import annotations

from typing import NamedTuple

from shuffledp.service.store.database import Row, Rows, Transaction

INCARNATION = "tableoid::text || ' ' || (SELECT xmin::text FROM histories WHERE epoch = 1)"
"""For PostgreSQL: changes when a dump is restored over the tables, with or without new tables, also
in sessions that were open before."""
FILL = """
    UPDATE filling SET
        reports = CASE WHEN reports + $3 = size THEN 0 ELSE reports + $3 END,
        number = CASE WHEN reports + $3 = size THEN number + 1 ELSE number END,
        since = CASE WHEN reports = 0 THEN $4 ELSE since END
    WHERE task = $1 AND number = $2 AND accepting = 1 AND reports + $3 <= size
        AND number * 4294967296 + reports >= $5
"""
FILLED = "RETURNING number, reports, size"
CLOSING = """
    INSERT INTO batches (task, number, id, state, reports, top_up_messages, noise_shares, folder,
        tries, problem, lease, lease_until)
    SELECT $1, $2, {id}, 'closing', {reports}, 0, 0, '', 0, '', '', 0
"""
CLOSE = CLOSING.format(id="$3", reports="$4")
LEAVE = (
    "UPDATE filling SET number = number + 1, reports = 0 "
    "WHERE task = $1 AND number = $2 AND reports = $3 RETURNING 1"
)
CLOSE_EARLY = f"WITH s AS ({LEAVE}) {CLOSING.format(id='$4', reports='$3')} FROM s RETURNING 1"
"""For PostgreSQL: one statement, as `STORE`."""
STORE = f"""
    WITH s AS (
        {FILL} AND {INCARNATION} = $13
            AND cardinality($12::bytea[]) = (SELECT count(*)
                FROM tokens JOIN unnest($12::bytea[]) AS given(token) USING (token))
            AND NOT EXISTS (SELECT 1 FROM used JOIN unnest($6::bigint[], $7::bytea[])
                AS given(task, name) USING (task, name))
        {FILLED}
    ), u AS (
        INSERT INTO used (task, name, checksum)
        SELECT given.task, given.name, given.checksum FROM s,
            unnest($6::bigint[], $7::bytea[], $8::bigint[]) AS given(task, name, checksum)
        ON CONFLICT DO NOTHING RETURNING 1
    ), r AS (
        INSERT INTO reports (task, batch, name, messages)
        SELECT $1, $2, given.name, given.messages FROM s,
            unnest($9::bytea[], $10::bytea[]) AS given(name, messages)
    ), c AS (
        {CLOSING.format(id="$11", reports="size")} FROM s WHERE number > $2
    )
    SELECT number, reports, 1 / ((SELECT count(*) FROM u) = cardinality($7::bytea[]))::int FROM s
"""
"""For PostgreSQL: one statement, so that the row's lock never spans a round trip. If another
process has stored one of the names in the meantime, it divides by zero and has no effect. Names
that are stored and tokens that are not enrolled are looked up before anything is written."""
LOSE = "UPDATE store SET lost = lost + 1 WHERE id = 1"
"""Uses of tokens were lost: those that were enrolled before and count once in all tasks are
refused from now on."""


class Filling(NamedTuple):
    """The progress of a task: the batch that is being filled, and the reports in it."""

    number: int
    reports: int
    size: int = 0
    since: int = 0
    """When its first report came, in seconds since 1970."""
    accepting: bool = True
    reason: str = ""
    """Why the task takes no reports, if the collector did not close it."""
    incarnation: str = ""
    """The value of `INCARNATION`; empty in SQLite."""

    @classmethod
    def of(cls, row: Row) -> Filling:
        """The values of `FILLING_COLUMNS`."""
        number, reports, size, since, accepting, reason = row
        return cls(number, reports, size, since, bool(accepting), reason)

    @property
    def position(self) -> int:
        """A number that grows with every report that is stored."""
        return self.number << 32 | self.reports


class Part(NamedTuple):
    """Reports to store in one batch of a task."""

    task: int
    number: int
    batch_id: bytes
    names: list[Row]
    """(task, name, checksum): ids of the reports, and what they use up of their tokens."""
    reports: list[tuple[bytes, bytes]]
    """(id, encrypted messages)."""
    known: int
    """A position that the task has reached: a store that is behind it has gone back in time."""
    tokens: list[bytes]
    """Tokens that were not looked up: on PostgreSQL, nothing is stored unless all are enrolled."""
    incarnation: str
    """That of the tables when they were compared: others have gone back in time, perhaps."""


FILLING_COLUMNS = "number, reports, size, since, accepting, reason"


async def filling(transaction: Transaction, task: int) -> Filling | None:
    """The progress of a task; None if it was deleted."""
    incarnation = INCARNATION if transaction.dialect == "postgresql" else "''"
    rows = await transaction.rows(
        f"SELECT {FILLING_COLUMNS}, {incarnation} FROM filling WHERE task=$1", task
    )
    return Filling.of(rows[0][:-1])._replace(incarnation=rows[0][-1]) if rows else None


async def store(transaction: Transaction, part: Part, now: int) -> Filling | None:
    """Stores reports and returns the task's new progress. None, and nothing is stored, if the batch
    has no space for all of them or is full, the task takes no more, or the store has gone back in
    time; on PostgreSQL also if a name is already stored or a token is not enrolled. Raises
    `KeyTaken` if one of the names is stored at the same moment."""
    place = part.task, part.number, len(part.reports), now, part.known
    if transaction.dialect == "postgresql":
        columns = (
            list(one) for rows in (part.names, part.reports) for one in zip(*rows, strict=True)
        )
        expected = part.batch_id, part.tokens, part.incarnation
        rows = await transaction.rows(STORE, *place, *columns, *expected)  # type: ignore[arg-type]
        return Filling(rows[0][0], rows[0][1]) if rows else None
    rows = await transaction.rows(f"{FILL} {FILLED}", *place)
    if not rows:
        return None
    number, reports, size = rows[0]
    stored: list[Row] = [(part.task, part.number, *report) for report in part.reports]
    await transaction.append(
        Rows("used", ("task", "name", "checksum"), part.names),
        Rows("reports", ("task", "batch", "name", "messages"), stored),
    )
    if number > part.number:
        await transaction.run(CLOSE, part.task, part.number, part.batch_id, size)
    return Filling(number, reports)


async def close_early(
    transaction: Transaction, task: int, number: int, reports: int, batch_id: bytes
) -> bool:
    """Closes the batch that is being filled with exactly its current reports; False if they have
    changed. Uploads continue: the next one begins the next batch."""
    if transaction.dialect == "postgresql":
        return bool(await transaction.rows(CLOSE_EARLY, task, number, reports, batch_id))
    moved = await transaction.rows(LEAVE, task, number, reports)
    if moved:
        await transaction.run(CLOSE, task, number, batch_id, reports)
    return bool(moved)


async def stop(transaction: Transaction, task: int, reason: str) -> None:
    """Lets a task take no more reports."""
    await transaction.run(
        "UPDATE filling SET accepting = 0, reason = $2 WHERE task = $1", task, reason
    )
