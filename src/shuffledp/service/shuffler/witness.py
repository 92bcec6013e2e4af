"""The shuffler witnesses the analyzer's log of tasks: it signs only heads that extend what it saw.

So the analyzer cannot show one log to one person and another log to everyone else, unless the
shuffler helps. The newest head is kept in the store, which all processes share, and in a file next
to the signing key, before anything is signed for it: a shuffler whose store was restored from a
backup never signs a second history.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.documents.files import write_whole
from shuffledp.errors import ParameterError
from shuffledp.service.answers import MOST_SHORT_ANSWER_BYTES, answer_json, bounded_request_async
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import TASK_CACHING, Storing, TaskRegistry
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.store.database import Database, Transaction
from shuffledp.service.store.private import lock_file
from shuffledp.tasks.clock import Clock
from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.log import Head, TaskProof, read_path
from shuffledp.tasks.merkle import EMPTY_ROOT
from shuffledp.tasks.notes import Checkpoint
from shuffledp.tasks.signing import (
    ANALYZER,
    COLLECTOR,
    SHUFFLER,
    SigningKey,
    TaskSignature,
    head_text,
    task_text,
)
from shuffledp.tasks.task import Task

HEAD_FILE = "head.json"
LOCK_SECONDS, LOCK_PAUSE_SECONDS = 30.0, 0.02
MOST_TRIES = 10
"""How often a head is asked for again because another process has stored one."""


class Witness:
    """The newest head that was seen of the analyzer's log, and the proofs of registered tasks."""

    _database: Database
    _tasks: TaskRegistry
    _key: SigningKey
    _analyzer: httpx2.AsyncClient

    def __init__(self, config: ShufflerConfig, clock: Clock) -> None:
        self._pinned = bytes.fromhex(config.analyzer_signing_key)
        self._file = Path(config.memory_folder) / HEAD_FILE
        self._advancing, self._clock = asyncio.Lock(), clock
        self._proofs: dict[bytes, str] = {}

    def open(
        self,
        database: Database,
        tasks: TaskRegistry,
        key: SigningKey,
        analyzer: httpx2.AsyncClient,
    ) -> None:
        """Sets the store, its tasks, the key, and the analyzer to watch."""
        self._database, self._tasks, self._key = database, tasks, key
        self._analyzer = analyzer

    async def prove(self, task: Task, collector: TaskSignature) -> Storing:
        """Proves that a task is in the analyzer's log, and returns what stores the proof; a
        `Problem` unless it is.

        Ensures: the head in the proof extends every head that was witnessed before.
        """
        try:
            async with self._advancing:
                head = await self._advance()
            proof = await self._proof(task.id, collector, head)
            proof.check(task.id)
        except ProofError as error:
            raise _problem(error) from None
        text = proof.to_json()

        async def store(transaction: Transaction) -> None:
            await transaction.insert("proofs", ("task", "proof"), [(task.id, text)])

        return store

    async def newest(self) -> Head | None:
        """The newest head that was witnessed, by any process; None before the first."""
        heads = [head for head in (self._kept(), await self._stored_head()) if head is not None]
        return max(heads, key=lambda head: head.size, default=None)

    async def _stored_head(self) -> Head | None:
        rows = await self._database.rows("SELECT log_key, size, root, signature FROM witnessed")
        heads = [
            Head(log_key=bytes(key), size=size, root=bytes(root), signature=bytes(signature))
            for key, size, root, signature in rows
        ]
        if self._pinned:
            return next((head for head in heads if head.log_key == self._pinned), None)
        return heads[0] if heads else None

    def _kept(self) -> Head | None:
        """The head in the file."""
        if not self._file.exists():
            return None
        try:
            head = Head.from_dict(json.loads(self._file.read_text(encoding="utf-8")))
        except (OSError, ValueError, ProofError):
            raise Problem(
                503,
                "witness-lost",
                "The file of the newest witnessed head cannot be read; restore it from a copy.",
            ) from None
        return None if self._pinned and head.log_key != self._pinned else head

    async def _advance(self) -> Head:
        """The analyzer's head, after checking that it extends everything witnessed before, and
        storing it; again if another process has stored one meanwhile."""
        for _ in range(MOST_TRIES):
            kept, stored = self._kept(), await self._stored_head()
            head: Head | None = None
            for last in (kept, stored) if kept and stored and kept != stored else (kept or stored,):
                head = await self._continued(last, head)
            assert head is not None
            if await self._keep(head, kept) and await self._database.run(
                partial(_store, head=head, last=stored)
            ):
                return head
        raise _busy()

    async def _keep(self, head: Head, last: Head | None) -> bool:
        """Writes a head to the file in place of the last one; False if another process has written
        one since. The event loop goes on while another process has the file."""
        path, end = self._file.with_suffix(".lock"), time.monotonic() + LOCK_SECONDS
        while (held := lock_file(path, 0)) is None:
            if time.monotonic() > end:
                raise _busy()
            await asyncio.sleep(LOCK_PAUSE_SECONDS)
        try:
            if self._kept() != last:
                return False
            text = json.dumps(head.to_dict())
            await asyncio.to_thread(write_whole, self._file, text, durable=True, secret=True)
            return True
        finally:
            held.release()

    async def _continued(self, last: Head | None, wanted: Head | None) -> Head:
        """The analyzer's head, after checking that it extends the last one; it must be the wanted
        one, if one is given."""
        size, root = (last.size, last.root) if last else (0, EMPTY_ROOT)
        answer = await self._ask(f"/log/consistency/{size}", "log-place")
        if answer is None:
            raise _forked("is shorter than it was")
        head = Head.from_dict(answer.get("head"))
        head.check()
        expected = self._pinned or (last.log_key if last else head.log_key)
        if head.log_key != expected:
            raise _forked("is signed with a different key than before")
        head.check_extends(size, root, read_path(answer.get("path")))
        if wanted is not None and (head.size, head.root) != (wanted.size, wanted.root):
            raise _busy()
        return head

    async def _proof(self, task_id: bytes, collector: TaskSignature, head: Head) -> TaskProof:
        """The proof of a task under a head, with this shuffler's signatures."""
        path = f"/log/inclusion/{task_id.hex()}/{head.size}"
        answer = await self._ask(path, "task-unlogged")
        if answer is None:
            raise Problem(
                422,
                "task-unlogged",
                "The analyzer's log does not contain this task; register it at the analyzer first.",
            )
        try:
            index, analyzer = int(answer["index"]), bytes.fromhex(answer["analyzer_signature"])
        except (KeyError, ValueError, TypeError):
            raise ProofError(
                "form", "The analyzer's response about its log is not a proof."
            ) from None
        keys = {
            COLLECTOR: collector.key,
            SHUFFLER: self._key.public,
            ANALYZER: head.log_key,
        }
        signatures = {
            COLLECTOR: collector.signature,
            SHUFFLER: self._key.sign(task_text(SHUFFLER, task_id)),
            ANALYZER: analyzer,
        }
        return TaskProof(
            task_id=task_id,
            keys=keys,
            signatures=signatures,
            index=index,
            path=read_path(answer.get("path")),
            head=head,
            witness=self._sign(head),
            checkpoint=await self._checkpoint(head),
        )

    async def _checkpoint(self, head: Head) -> str:
        """The analyzer's checkpoint of this head, with this shuffler's cosignature behind those of
        the analyzer's witnesses."""
        answer = await self._get("/log/checkpoint", seconds=30)  # it asks the log's witnesses
        if answer.status_code != 200:
            raise _away()
        note = Checkpoint.parse(answer.text)
        if (note.size, note.root) != (head.size, head.root):
            raise _busy()
        name = f"shuffledp/witness/{self._key.public.hex()}"
        line = note.cosignature(name, self._key, int(self._clock()))
        return str(note.with_signatures([line]))

    def _sign(self, head: Head) -> bytes:
        return self._key.sign(head_text(SHUFFLER, head.log_key, head.size, head.root))

    async def _ask(self, path: str, missing: str) -> dict[str, Any] | None:
        """The JSON of the analyzer's answer; None if it is a 404 with the reason `missing`; a 503
        if it answers nothing of the kind."""
        answer = await self._get(path, seconds=10)
        try:
            data = answer_json(answer)
        except ParameterError:
            raise _away() from None
        if answer.status_code == 200:
            return data
        if answer.status_code == 404 and str(data.get("type")).endswith(f":{missing}"):
            return None
        raise _away()

    async def _get(self, path: str, seconds: int) -> httpx2.Response:
        try:
            return await bounded_request_async(
                self._analyzer, "GET", path, MOST_SHORT_ANSWER_BYTES, timeout=seconds
            )
        except httpx2.HTTPError:
            raise _away() from None

    # routes

    async def answer_proof(self, request: Request) -> Response:
        """The proof of a task; it never changes."""
        task_id = (await self._tasks.lookup(request.path_params["task"])).task.id
        if task_id not in self._proofs:
            rows = await self._database.rows("SELECT proof FROM proofs WHERE task=$1", task_id)
            if not rows:  # another process has just deleted it
                raise Problem(
                    404, "task-unknown", "No such task is registered here; ask the collector."
                )
            self._proofs[task_id] = rows[0][0]
        headers = {"Cache-Control": TASK_CACHING}
        return Response(self._proofs[task_id], headers=headers, media_type="application/json")

    async def answer_head(self, _: Request) -> Response:
        """The newest head that was witnessed, with both signatures."""
        head = await self.newest()
        if head is None:
            raise Problem(404, "log-place", "No log was witnessed yet; no task is registered.")
        witnessed = {
            "shuffler_key": self._key.public.hex(),
            "shuffler_signature": self._sign(head).hex(),
        }
        return JSONResponse(head.to_dict() | witnessed)


async def _store(transaction: Transaction, head: Head, last: Head | None) -> bool:
    """Stores a head in place of the last one; False if another process has stored one since."""
    if last is not None and not await transaction.rows(
        "DELETE FROM witnessed WHERE log_key = $1 AND size = $2 AND root = $3 RETURNING size",
        head.log_key,
        last.size,
        last.root,
    ):
        return False
    columns = ("log_key", "size", "root", "signature")
    row = (head.log_key, head.size, head.root, head.signature)
    return bool(await transaction.insert("witnessed", columns, [row]))


def _busy() -> Problem:
    return Problem(503, "busy", "Another task is being registered; register again.", retry_after=1)


def _away() -> Problem:
    return Problem(
        503,
        "analyzer-away",
        "The analyzer does not show its log of tasks; register the task again later.",
        retry_after=10,
    )


def _forked(how: str) -> Problem:
    return Problem(
        409,
        "log-forked",
        f"The analyzer's log of tasks {how}, so people could be shown different tasks; ask "
        "the analyzer's operator to bring its store and signing key back.",
    )


def _problem(error: ProofError) -> Problem:
    if error.code == "log-forked":
        return Problem(409, "log-forked", str(error))
    return Problem(422, "task-unlogged", str(error))
