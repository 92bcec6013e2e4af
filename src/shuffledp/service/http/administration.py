"""What operators do with tasks: list, archive and delete them.

open → closed (no more reports) → archived (nothing more is accepted) → deleted (only the id is
kept, so that it can never be registered again).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.access import require
from shuffledp.service.http.bodies import read_json_body
from shuffledp.service.http.logs import log
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.tasks import RegisteredTask, TaskRegistry
from shuffledp.tasks.clock import CLOCK_SECONDS

if TYPE_CHECKING:
    from shuffledp.service.http.role import Role

MOST_ARCHIVE_BYTES = 1024


class Administration:
    """The routes with which an operator manages a server's tasks."""

    def __init__(self, role: Role) -> None:
        self._role, self._operator = role, role.server_config.operator_token_sha256

    @property
    def _tasks(self) -> TaskRegistry:
        return self._role.tasks

    async def answer_list(self, request: Request) -> Response:
        """All tasks with their states, including archived ones."""
        require(request, self._operator, "operator")
        await self._tasks.refresh()
        facts = [await self._facts(entry) for entry in list(self._tasks.by_id.values())]
        return JSONResponse({"tasks": facts})

    async def _facts(self, entry: RegisteredTask) -> dict[str, Any]:
        waiting = unfinished = None
        with contextlib.suppress(Problem, StorageUnavailable):  # the task's store is away
            waiting = await self._role.retention.waiting(entry)
            unfinished = await self._role.retention.unfinished(entry)
        return {
            "task": entry.task.id.hex(),
            "name": entry.task.name,
            "state": entry.state,
            "changed": entry.changed,
            "not_before": entry.task.not_before,
            "expires": entry.task.expires,
            "waiting": waiting,
            "unfinished": unfinished,
        }

    async def answer_archive(self, request: Request) -> Response:
        """Archives a task that is closed or has expired, and has nothing left to do."""
        require(request, self._operator, "operator")
        entry = await self._tasks.lookup(request.path_params["task"], fresh=True)
        discard = await _asked_to_discard(request)
        if entry.state != "archived":
            await self.archive(entry, discard=discard)
        return JSONResponse({"task": entry.task.id.hex(), "state": entry.state})

    async def archive(self, entry: RegisteredTask, *, discard: bool) -> None:
        """Archives a task; with `discard`, discards what waits for it."""
        retention, now = self._role.retention, self._role.clock()
        expired = now >= entry.task.expires + CLOCK_SECONDS
        if entry.state == "open" and not expired and not discard:
            raise Problem(
                409, "task-open", "This task still takes reports; close it first, or use discard."
            )
        await self._tasks.close(entry)
        if await retention.waiting(entry) and not discard:
            raise Problem(
                409,
                "task-waiting",
                "Some reports are not in a batch yet, or batches may still arrive; wait for them, "
                "or use discard.",
            )
        if await retention.unfinished(entry):
            raise Problem(
                409, "task-busy", "A batch of this task is being worked on; try again later."
            )
        await retention.give_up(entry)
        await self._tasks.move(entry, "archived")
        log("task archived", task=entry.task.id.hex())

    async def answer_delete(self, request: Request) -> Response:
        """Deletes an archived task and everything that is stored about it."""
        require(request, self._operator, "operator")
        entry = await self._tasks.lookup(request.path_params["task"], fresh=True)
        if entry.state != "archived":
            raise Problem(409, "task-not-archived", "Archive the task before you delete it.")
        retention = self._role.retention
        await retention.clear(entry)
        await self._tasks.delete(entry, lambda transaction: retention.forget(transaction, entry))
        log("task deleted", task=entry.task.id.hex())
        return JSONResponse({"task": entry.task.id.hex(), "state": "deleted"})


async def _asked_to_discard(request: Request) -> bool:
    data = await read_json_body(request, MOST_ARCHIVE_BYTES)
    if not isinstance(data, dict) or not isinstance(data.get("discard"), bool):
        raise Problem(422, "archive", 'Send {"discard": false}, or true to discard what waits.')
    return bool(data["discard"])
