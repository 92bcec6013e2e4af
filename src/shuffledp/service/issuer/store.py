"""What the issuer stores: the enrolments and, until a task is over, which of them have their token
for it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from shuffledp.service.http.retention import Retention
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.service.store.database import Database, Row, Transaction
from shuffledp.service.store.schema import TASKS_TABLE, Schema
from shuffledp.tasks.clock import CLOCK_SECONDS, Clock

ISSUER_SCHEMA = Schema(
    "issuer",
    (
        TASKS_TABLE
        # `holder` is the owner of an enrolment: the attested person or device, or else the
        # enrolment itself. `issued` has, for each holder and task, the hash of the one request that
        # was answered.
        + """
        CREATE TABLE enrolments (
            token {BYTES} PRIMARY KEY, holder {BYTES} NOT NULL, attested BIGINT NOT NULL
        ) {KEYED};
        CREATE TABLE issued (
            task BIGINT, holder {BYTES}, request {BYTES} NOT NULL, PRIMARY KEY (task, holder)
        ) {KEYED};
        CREATE TABLE issuer_keys (id {BYTES} PRIMARY KEY, task {BYTES} NOT NULL);
        """
        # `tokens` is how many tokens of a task were ever issued; it stays when it is forgotten to
        # whom. `stopped` is 1 once no more are given, because the store was older.
        """
        CREATE TABLE issuing (
            task BIGINT PRIMARY KEY, tokens BIGINT NOT NULL, stopped BIGINT NOT NULL
        )
        """,
    ),
)
COLUMNS = ("token", "holder", "attested")


class Verdict(Enum):
    """Whether a request for a token is answered, or why not."""

    FIRST = "first"
    AGAIN = "again"
    UNKNOWN_TOKEN = "token-unknown"
    NOT_ATTESTED = "not-attested"
    ISSUED = "token-issued"
    FORGOTTEN = "tokens-forgotten"
    RECORD_MISSING = "record-missing"

    @property
    def answered(self) -> bool:
        """Whether the request is answered."""
        return self in (Verdict.FIRST, Verdict.AGAIN)


class IssuerStore:
    """Enrolments, keys and issued tokens in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim_key(self, key_id: bytes, task_id: bytes) -> bool:
        """Assigns a key to a task permanently; False if another task has it. With one key for two
        tasks, a device could get two signatures and use both in one of them."""

        async def claim(transaction: Transaction) -> bool:
            await transaction.insert("issuer_keys", ("id", "task"), [(key_id, task_id)])
            rows = await transaction.rows("SELECT task FROM issuer_keys WHERE id=$1", key_id)
            return bytes(rows[0][0]) == task_id

        return await self._database.run(claim)

    async def enrol(self, hashes: Sequence[bytes], attested: bool) -> int:
        """Enrols the owners of the tokens with these hashes, individually; returns how many were
        new."""
        rows: list[Row] = [(value, value, int(attested)) for value in sorted(set(hashes))]
        new = await self._database.run(
            lambda transaction: transaction.insert("enrolments", COLUMNS, rows)
        )
        return len(new)

    async def enrol_holder(self, token: bytes, holder: bytes) -> bool:
        """Enrols an attested holder's token; False if the token is enrolled for somebody else. All
        tokens of one holder together get one token per task."""

        async def add(transaction: Transaction) -> bool:
            await transaction.insert("enrolments", COLUMNS, [(token, holder, 1)])
            rows = await transaction.rows("SELECT holder FROM enrolments WHERE token=$1", token)
            return bytes(rows[0][0]) == holder

        return await self._database.run(add)

    async def admitted(self, token: bytes, attested: bool) -> Verdict:
        """Whether an enrolment may ask for tokens of a task; `attested`: of one that is for
        attested enrolments only."""
        rows = await self._database.rows("SELECT attested FROM enrolments WHERE token=$1", token)
        if not rows:
            return Verdict.UNKNOWN_TOKEN
        return Verdict.NOT_ATTESTED if attested and not rows[0][0] else Verdict.FIRST

    async def begin(self, transaction: Transaction, task_id: bytes) -> None:
        """Begins to count the tokens of a task that is being registered."""
        await transaction.run(
            "INSERT INTO issuing (task, tokens, stopped) "
            "SELECT number, 0, 0 FROM tasks WHERE id=$1",
            task_id,
        )

    async def counted(self, task: int) -> tuple[int, bool]:
        """(how many tokens of a task were ever issued, whether no more are given)."""
        return await self._database.run(lambda transaction: _counted(transaction, task))

    async def stop(self, task: int) -> bool:
        """Stops the tokens of a task permanently; False if they were already stopped."""
        changed = await self._database.rows(
            "UPDATE issuing SET stopped=1 WHERE task=$1 AND stopped=0 RETURNING 1", task
        )
        return bool(changed)

    async def issue(
        self, task: int, token: bytes, request: bytes, recorded: int
    ) -> tuple[Verdict, int]:
        """Durably records that the request with this hash is answered; also returns the count.

        Nothing new is answered if the store counts fewer tokens than were `recorded` outside it.
        Ensures: for each holder and task, at most one request is ever answered, however often it is
        sent.
        """

        async def note(transaction: Transaction) -> tuple[Verdict, int]:
            found = await transaction.rows("SELECT holder FROM enrolments WHERE token=$1", token)
            tokens, stopped = await _counted(transaction, task)
            if not found:
                return Verdict.UNKNOWN_TOKEN, tokens
            holder = bytes(found[0][0])
            known = await transaction.rows(
                "SELECT request FROM issued WHERE task=$1 AND holder=$2", task, holder
            )
            if known:
                same = bytes(known[0][0]) == request
                return Verdict.AGAIN if same else Verdict.ISSUED, tokens
            if stopped or tokens < recorded:
                return Verdict.FORGOTTEN, tokens
            await transaction.run(
                "INSERT INTO issued (task, holder, request) VALUES ($1, $2, $3)",
                task,
                holder,
                request,
            )
            await transaction.run("UPDATE issuing SET tokens=tokens+1 WHERE task=$1", task)
            return Verdict.FIRST, tokens + 1

        return await self._database.run(note)

    async def issued(self, task: int) -> int:
        """How many tokens of a task were issued, as long as that is remembered."""
        rows = await self._database.rows("SELECT COUNT(*) FROM issued WHERE task=$1", task)
        return int(rows[0][0])

    async def forget(self, task: int) -> None:
        """Forgets who had tokens of a task, which must take no more reports."""
        await self._database.rows("DELETE FROM issued WHERE task=$1", task)


async def _counted(transaction: Transaction, task: int) -> tuple[int, bool]:
    rows = await transaction.rows("SELECT tokens, stopped FROM issuing WHERE task=$1", task)
    return int(rows[0][0]), bool(rows[0][1])


class IssuerRetention(Retention):
    """The issuer has no reports or batches. It deletes who had tokens of a task once it is over."""

    def __init__(self, store: IssuerStore, tasks: TaskRegistry, clock: Clock) -> None:
        super().__init__(clock)
        self._store, self._tasks = store, tasks

    async def forget(self, transaction: Transaction, entry: RegisteredTask) -> None:
        for table in ("issued", "issuing"):
            await transaction.run(f"DELETE FROM {table} WHERE task=$1", entry.number)

    async def once(self) -> None:
        for entry in list(self._tasks.by_id.values()):
            if self._clock() >= entry.task.expires + CLOCK_SECONDS:
                await self._store.forget(entry.number)
