"""The devices of a season: each with a token, an address, a policy and a store of its own; and
those that do not follow the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from season_stage import Stage

from shuffledp.service.client.device import Device
from shuffledp.service.client.outbox import Outbox
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.retries import TEMPORARY_STATUSES
from shuffledp.service.client.sending import AsyncClient, new_report_id
from shuffledp.service.errors import Unreachable
from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.task import Task, task_from_json
from shuffledp.tasks.wire import Upload

ATTEMPTS = 4
"""How often a client tries before it gives up, and its person asks it again."""
PATIENCE_SECONDS, PAUSE_SECONDS = 180.0, 0.5
read_task = cache(task_from_json)
"""Devices of one program read the same text once."""


def address(number: int) -> str:
    """The address of a device, which no server and no other program has."""
    return f"127.77.{100 + number // 250}.{1 + number % 250}"


class KeptOutbox(Outbox):
    """A device's store; the test also keeps what was in it, to know what must be counted."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.bodies: dict[bytes, bytes] = {}

    def store(self, task_id: bytes, body: bytes) -> None:
        super().store(task_id, body)
        self.bodies[task_id] = body


@dataclass(kw_only=True)
class Person:
    """Somebody with a device."""

    number: int
    secret: str
    """The device's enrolment at the issuer."""
    value: str
    policy: ClientPolicy
    folder: Path
    client: type[AsyncClient] = AsyncClient
    tokens: dict[bytes, str] = field(default_factory=dict)
    """The one-time tokens that it had, by task."""

    def __post_init__(self) -> None:
        self.outbox = KeptOutbox(self.folder)

    @property
    def address(self) -> str:
        return address(self.number)

    def _transport(self) -> httpx2.AsyncHTTPTransport:
        return httpx2.AsyncHTTPTransport(local_address=self.address, verify=False)

    async def current(self, stage: Stage, name: str) -> Task:
        """This week's task of a series, as the device finds it by itself."""
        async with httpx2.AsyncClient(transport=self._transport(), timeout=60) as http:

            async def ask(path: str) -> httpx2.Response:
                try:
                    answer = await http.get(stage.urls["analyzer"] + path)
                except httpx2.TransportError:
                    raise Unreachable("The analyzer is away.") from None
                if answer.status_code in TEMPORARY_STATUSES:
                    raise Unreachable("The analyzer is busy.")
                assert answer.status_code == 200, answer.text
                return answer

            listed = (await insist(lambda: ask("/current"))).json()["tasks"]
            now = stage.clock()
            (one,) = [
                task
                for task in listed
                if task["name"].startswith(name) and task["not_before"] <= now < task["expires"]
            ]
            text = (await insist(lambda: ask(f"/tasks/{one['task']}"))).content
        task = read_task(text)
        assert task.id.hex() == one["task"]
        return task

    def sender(self, stage: Stage, task: Task) -> AsyncClient:
        """The client that sends this device's report of a task, through the relay."""
        return self.client(
            task,
            task.shuffler,
            self.secret,
            self.outbox,
            policy=self.policy,
            attempts=ATTEMPTS,
            clock=stage.clock,
            relay=stage.urls["relay"],
            transport=self._transport(),
        )

    async def answer(self, stage: Stage, name: str) -> bytes:
        """Answers this week's task of a series until it is acknowledged; gives the task's id.
        Raises what the client raises where it refuses."""
        task = await self.current(stage, name)
        async with self.sender(stage, task) as client:
            await insist(client.prepare)
            token = json.loads((self.folder / f"{task.id.hex()}.token").read_text())["token"]
            self.tokens[task.id] = token
            with contextlib.suppress(Unreachable):
                await client.send(self.value)
            await insist(client.resume)
        assert self.outbox.answered(task.id)
        return task.id

    def charges(self) -> list[Fraction]:
        """What each report of this device has cost."""
        return [charge.epsilon for charge in Device(self.folder).charges()]


async def insist(act: Callable[[], Awaitable[Any]]) -> Any:
    """Does something again and again while servers are away."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(Unreachable):
            return await act()
        await asyncio.sleep(PAUSE_SECONDS)
    return await act()


class FalseClient(AsyncClient):
    """A client that sends K messages to one cell instead of a randomized report."""

    def _encrypt(self, value: Any) -> bytes:
        body = Upload(
            task_id=self.task.id,
            report_id=new_report_id(self._bearer),
            key_id=self.task.key.key_id,
            messages=encrypt_all([1] * self.task.report_size, self.task.key, self.task.id),
        ).to_bytes()
        self.outbox.store(self.task.id, body)
        return body
