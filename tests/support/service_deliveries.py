"""Batches that tests make themselves, and their delivery to the analyzer."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import httpx
import numpy as np
from service_trio import DELIVERY, USERS, Trio, bearing, known_report

from shuffledp.tasks.ordering import ordered
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES, REPORT_HEADER_BYTES, BatchHeader


def batch_of(
    task: Task,
    messages: bytes,
    batch: bytes | None = None,
    *,
    reports: int = USERS,
    top_up_messages: int = 0,
    noise_shares: int | None = None,
    sort: bool = True,
) -> tuple[bytes, bytes]:
    """(batch id, body) of a delivery."""
    header = BatchHeader(
        task_id=task.id,
        batch_id=batch or os.urandom(16),
        reports=reports,
        top_up_messages=top_up_messages,
        noise_shares=reports if noise_shares is None else noise_shares,
    )
    rows = np.frombuffer(messages, np.uint8).reshape(-1, MESSAGE_BYTES)
    return header.batch_id, header.to_bytes() + (ordered(rows).tobytes() if sort else messages)


async def deliver(
    trio: Trio, batch: bytes, body: bytes, token: str = DELIVERY, digest: str | None = None
) -> httpx.Response:
    """The analyzer's answer to a delivery."""
    digest = digest or hashlib.sha256(body).hexdigest()
    headers = bearing(token) | {"X-Content-SHA256": digest}
    return await trio.to_analyzer.put(f"/batches/{batch.hex()}", content=body, headers=headers)


def made_reports(task: Task, count: int = USERS, value: int = 1) -> tuple[list[bytes], int, int]:
    """(messages of each report, +1 in all, −1 in all) of so many users."""
    made = [known_report(task, value) for _ in range(count)]
    messages = [body[REPORT_HEADER_BYTES:] for body, _, _ in made]
    return messages, sum(plus for _, plus, _ in made), sum(minus for _, _, minus in made)


async def stored_tally(trio: Trio, batch: bytes) -> dict[str, Any]:
    """The tally that the analyzer has stored of a batch."""
    found = await trio.analyzer.store.find(batch)
    assert found is not None and found.tally is not None
    tally: dict[str, Any] = json.loads(found.tally)
    return tally


async def stored_tallies(trio: Trio) -> list[dict[str, Any]]:
    """The tallies of all counted batches at the analyzer."""
    return [json.loads(batch.tally) for batch in await trio.analyzer.store.batches() if batch.tally]
