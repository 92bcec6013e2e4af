"""The tasks that are registered at a server: verified, stored, and kept in memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.service.http.bodies import read_body
from shuffledp.service.http.problems import Problem
from shuffledp.service.store.database import Database, Transaction, Work
from shuffledp.tasks.clock import Clock
from shuffledp.tasks.sandbox import CheckLimits, check_task
from shuffledp.tasks.signing import KEY_BYTES, SIGNATURE_BYTES, TaskSignature
from shuffledp.tasks.task import MOST_TASK_BYTES, Task, task_from_json

TASK_ID = re.compile("[0-9a-fA-F]{64}", re.ASCII)
KEY_HEADER, SIGNATURE_HEADER = "X-Collector-Key", "X-Collector-Signature"
Storing = Callable[[Transaction], Awaitable[None]]
"""Stores what a role keeps with a new task."""
TASK_CACHING = "public, max-age=31536000, immutable"
MOST_CHECKS = 1
"""Tasks that are verified at the same time."""
MOST_WAITING_CHECKS = 16


@dataclass(kw_only=True)
class RegisteredTask:
    """A task and its number in this server's store."""

    number: int
    task: Task
    state: str
    """open; closed: no more reports are accepted; archived: nothing more is accepted."""
    changed: int = 0
    """When the state was last changed, in seconds since 1970; 0: not known."""

    def ended(self) -> int:
        """When the task took its last reports, or will."""
        closed = self.changed if self.state != "open" and self.changed else self.task.expires
        return min(closed, self.task.expires)


def _made_ready(body: bytes, task_id: bytes) -> Task:
    """The task in a text, with its protocol made."""
    task = task_from_json(body, task_id)
    _ = task.protocol
    return task


def series_facts(task: Task) -> dict[str, Any] | None:
    """The public facts about a task's position in its series; None if it has no series."""
    if task.series is None:
        return None
    found = task.series
    return {
        "series": task.series_id,
        "name": found.name,
        "place": found.place,
        "tasks": found.tasks,
    }


class TaskRegistry:
    """All registered tasks by id."""

    def __init__(
        self,
        database: Database,
        limits: CheckLimits,
        stopping: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._database, self._limits, self._stopping = database, limits, stopping
        self._clock = clock
        self._checking = asyncio.Semaphore(MOST_CHECKS)
        self._waiting = 0
        self.by_id: dict[bytes, RegisteredTask] = {}
        self._by_number: dict[int, RegisteredTask] = {}
        self.admit: Callable[[Task, TaskSignature], Awaitable[Storing]] | None = None
        """Further checks of a role on a new task, and what it stores with it; raises a `Problem` if
        the task is refused."""

    async def load(self) -> None:
        """Reads all tasks from the store."""
        rows = await self._database.rows(
            "SELECT number, body, state, changed FROM tasks WHERE state <> 'deleted' "
            "ORDER BY number"
        )
        for number, body, state, changed in rows:
            task = task_from_json(body)
            self._add(RegisteredTask(number=number, task=task, state=state, changed=changed))

    async def register(self, body: bytes, task_id: bytes, signature: TaskSignature) -> bool:
        """Verifies and stores a task that the collector has signed; False if it was registered
        already.

        Verification runs in another process, and other slow work in a thread, so the server keeps
        responding.
        """
        await self.refresh()
        if task_id in self.by_id:
            return False
        await self._check(body, task_id)
        task = await asyncio.to_thread(_made_ready, body, task_id)
        if self._clock() >= task.expires:
            raise Problem(410, "task-expired", "This task has expired; make one that ends later.")
        also = None if self.admit is None else await self.admit(task, signature)

        async def store(transaction: Transaction) -> tuple[int, bool]:
            await self.begin_change(transaction)
            found = await transaction.rows("SELECT number, state FROM tasks WHERE id=$1", task.id)
            if found:
                if found[0][1] == "deleted":
                    raise Problem(
                        410, "task-deleted", "This task was deleted; make one with another name."
                    )
                return int(found[0][0]), False
            top = await transaction.rows("SELECT COALESCE(MAX(number), 0) FROM tasks")
            number = int(top[0][0]) + 1
            await transaction.run(
                "INSERT INTO tasks (number, id, body, state) VALUES ($1, $2, $3, 'open')",
                number,
                task.id,
                task.canonical().decode(),
            )
            await self.added(transaction, number, task)
            if also is not None:
                await also(transaction)
            return number, True

        number, fresh = await self._database.run(store)
        if task.id not in self.by_id:
            self._add(RegisteredTask(number=number, task=task, state="open"))
        return fresh

    async def begin_change(self, transaction: Transaction) -> None:
        """Called at the beginning of every transaction that changes tasks."""

    async def added(self, transaction: Transaction, number: int, task: Task) -> None:
        """Stores what a role keeps with a new task."""

    async def store_state(self, transaction: Transaction, number: int, state: str) -> None:
        """Stores a task's state, at the end of a transaction that changes it."""
        await transaction.run(
            "UPDATE tasks SET state=$1, changed=$2 WHERE number=$3 AND state <> 'deleted'",
            state,
            int(self._clock()),
            number,
        )

    async def refresh(self) -> None:
        """Reads changes that other processes have stored."""

    async def _check(self, body: bytes, task_id: bytes) -> None:
        """Verifies a task in another process; a 503 if too many wait for that."""
        if self._waiting >= MOST_WAITING_CHECKS:
            raise Problem(
                503, "busy", "Other tasks are being verified; register again later.", retry_after=30
            )
        self._waiting += 1
        try:
            async with self._checking:
                await asyncio.to_thread(check_task, body, task_id, self._limits, self._stopping)
        except InterruptedError:
            raise Problem(
                503, "draining", "The server is shutting down; register again.", retry_after=5
            ) from None
        finally:
            self._waiting -= 1

    async def close(self, entry: RegisteredTask) -> None:
        """Closes a task: no more reports are accepted for it."""
        if entry.state == "open":
            await self.move(entry, "closed")

    async def move(self, entry: RegisteredTask, state: str) -> None:
        """Brings a task into another state, durably."""

        async def store(transaction: Transaction) -> None:
            await self.begin_change(transaction)
            await self.store_state(transaction, entry.number, state)

        await self._database.run(store)
        entry.state, entry.changed = state, int(self._clock())

    async def delete(self, entry: RegisteredTask, work: Work[None]) -> None:
        """Forgets everything about a task except its id, which can never be registered again;
        `work` deletes what else is stored about it, in the same transaction."""

        async def forget(transaction: Transaction) -> None:
            await self.begin_change(transaction)
            await work(transaction)
            await self.store_state(transaction, entry.number, "deleted")
            await transaction.run("UPDATE tasks SET body='' WHERE number=$1", entry.number)

        await self._database.run(forget)
        self._drop(entry)

    def _drop(self, entry: RegisteredTask) -> None:
        self.by_id.pop(entry.task.id, None)
        self._by_number.pop(entry.number, None)

    async def lookup(self, text: str, *, fresh: bool = False) -> RegisteredTask:
        """`find`, after asking for changes if there is no such task here yet, or if the answer has
        to be fresh."""
        try:
            known = bytes.fromhex(text) in self.by_id
        except ValueError:
            known = True  # `find` refuses it
        if fresh or not known:
            await self.refresh()
        return self.find(text)

    def find(self, text: str) -> RegisteredTask:
        """The task whose id, in hexadecimal digits, is in a path; a 404 if there is none."""
        try:
            return self.by_id[bytes.fromhex(text)]
        except (KeyError, ValueError):
            raise Problem(
                404, "task-unknown", "No such task is registered here; ask the collector."
            ) from None

    def current(self) -> list[dict[str, Any]]:
        """The public facts about open tasks that have not expired, by date."""
        now = self._clock()
        found = [
            entry.task
            for entry in self.by_id.values()
            if entry.state == "open" and now < entry.task.expires
        ]
        return [
            {
                "task": task.id.hex(),
                "name": task.name,
                "not_before": task.not_before,
                "expires": task.expires,
                "series": series_facts(task),
            }
            for task in sorted(found, key=lambda task: (task.not_before, task.id))
        ]

    def numbered(self, number: int) -> RegisteredTask:
        """The task with this number in the store; numbers are never used again."""
        if number not in self._by_number:
            self._by_number = {entry.number: entry for entry in self.by_id.values()}
        return self._by_number[number]

    def _add(self, entry: RegisteredTask) -> None:
        self.by_id[entry.task.id] = entry

    async def answer_put(self, request: Request, collector_key: str) -> Response:
        """Registers the task in a request; the path must name it by its id, and the collector must
        have signed it, with this key if one is named."""
        if not TASK_ID.fullmatch(request.path_params["task"]):
            raise Problem(400, "task-id", "A task id is 64 hexadecimal digits.")
        wanted = bytes.fromhex(request.path_params["task"])
        body = await read_body(request, MOST_TASK_BYTES)
        signature = _given_signature(request, wanted, collector_key)
        fresh = await self.register(body, wanted, signature)
        return JSONResponse({"task": wanted.hex(), "new": fresh}, 201 if fresh else 200)

    async def answer_get(self, request: Request) -> Response:
        """Returns a task in its canonical text, which never changes: its name is its hash."""
        entry = await self.lookup(request.path_params["task"])
        tag = f'"{entry.task.id.hex()}"'
        headers = {"Cache-Control": TASK_CACHING, "ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(entry.task.canonical(), headers=headers, media_type="application/json")


def _given_signature(request: Request, task_id: bytes, collector_key: str) -> TaskSignature:
    """The collector's signature in a request's headers; a 422 unless it is valid."""
    try:
        given = TaskSignature(
            *(bytes.fromhex(request.headers[name]) for name in (KEY_HEADER, SIGNATURE_HEADER))
        )
    except (KeyError, ValueError):
        given = TaskSignature(b"", b"")
    lengths = (len(given.key), len(given.signature))
    if lengths != (KEY_BYTES, SIGNATURE_BYTES) or not given.holds(task_id):
        raise Problem(
            422,
            "unsigned",
            "The collector has not signed this task; use `shuffledp task register`, which signs.",
        )
    if collector_key and given.key.hex() != collector_key:
        raise Problem(
            422,
            "unsigned",
            "The task is not signed with the collector's key; use the collector's key, or "
            "change collector_signing_key.",
        )
    return given
