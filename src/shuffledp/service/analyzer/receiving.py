"""A delivery from the shuffler: its announcement is checked, its messages are written to disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.requests import ClientDisconnect, Request

from shuffledp.documents.files import sync
from shuffledp.service.http.problems import Problem
from shuffledp.tasks.errors import BatchRefused
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import BATCH_HEADER_BYTES, BatchHeader, read_batch_header

REFUSAL_STATUS = {"batch-size": 413}
"""HTTP statuses of refused batches; 422 where none is named."""


@dataclass(frozen=True)
class Announcement:
    """What a delivery says about itself before its first byte."""

    batch_id: bytes
    digest: bytes
    length: int


def announced(request: Request, most: int) -> Announcement:
    """The announcement in a request's path and headers; refuses more than `most` bytes."""
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
    if not BATCH_HEADER_BYTES <= int(length) <= most:
        raise Problem(
            413,
            "batch-size",
            "A batch of this size is not taken; raise most_batch_mb.",
            have=int(length),
            need=most,
        )
    return Announcement(bytes.fromhex(batch), bytes.fromhex(digest), int(length))


def check_delivery(said: Announcement, header: BatchHeader, task: Task) -> None:
    """Raises a `Problem` unless the batch is the announced one and follows its task's rule."""
    if header.batch_id != said.batch_id:
        raise Problem(400, "batch-name", "The batch's header names another batch.")
    try:
        task.check_batch(header, said.length)
    except BatchRefused as refused:
        status = REFUSAL_STATUS.get(refused.code, 422)
        raise Problem(
            status, refused.code, str(refused), have=refused.have, need=refused.need
        ) from None


class Download:
    """A delivery while it arrives: its header first, then its messages into a file."""

    def __init__(self, request: Request, part: Path, length: int) -> None:
        self._chunks = request.stream()
        self._part, self._length = part, length
        self._digest = hashlib.sha256()
        self._rest = b""
        self._taken = 0

    async def header(self) -> BatchHeader:
        """The batch's header, from the first bytes."""
        while len(self._rest) < BATCH_HEADER_BYTES:
            self._rest += await self._next()
        head, self._rest = self._rest[:BATCH_HEADER_BYTES], self._rest[BATCH_HEADER_BYTES:]
        self._digest.update(head)
        return read_batch_header(head)

    async def messages(self, digest: bytes, target: Path) -> None:
        """Writes the messages to `target`, complete and durable, or nothing."""
        try:
            with open(self._part, "wb") as out:
                await asyncio.to_thread(self._write, out, self._rest)
                while self._taken < self._length:
                    await asyncio.to_thread(self._write, out, await self._next())
                await asyncio.to_thread(_make_durable, out)
            if self._digest.digest() != digest:
                raise Problem(422, "digest", "The batch was damaged on its way; deliver it again.")
            self._part.replace(target)
            sync(target.parent)
        finally:
            self._part.unlink(missing_ok=True)

    def _write(self, out: BinaryIO, data: bytes) -> None:
        self._digest.update(data)
        out.write(data)

    async def _next(self) -> bytes:
        try:
            data = await anext(self._chunks)
        except (ClientDisconnect, StopAsyncIteration):
            raise Problem(400, "interrupted", "The delivery broke off; deliver it again.") from None
        self._taken += len(data)
        return data


def _make_durable(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())
