"""Batches that tests make themselves, and their delivery to the analyzer."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import Any, NamedTuple

import httpx2
from service_trio import COUNTED, DELIVERY, USERS, Trio, bearing, known_report

from shuffledp.tasks.ordering import ordered
from shuffledp.tasks.parts import MOST_PART_BYTES, Manifest, PartFacts, as_rows
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES, REPORT_HEADER_BYTES, BatchHeader


class Delivered(NamedTuple):
    """A batch that a test has made: its manifest and its parts."""

    manifest: Manifest
    parts: list[bytes]


def batch_of(
    task: Task,
    messages: bytes,
    batch: bytes | None = None,
    *,
    reports: int = USERS,
    top_up_messages: int = 0,
    noise_shares: int | None = None,
    sort: bool = True,
) -> tuple[bytes, Delivered]:
    """(batch id, delivery) of messages."""
    header = BatchHeader(
        task_id=task.id,
        batch_id=batch or os.urandom(16),
        reports=reports,
        top_up_messages=top_up_messages,
        noise_shares=reports if noise_shares is None else noise_shares,
    )
    data = ordered(as_rows(messages)).tobytes() if sort else messages
    parts = [data[at : at + MOST_PART_BYTES] for at in range(0, len(data), MOST_PART_BYTES)]
    facts = tuple(PartFacts(len(one) // MESSAGE_BYTES, sha256(one).digest()) for one in parts)
    return header.batch_id, Delivered(Manifest(header=header, parts=facts), parts)


async def send_manifest(
    trio: Trio,
    batch: bytes,
    manifest: bytes,
    token: str = DELIVERY,
    digest: str | None = None,
    **headers: str,
) -> httpx2.Response:
    """The analyzer's answer to a manifest."""
    said = bearing(token) | {"X-Content-SHA256": digest or sha256(manifest).hexdigest()} | headers
    return await trio.to_analyzer.put(f"/batches/{batch.hex()}", content=manifest, headers=said)


async def send_part(trio: Trio, delivered: Delivered, number: int, data: bytes) -> httpx2.Response:
    """The analyzer's answer to a part."""
    manifest = delivered.manifest
    path = f"/batches/{manifest.header.batch_id.hex()}/{manifest.digest.hex()}/parts/{number}"
    return await trio.to_analyzer.put(path, content=data, headers=bearing(DELIVERY))


async def deliver(
    trio: Trio, batch: bytes, delivered: Delivered, token: str = DELIVERY, digest: str | None = None
) -> httpx2.Response:
    """The analyzer's last answer to a whole delivery."""
    text = delivered.manifest.to_bytes()
    answer = await send_manifest(trio, batch, text, token, digest)
    while answer.status_code == 202:
        for number in answer.json()["missing"]:
            part = await send_part(trio, delivered, number, delivered.parts[number])
            if part.status_code not in (200, 201):
                return part
        answer = await send_manifest(trio, batch, text, token, digest)
    return answer


def deliver_to(analyzer: str, batch: bytes, delivered: Delivered) -> None:
    """Delivers a batch to an analyzer that runs as a program."""
    text = delivered.manifest.to_bytes()
    where = f"{analyzer}/batches/{batch.hex()}"
    said = bearing(DELIVERY) | {"X-Content-SHA256": sha256(text).hexdigest()}
    answer = httpx2.put(where, content=text, headers=said).raise_for_status()
    while answer.status_code == 202:
        for number in answer.json()["missing"]:
            part = f"{where}/{delivered.manifest.digest.hex()}/parts/{number}"
            httpx2.put(
                part, content=delivered.parts[number], headers=bearing(DELIVERY)
            ).raise_for_status()
        answer = httpx2.put(where, content=text, headers=said).raise_for_status()


def made_reports(task: Task, count: int = USERS, value: int = 1) -> tuple[list[bytes], int, int]:
    """(messages of each report, +1 in all, −1 in all) of so many users."""
    made = [known_report(task, value) for _ in range(count)]
    messages = [body[REPORT_HEADER_BYTES:] for body, _, _ in made]
    return messages, sum(plus for _, plus, _ in made), sum(minus for _, _, minus in made)


async def stored_tally(trio: Trio, batch: bytes) -> dict[str, Any]:
    """The tally that the analyzer has counted of a batch; published batches have none any more."""
    found = await trio.analyzer.store.find(batch)
    assert found is not None and (found.tally is None) == (found.state != "counted")
    tally: dict[str, Any] = json.loads(COUNTED[batch])
    return tally


async def stored_tallies(trio: Trio) -> list[dict[str, Any]]:
    """The tallies of all counted batches at the analyzer."""
    found = await trio.analyzer.store.batches()
    return [json.loads(COUNTED[batch.id]) for batch in found if batch.id in COUNTED]
