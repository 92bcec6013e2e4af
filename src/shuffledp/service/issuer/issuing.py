"""Issues tokens, as long as the store knows everyone who has one.

For every token, in this order: the store is changed durably, the record outside it is raised
durably, the answer is sent. So whenever the process is killed, the store counts at least as many
tokens as the record, and the record at least as many as were sent. A store that counts fewer than
the record was restored from an older copy: it issues no more tokens for that task, ever. Known
requests still get the same response.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from shuffledp.service.http.logs import log
from shuffledp.service.http.tasks import RegisteredTask, Storing
from shuffledp.service.issuer.issued_record import IssuedRecord
from shuffledp.service.issuer.store import IssuerStore, Verdict
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.task import Task

OLDER = (
    "the store is older than tokens that were issued, so it is not known who has one; "
    "continue with the next task"
)
MISSING = (
    "the record of issued tokens is missing, so it is not known whether the store is older "
    "than they are; restore the folder of the issuer's keys, or continue with the next task"
)


class Issuing:
    """The tokens in a store and the record of them in the folder of keys, kept together."""

    def __init__(self, store: IssuerStore, keys: str | Path) -> None:
        self._store, self._record = store, IssuedRecord(Path(keys) / "issued")
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def open(self, entries: Iterable[RegisteredTask]) -> None:
        """Opens the record, and compares it with what the store knows of these tasks."""
        await asyncio.to_thread(self._record.open)
        try:
            for entry in entries:
                await self.compare(entry)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Releases the record."""
        self._record.close()

    async def begin(self, task: Task) -> Storing:
        """Makes the record of a new task and returns what stores its count. The record comes first,
        so a task is never without one."""
        await asyncio.to_thread(self._record.begin, _key_id(task))

        async def store(transaction: Transaction) -> None:
            await self._store.begin(transaction, task.id)

        return store

    async def compare(self, entry: RegisteredTask) -> None:
        """Compares a task's count with its record; stops its tokens if the store is older, and logs
        if none are issued."""
        async with self._turns[entry.number]:
            tokens, stopped = await self._store.counted(entry.number)
            recorded = self._record.count(_key_id(entry.task))
            if recorded is None:
                _say(entry, MISSING)
            elif stopped or tokens < recorded:
                await self._store.stop(entry.number)
                _say(entry, OLDER)

    async def issue(self, entry: RegisteredTask, token: bytes, request: bytes) -> Verdict:
        """Whether the request with this hash is answered; the answer may leave afterwards.

        Requests of a task are handled one at a time, so the record is never behind a response when
        the next request is compared with it, even if a database is restored or replaced while the
        issuer runs.
        """
        key_id = _key_id(entry.task)
        async with self._turns[entry.number]:
            recorded = self._record.count(key_id)
            if recorded is None:
                return Verdict.RECORD_MISSING
            verdict, tokens = await self._store.issue(entry.number, token, request, recorded)
            if verdict is Verdict.FORGOTTEN and await self._store.stop(entry.number):
                _say(entry, OLDER)
            if verdict.answered:
                await asyncio.to_thread(self._record.raise_to, key_id, tokens)
            return verdict

    async def stopped(self, entry: RegisteredTask) -> str:
        """Why no tokens of a task are given; empty if they are."""
        tokens, stopped = await self._store.counted(entry.number)
        recorded = self._record.count(_key_id(entry.task))
        if recorded is None:
            return MISSING
        return OLDER if stopped or tokens < recorded else ""


def _key_id(task: Task) -> bytes:
    assert task.issuer is not None
    return task.issuer.key.id


def _say(entry: RegisteredTask, reason: str) -> None:
    log("tokens stopped", level="error", task=entry.task.id.hex(), reason=reason)
