"""The device's side: verify, randomize, pad to K, seal, store, send, and send the same again.

    Client(task, "https://shuffler.example", token).send(1)

`Client` waits; `AsyncClient` does the same with `await`. Both refuse seeded randomness.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from shuffledp.errors import SeededError
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.sealed.encryption import encrypt_all
from shuffledp.sealed.errors import Refused, Unreachable
from shuffledp.sealed.task import Task
from shuffledp.sealed.tokens import token_hash
from shuffledp.sealed.wire import Upload, plain_numbers
from shuffledp.service.client.outbox import Outbox

DEFAULT_OUTBOX = Path.home() / ".local" / "share" / "shuffledp" / "outbox"
ATTEMPTS = 8
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Answers after which the same bytes are worth sending again."""


def encrypt_report(task: Task, value: Any, entropy: Entropy = SYSTEM, token: str = "") -> bytes:
    """One user's report as it is posted: exactly K messages, each sealed on its own; `token` is
    the one that it will be posted with.

    Requires: a verified task.
    Ensures: the size does not depend on the value; a draw of more than K messages is drawn again
    (probability below 2⁻⁶⁴ per batch).
    """
    if entropy.seeded:
        raise SeededError(
            "Reports of real people need the operating system's randomness; leave the seed out."
        )
    messages = task.protocol.randomize(value, entropy).messages()
    while len(messages) > task.report_size:
        messages = task.protocol.randomize(value, entropy).messages()
    plain = plain_numbers(messages, task.report_size)
    sealed = encrypt_all(plain.tolist(), task.key, task.id)
    return Upload(task.id, new_report_id(token), task.key.key_id, sealed).to_bytes()


def new_report_id(token: str = "") -> bytes:
    """A fresh id. It begins like the hash of the token, which the shuffler stores beside it: both
    then lie in one page of its disk, and half the writes are saved."""
    beginning = token_hash(token)[:8] if token else os.urandom(8)
    return beginning + os.urandom(8)


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """The certificates that clients trust, read once: reading them takes longer than sealing."""
    return httpx.create_ssl_context()


class _Sender:
    """What both clients share."""

    def __init__(
        self,
        task: Task,
        shuffler: str,
        token: str,
        outbox: str | Path | Outbox | None = None,
        *,
        entropy: Entropy = SYSTEM,
        attempts: int = ATTEMPTS,
    ) -> None:
        if entropy.seeded:
            raise SeededError(
                "A client for real people needs the operating system's randomness; "
                "leave the seed out."
            )
        task.verify()  # the certificate is proved again, once, before anything is sent
        self.task = task
        self.outbox = outbox if isinstance(outbox, Outbox) else Outbox(outbox or DEFAULT_OUTBOX)
        self._entropy, self._attempts, self._token = entropy, attempts, token
        self._url = f"{shuffler.rstrip('/')}/tasks/{task.id.hex()}/reports"
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/octet-stream",
        }

    def seal(self, value: Any) -> bytes:
        """Randomizes, pads, seals and stores a value; the first and only time per task."""
        self.outbox.claim(self.task.id)
        body = encrypt_report(self.task, value, self._entropy, self._token)
        self.outbox.keep(self.task.id, body)
        return body

    def _pauses(self) -> Iterator[float]:
        """Pauses between attempts: doubling, cut off, spread so that clients do not march."""
        for attempt in range(self._attempts):
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt)
            yield longest * (0.5 + self._entropy.below(1024) / 1024)

    def _settled(self, answer: httpx.Response | None) -> bool:
        """Whether an answer ends the attempts; raises if it is a final no."""
        if answer is None or answer.status_code in PASSING:
            return False
        if answer.status_code in (200, 201):
            self.outbox.acknowledged(self.task.id, self.task.repeat)
            return True
        raise Refused(*_problem(answer))

    def _given_up(self) -> Unreachable:
        return Unreachable(
            f"The shuffler did not take the report in {self._attempts} attempts; it is stored, "
            "sealed: send it again later with `resume`."
        )

    def _stored(self) -> bytes | None:
        """What `resume` has to send; None if the shuffler has it already."""
        body = self.outbox.stored(self.task.id)
        if body is None and not self.outbox.answered(self.task.id):
            raise Refused("Nothing is stored for this task; use `send` with a value.", 0)
        return body


def _problem(answer: httpx.Response) -> tuple[str, int, str]:
    try:
        data = answer.json()
        code = str(data["type"]).rpartition(":")[2]
        return f"The shuffler refused the report: {data['detail']}", answer.status_code, code
    except (ValueError, KeyError, TypeError):
        return (
            f"The shuffler refused the report (HTTP {answer.status_code}).",
            answer.status_code,
            "",
        )


class Client(_Sender):
    """Sends one value per task; waits until it is acknowledged."""

    def __init__(
        self,
        task: Task,
        shuffler: str,
        token: str,
        outbox: str | Path | Outbox | None = None,
        *,
        entropy: Entropy = SYSTEM,
        attempts: int = ATTEMPTS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(task, shuffler, token, outbox, entropy=entropy, attempts=attempts)
        self._http = httpx.Client(transport=transport, timeout=30, verify=_trust())

    def send(self, value: Any) -> None:
        """Sends a value; `AlreadyAnswered` if this device has answered this task."""
        self._post(self.seal(value))

    def resume(self) -> None:
        """Sends what is stored again, the very same bytes."""
        body = self._stored()
        if body is not None:
            self._post(body)

    def _post(self, body: bytes) -> None:
        for pause in self._pauses():
            try:
                answer = self._http.post(self._url, content=body, headers=self._headers)
            except httpx.TransportError:
                answer = None
            if self._settled(answer):
                return
            time.sleep(pause)
        raise self._given_up()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()


class AsyncClient(_Sender):
    """The same with `await`; sealing runs in a thread."""

    def __init__(
        self,
        task: Task,
        shuffler: str,
        token: str,
        outbox: str | Path | Outbox | None = None,
        *,
        entropy: Entropy = SYSTEM,
        attempts: int = ATTEMPTS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(task, shuffler, token, outbox, entropy=entropy, attempts=attempts)
        self._http = httpx.AsyncClient(transport=transport, timeout=30, verify=_trust())

    async def send(self, value: Any) -> None:
        """Sends a value; `AlreadyAnswered` if this device has answered this task."""
        await self._post(await asyncio.to_thread(self.seal, value))

    async def resume(self) -> None:
        """Sends what is stored again, the very same bytes."""
        body = self._stored()
        if body is not None:
            await self._post(body)

    async def _post(self, body: bytes) -> None:
        for pause in self._pauses():
            try:
                answer = await self._http.post(self._url, content=body, headers=self._headers)
            except httpx.TransportError:
                answer = None
            if self._settled(answer):
                return
            await asyncio.sleep(pause)
        raise self._given_up()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()
