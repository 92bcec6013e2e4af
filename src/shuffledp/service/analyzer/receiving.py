"""A delivery: checked against the task, streamed to disk, kept once."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from pathlib import Path

from starlette.requests import ClientDisconnect, Request

from shuffledp.sealed.files import sync
from shuffledp.sealed.task import Task
from shuffledp.sealed.wire import BATCH_HEADER, BatchHeader, read_batch_header
from shuffledp.service.web.problems import Problem


def announced(request: Request, most: int) -> tuple[bytes, bytes, int]:
    """(batch id, digest, length) that a delivery says about itself."""
    batch, digest = request.path_params["batch"], request.headers.get("x-content-sha256", "")
    length = request.headers.get("content-length", "")
    if not re.fullmatch("[0-9a-f]{32}", batch) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise Problem(
            400,
            "batch-name",
            "Name the batch by 32 hexadecimal digits and send its SHA-256 as X-Content-SHA256.",
        )
    if not re.fullmatch("[0-9]{1,15}", length):
        raise Problem(411, "length", "Send a Content-Length.")
    if not BATCH_HEADER <= int(length) <= most:
        raise Problem(
            413,
            "batch-size",
            "A batch of this size is not taken; raise most_batch_mb.",
            have=int(length),
            need=most,
        )
    return bytes.fromhex(batch), bytes.fromhex(digest), int(length)


def check_header(header: BatchHeader, task: Task, batch: bytes, length: int) -> None:
    """Refuses a batch that the task's rule does not allow: the second lock on short batches."""
    rule, users = task.batch, task.protocol.users
    if header.batch_id != batch:
        raise Problem(400, "batch-name", "The batch's header names another batch.")
    allowed = rule.reports if rule.top_up == "none" or not rule.at_least else rule.at_least
    if not allowed <= header.reports <= rule.reports:
        raise Problem(
            422,
            "short-batch",
            "Fewer reports than the task's rule allows; nothing is released.",
            have=header.reports,
            need=allowed,
        )
    added = rule.extra_shares(header.reports, users)
    extra = task.protocol.top_up_size(added) if added else 0
    if header.shares != header.reports + added or header.extra != extra:
        raise Problem(
            422,
            "top-up",
            "The noise top-up is not what the task's rule asks for.",
            have=header.extra,
            need=extra,
        )
    if header.size(task.report_size) != length:
        raise Problem(
            413,
            "batch-size",
            "The batch's length does not follow from its header.",
            have=length,
            need=header.size(task.report_size),
        )


class Download:
    """A delivery on its way to disk: the header first, then the messages into a file."""

    def __init__(self, request: Request, part: Path, length: int) -> None:
        self._chunks = request.stream()
        self._part, self._length = part, length
        self._digest = hashlib.sha256()
        self._rest = b""
        self._taken = 0

    async def header(self) -> BatchHeader:
        """The batch's header, from the first bytes."""
        while len(self._rest) < BATCH_HEADER:
            self._rest += await self._next()
        head, self._rest = self._rest[:BATCH_HEADER], self._rest[BATCH_HEADER:]
        self._digest.update(head)
        return read_batch_header(head)

    async def messages(self, digest: bytes, target: Path) -> None:
        """Writes the messages to `target`, complete and on disk, or nothing."""
        try:
            with open(self._part, "wb") as out:
                await asyncio.to_thread(self._keep, out, self._rest)
                while self._taken < self._length:
                    await asyncio.to_thread(self._keep, out, await self._next())
                await asyncio.to_thread(_sync, out.fileno())
            if self._digest.digest() != digest:
                raise Problem(422, "digest", "The batch was damaged on its way; deliver it again.")
            self._part.replace(target)
            sync(target.parent)
        finally:
            self._part.unlink(missing_ok=True)

    def _keep(self, out: object, data: bytes) -> None:
        self._digest.update(data)
        out.write(data)  # type: ignore[attr-defined]

    async def _next(self) -> bytes:
        try:
            data = await anext(self._chunks)
        except (ClientDisconnect, StopAsyncIteration):
            raise Problem(400, "interrupted", "The delivery broke off; deliver it again.") from None
        self._taken += len(data)
        return data


def _sync(number: int) -> None:
    os.fsync(number)
