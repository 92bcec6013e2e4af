"""The enrolments at the issuer, and which of them have had their token of which task."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from shuffledp.service.storage.database import Database, Row, Transaction

COLUMNS = ("token", "holder", "attested")


class Issuing(Enum):
    """Whether a request for a token is answered, or why not."""

    FIRST = "first"
    AGAIN = "again"
    UNKNOWN_TOKEN = "token-unknown"
    NOT_ATTESTED = "not-attested"
    ISSUED = "token-issued"


class IssuerStore:
    """Enrolments, keys and issued tokens in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim_key(self, key_id: bytes, task_id: bytes) -> bool:
        """Gives a key to a task for good; False if another task has it. With one key for two tasks
        a device could get two signatures and use both in one of them."""

        async def claim(transaction: Transaction) -> bool:
            await transaction.insert("issuer_keys", ("id", "task"), [(key_id, task_id)])
            rows = await transaction.rows("SELECT task FROM issuer_keys WHERE id=$1", key_id)
            return bytes(rows[0][0]) == task_id

        return await self._database.run(claim)

    async def enrol(self, hashes: Sequence[bytes], attested: bool) -> int:
        """Enrols the owners of the tokens with these hashes, each for itself; gives how many were
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

    async def admitted(self, token: bytes, attested: bool) -> Issuing:
        """Whether an enrolment may ask for tokens of a task; `attested`: of one that is for
        attested enrolments only."""
        rows = await self._database.rows("SELECT attested FROM enrolments WHERE token=$1", token)
        if not rows:
            return Issuing.UNKNOWN_TOKEN
        return Issuing.NOT_ATTESTED if attested and not rows[0][0] else Issuing.FIRST

    async def issue(self, task: int, token: bytes, request: bytes) -> Issuing:
        """Records, durably, that the request with this hash is answered.

        Ensures: for each holder and task one request at most is ever answered, however often.
        """

        async def record(transaction: Transaction) -> Issuing:
            found = await transaction.rows("SELECT holder FROM enrolments WHERE token=$1", token)
            if not found:
                return Issuing.UNKNOWN_TOKEN
            row = (task, bytes(found[0][0]), request)
            if await transaction.insert("issued", ("task", "holder", "request"), [row], key=2):
                return Issuing.FIRST
            known = await transaction.rows(
                "SELECT request FROM issued WHERE task=$1 AND holder=$2", *row[:2]
            )
            return Issuing.AGAIN if bytes(known[0][0]) == request else Issuing.ISSUED

        return await self._database.run(record)

    async def issued(self, task: int) -> int:
        """How many tokens of a task were issued, as long as that is remembered."""
        rows = await self._database.rows("SELECT COUNT(*) FROM issued WHERE task=$1", task)
        return int(rows[0][0])

    async def forget(self, task: int) -> None:
        """Forgets who had tokens of a task, which must take no more reports."""
        await self._database.rows("DELETE FROM issued WHERE task=$1", task)
