"""Sending a value from a device: verify the task, check the device's policy, check who signed the
task and that it is in the public log, randomize, pad, encrypt, charge, store, send.

    Client(task, task.shuffler, token).send(1)

`Client` waits; `AsyncClient` does the same with `await`. Both refuse seeded randomness. With
`relay=` the report goes through a relay, so that the shuffler does not learn the device's address.
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

from shuffledp.errors import SeededError
from shuffledp.numbers.deadline import time_limit
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.service.client.device import Device
from shuffledp.service.client.errands import Errand, Errands
from shuffledp.service.client.one_time import OneTimeToken, spent_name
from shuffledp.service.client.outbox import Outbox
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.proving import ProofSource
from shuffledp.service.client.relaying import AsyncRelayTransport, RelayTransport, gateway_of
from shuffledp.service.client.retries import retry_options
from shuffledp.service.errors import Refused
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.task_proof import TaskProof
from shuffledp.tasks.wire import REPORT_ID_BYTES, read_upload

DEFAULT_OUTBOX = user_data_path("shuffledp", appauthor=False) / "outbox"
DEFAULT_POLICY = ClientPolicy()
DEFAULT_ATTEMPTS = 8
NO_TOKEN = "The issuer does not answer, so that there is no token yet; nothing was sent: try later."
VERIFY_SECONDS = 120.0
"""For proving a task's certificate again; a task that needs longer is refused."""


def new_report_id(token: str) -> bytes:
    """A fresh report id, whose first half is that of the token's hash. The shuffler stores both in
    one table: they then lie in one page of its disk, which saves half the writes."""
    half = REPORT_ID_BYTES // 2
    return spent_name(token)[:half] + os.urandom(half)


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
        self._entropy, self._token = entropy, token
        self._errands = Errands(attempts, entropy)
        self._shuffler = shuffler.rstrip("/")
        self._proof, self._proved = proof, False
        self._source = ProofSource(self._shuffler, task.id, retry_options(attempts, entropy))
        self._one_time = (
            OneTimeToken(task, token, self.outbox.path) if task.issuer is not None else None
        )

    @property
    def _bearer(self) -> str:
        """The token that the report carries."""
        token = self._token if self._one_time is None else self._one_time.text()
        if token is None:
            raise Refused("There is no token of this task yet; call `prepare` first.", 0)
        return token

    def _token_errand(self) -> Errand | None:
        """How the one-time token is got from the issuer; None if there is nothing to get."""
        done = self.outbox.answered(self.task.id)
        if self._one_time is None or done or self._one_time.text() is not None:
            return None
        return self._one_time.errand()

    def _report_errand(self, body: bytes) -> Errand:
        """How a report is sent."""
        return Errand(
            server=self._shuffler,
            path=f"/tasks/{self.task.id.hex()}/reports",
            headers={
                "Authorization": f"Bearer {self._bearer}",
                "Content-Type": "application/octet-stream",
            },
            body=body,
            refusal="The shuffler refused the report",
            settle=self._settle,
        )

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
        name = new_report_id(self._bearer)
        body = encrypt_report(self.task, value, self._entropy, report_id=name)
        self.device.charge(
            self.task,
            name,
            self.policy,
            lambda: self.outbox.store(self.task.id, body),
            shuffler=self._shuffler,
        )
        return body

    def _settle(self, _: bytes) -> None:
        """Marks the report as acknowledged."""
        self.outbox.acknowledge(self.task.id, self.task.repeat)
        if self._one_time is not None:
            self._one_time.forget()

    @property
    def _vain(self) -> str:
        return (
            f"The shuffler did not take the report in {self._errands.attempts} attempts; it is "
            "stored, encrypted: send it again later with `resume`."
        )

    def _stored(self) -> bytes | None:
        """The report that `resume` has to send; None if the shuffler has it already."""
        body = self.outbox.stored(self.task.id)
        if body is None and not self.outbox.answered(self.task.id):
            raise Refused("Nothing is stored for this task; use `send` with a value.", 0)
        if body is not None:
            self.device.charge(self.task, read_upload(body).report_id, self.policy)
        return body


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
        relay: str = "",
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
        self._http = self._to_shuffler = httpx.Client(
            transport=transport, timeout=30, verify=_trust()
        )
        if relay:
            inner = transport or httpx.HTTPTransport(verify=_trust())
            through = RelayTransport(gateway_of(task), self._shuffler, relay, inner)
            self._to_shuffler = httpx.Client(transport=through, timeout=30)

    def prepare(self) -> None:
        """Gets the task's one-time token, where it has an issuer; best long before `send`, so that
        the times of the two say nothing. `send` does this if it was not done."""
        self.check()
        errand = self._token_errand()
        if errand is not None:
            self._errands.run(self._http, errand, NO_TOKEN)

    def check(self) -> None:
        """Raises an error unless this device answers the task now, everybody whose signature it
        needs has signed it, and it is in the public log."""
        self._check_task()
        if not self._proved:
            self._accept(self._proof or self._source.fetch(self._to_shuffler))

    def send(self, value: Any) -> None:
        """Sends a value; `AlreadyAnswered` if this device has answered this task."""
        self.prepare()
        self._post(self._encrypt(value))

    def resume(self) -> None:
        """Sends the stored report again, the very same bytes."""
        body = self._stored()
        if body is not None:
            self._post(body)

    def _post(self, body: bytes) -> None:
        self._errands.run(self._to_shuffler, self._report_errand(body), self._vain)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()
        self._to_shuffler.close()


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
        relay: str = "",
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
        self._http = self._to_shuffler = httpx.AsyncClient(
            transport=transport, timeout=30, verify=_trust()
        )
        if relay:
            inner = transport or httpx.AsyncHTTPTransport(verify=_trust())
            through = AsyncRelayTransport(gateway_of(task), self._shuffler, relay, inner)
            self._to_shuffler = httpx.AsyncClient(transport=through, timeout=30)

    async def prepare(self) -> None:
        """Gets the task's one-time token, as `Client.prepare` does."""
        await self.check()
        errand = await asyncio.to_thread(self._token_errand)
        if errand is not None:
            await self._errands.run_async(self._http, errand, NO_TOKEN)

    async def check(self) -> None:
        """Raises an error unless this device answers the task now, everybody whose signature it
        needs has signed it, and it is in the public log."""
        self._check_task()
        if not self._proved:
            self._accept(self._proof or await self._source.fetch_async(self._to_shuffler))

    async def send(self, value: Any) -> None:
        """Sends a value; `AlreadyAnswered` if this device has answered this task."""
        await self.prepare()
        await self._post(await asyncio.to_thread(self._encrypt, value))

    async def resume(self) -> None:
        """Sends the stored report again, the very same bytes."""
        body = self._stored()
        if body is not None:
            await self._post(body)

    async def _post(self, body: bytes) -> None:
        await self._errands.run_async(self._to_shuffler, self._report_errand(body), self._vain)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()
        await self._to_shuffler.aclose()
