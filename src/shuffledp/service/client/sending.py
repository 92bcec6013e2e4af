"""Sending a value from a device: verify the task, check the device's policy, check who signed the
task and that it is in the public log, randomize, pad, encrypt, charge, store, send.

    Client(task, task.shuffler, token).send(1)

`Client` waits; `AsyncClient` does the same with `await`. Both refuse seeded randomness.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from platformdirs import user_data_path
from tenacity import AsyncRetrying, Retrying

from shuffledp.errors import SeededError
from shuffledp.exact.deadline import time_limit
from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.sealed.clock import Clock, system_clock
from shuffledp.sealed.reports import encrypt_report
from shuffledp.sealed.task import Task
from shuffledp.sealed.task_proof import TaskProof
from shuffledp.sealed.wire import REPORT_ID_BYTES, read_upload
from shuffledp.service.answers import (
    MOST_SHORT_ANSWER_BYTES,
    answer_json,
    bounded_request,
    bounded_request_async,
)
from shuffledp.service.client.device import Device
from shuffledp.service.client.outbox import Outbox
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.proving import ProofSource
from shuffledp.service.client.retries import TEMPORARY_STATUSES, NotTaken, retry_options
from shuffledp.service.errors import (
    Refused,
    Unreachable,
    UntrustedServer,
    untrusted_certificate,
)
from shuffledp.service.tokens import token_hash

DEFAULT_OUTBOX = user_data_path("shuffledp", appauthor=False) / "outbox"
DEFAULT_POLICY = ClientPolicy()
DEFAULT_ATTEMPTS = 8
VERIFY_SECONDS = 120.0
"""For proving a task's certificate again; a task that needs longer is refused."""
INTERRUPTED = "interrupted"
"""The reason in a 400 after which the same bytes are sent again."""


def new_report_id(token: str) -> bytes:
    """A fresh report id, whose first half is that of the token's hash. The shuffler stores both in
    one table: they then lie in one page of its disk, which saves half the writes."""
    half = REPORT_ID_BYTES // 2
    return token_hash(token)[:half] + os.urandom(half)


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """The certificates that clients trust, read once: reading takes longer than encrypting."""
    return httpx.create_ssl_context()


class _Sender:
    """What `Client` and `AsyncClient` share."""

    def __init__(
        self,
        task: Task,
        shuffler: str,
        token: str,
        outbox: str | Path | Outbox | None = None,
        *,
        policy: ClientPolicy = DEFAULT_POLICY,
        proof: TaskProof | None = None,
        entropy: Entropy = SYSTEM,
        attempts: int = DEFAULT_ATTEMPTS,
        clock: Clock = system_clock,
    ) -> None:
        if entropy.seeded:
            raise SeededError(
                "A client for real people needs the operating system's randomness; "
                "leave the seed out."
            )
        with time_limit(VERIFY_SECONDS, "Verifying this task"):
            task.verify()  # the certificate is proved again, once, before anything is sent
        self.task = task
        self.outbox = outbox if isinstance(outbox, Outbox) else Outbox(outbox or DEFAULT_OUTBOX)
        self.policy, self.device = policy, Device(self.outbox.path, clock)
        self._clock = clock
        self._entropy, self._attempts, self._token = entropy, attempts, token
        self._shuffler = shuffler.rstrip("/")
        self._proof, self._proved = proof, False
        self._source = ProofSource(self._shuffler, task.id, retry_options(attempts, entropy))
        self._url = f"{self._shuffler}/tasks/{task.id.hex()}/reports"
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/octet-stream",
        }

    def _check_task(self) -> None:
        """Raises `TaskNotNow`, `PolicyRefused` or `AlreadyAnswered` if this device does not answer
        the task now."""
        self.task.check_time(self._clock())
        self.policy.check(self.task)
        self.outbox.refuse_answered(self.task.id)
        self.device.check(self.task, self.policy)

    def _accept(self, proof: TaskProof) -> None:
        """Raises `ProofError` or `PolicyRefused` unless everybody else is asked the same task, as
        far as this device's keys can tell."""
        proof.check(self.task.id)
        self.policy.check_signers(proof.keys)
        self.device.trust(self._shuffler, self.task, proof.keys, self.policy)
        self._proof, self._proved = proof, True

    def _encrypt(self, value: Any) -> bytes:
        """The encrypted report of a value, paid for and stored before it is sent.

        Requires: the task was checked and its proof accepted.
        """
        if not self._proved:
            raise AssertionError("The proof of this task was not checked.")
        name = new_report_id(self._token)
        body = encrypt_report(self.task, value, self._entropy, report_id=name)
        self.device.charge(
            self.task,
            name,
            self.policy,
            lambda: self.outbox.store(self.task.id, body),
            shuffler=self._shuffler,
        )
        return body

    def _settle(self, answer: httpx.Response) -> None:
        """Marks the report as acknowledged; raises `NotTaken` if it is to be sent again, and
        `Refused` if the shuffler refused it for good."""
        if answer.status_code in TEMPORARY_STATUSES:
            raise NotTaken(answer)
        if answer.status_code == 400 and _problem(answer)[2] == INTERRUPTED:
            raise NotTaken(answer)
        if answer.status_code not in (200, 201):
            raise Refused(*_problem(answer))
        self.outbox.acknowledge(self.task.id, self.task.repeat)

    def _given_up(self) -> Unreachable:
        return Unreachable(
            f"The shuffler did not take the report in {self._attempts} attempts; it is stored, "
            "encrypted: send it again later with `resume`."
        )

    def _stored(self) -> bytes | None:
        """The report that `resume` has to send; None if the shuffler has it already."""
        body = self.outbox.stored(self.task.id)
        if body is None and not self.outbox.answered(self.task.id):
            raise Refused("Nothing is stored for this task; use `send` with a value.", 0)
        if body is not None:
            self.device.charge(self.task, read_upload(body).report_id, self.policy)
        return body

    def _no_answer(self, error: httpx.TransportError) -> NotTaken | UntrustedServer:
        """What to raise: at once, if waiting will not help because the server's certificate is not
        trusted."""
        untrusted = untrusted_certificate(error)
        return UntrustedServer(self._shuffler) if untrusted else NotTaken(None)


def _problem(answer: httpx.Response) -> tuple[str, int, str]:
    try:
        data = answer_json(answer)
        code = str(data["type"]).rpartition(":")[2]
        return f"The shuffler refused the report: {data['detail']}", answer.status_code, code
    except (ValueError, KeyError, TypeError):
        return (
            f"The shuffler refused the report (HTTP {answer.status_code}).",
            answer.status_code,
            "",
        )


class Client(_Sender):
    """Sends one value per task, and waits until it is acknowledged."""

    def __init__(
        self,
        task: Task,
        shuffler: str,
        token: str,
        outbox: str | Path | Outbox | None = None,
        *,
        policy: ClientPolicy = DEFAULT_POLICY,
        proof: TaskProof | None = None,
        entropy: Entropy = SYSTEM,
        attempts: int = DEFAULT_ATTEMPTS,
        clock: Clock = system_clock,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(
            task,
            shuffler,
            token,
            outbox,
            policy=policy,
            proof=proof,
            entropy=entropy,
            attempts=attempts,
            clock=clock,
        )
        self._http = httpx.Client(transport=transport, timeout=30, verify=_trust())

    def check(self) -> None:
        """Raises an error unless this device answers the task now, everybody whose signature it
        needs has signed it, and it is in the public log."""
        self._check_task()
        if not self._proved:
            self._accept(self._proof or self._source.fetch(self._http))

    def send(self, value: Any) -> None:
        """Sends a value; `AlreadyAnswered` if this device has answered this task."""
        self.check()
        self._post(self._encrypt(value))

    def resume(self) -> None:
        """Sends the stored report again, the very same bytes."""
        body = self._stored()
        if body is not None:
            self._post(body)

    def _post(self, body: bytes) -> None:
        try:
            Retrying(**retry_options(self._attempts, self._entropy))(self._once, body)
        except NotTaken:
            raise self._given_up() from None

    def _once(self, body: bytes) -> None:
        try:
            answer = bounded_request(
                self._http,
                "POST",
                self._url,
                MOST_SHORT_ANSWER_BYTES,
                content=body,
                headers=self._headers,
            )
        except httpx.TransportError as error:
            raise self._no_answer(error) from None
        self._settle(answer)

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
    """Sends one value per task, with `await`; encrypting runs in a thread."""

    def __init__(
        self,
        task: Task,
        shuffler: str,
        token: str,
        outbox: str | Path | Outbox | None = None,
        *,
        policy: ClientPolicy = DEFAULT_POLICY,
        proof: TaskProof | None = None,
        entropy: Entropy = SYSTEM,
        attempts: int = DEFAULT_ATTEMPTS,
        clock: Clock = system_clock,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(
            task,
            shuffler,
            token,
            outbox,
            policy=policy,
            proof=proof,
            entropy=entropy,
            attempts=attempts,
            clock=clock,
        )
        self._http = httpx.AsyncClient(transport=transport, timeout=30, verify=_trust())

    async def check(self) -> None:
        """Raises an error unless this device answers the task now, everybody whose signature it
        needs has signed it, and it is in the public log."""
        self._check_task()
        if not self._proved:
            self._accept(self._proof or await self._source.fetch_async(self._http))

    async def send(self, value: Any) -> None:
        """Sends a value; `AlreadyAnswered` if this device has answered this task."""
        await self.check()
        await self._post(await asyncio.to_thread(self._encrypt, value))

    async def resume(self) -> None:
        """Sends the stored report again, the very same bytes."""
        body = self._stored()
        if body is not None:
            await self._post(body)

    async def _post(self, body: bytes) -> None:
        try:
            await AsyncRetrying(**retry_options(self._attempts, self._entropy))(self._once, body)
        except NotTaken:
            raise self._given_up() from None

    async def _once(self, body: bytes) -> None:
        try:
            answer = await bounded_request_async(
                self._http,
                "POST",
                self._url,
                MOST_SHORT_ANSWER_BYTES,
                content=body,
                headers=self._headers,
            )
        except httpx.TransportError as error:
            raise self._no_answer(error) from None
        self._settle(answer)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()
