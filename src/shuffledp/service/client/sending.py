"""Sending a value from a device: check the device's policy, who signed the task and that it is in
the public log, prove its certificate, randomize, pad, encrypt, charge, store, send.

    Client(task, task.shuffler, token).send(1)

`Client` blocks; `AsyncClient` does the same with `await`. Both refuse seeded randomness. With
`relay=` the report goes through a relay, so that the shuffler does not learn the device's address.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx2
from platformdirs import user_data_path

from shuffledp.errors import SeededError
from shuffledp.numbers.deadline import time_limit
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.service.blocking import run_blocking
from shuffledp.service.client.connection import AsyncConnection, BlockingConnection, Connection
from shuffledp.service.client.device import Device
from shuffledp.service.client.one_time import OneTimeToken, spent_name
from shuffledp.service.client.outbox import Outbox
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.relaying import RelayedConnection, gateway_of
from shuffledp.service.client.retries import DeviceRequest, Retries
from shuffledp.service.errors import Refused
from shuffledp.tasks.clock import Clock, system_clock
from shuffledp.tasks.log import MOST_PROOF_BYTES, TaskProof
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import REPORT_ID_BYTES, read_upload

DEFAULT_OUTBOX = user_data_path("shuffledp", appauthor=False) / "outbox"
DEFAULT_POLICY = ClientPolicy()
DEFAULT_ATTEMPTS = 8
VERIFY_SECONDS = 120.0
"""The time limit for proving a task's certificate again; a slower task is refused."""
Transport = TypeVar("Transport", httpx2.BaseTransport, httpx2.AsyncBaseTransport)


def new_report_id(token: str) -> bytes:
    """A fresh report id, whose first half is that of the token's hash. The shuffler stores both in
    one table: they then lie in one page of its disk, which halves the writes."""
    half = REPORT_ID_BYTES // 2
    return spent_name(token)[:half] + os.urandom(half)


async def fetch_proof(
    connection: Connection, shuffler: str, task_id: bytes, retries: Retries
) -> TaskProof:
    """The proof that a task is signed and in the public log, from the shuffler; only its form is
    checked. Raises `Unreachable`, or `Refused` if the shuffler has none."""
    request = DeviceRequest(
        method="GET",
        server=shuffler,
        path=f"/tasks/{task_id.hex()}/proof",
        headers={},
        most=MOST_PROOF_BYTES,
        unreachable=f"{shuffler} did not return the proof of this task; nothing was sent: try "
        "again later.",
        refused="",
    )
    try:
        return TaskProof.from_json(await retries.send(connection, request))
    except Refused as refused:
        raise Refused(
            "The shuffler has no proof that this task is in the public log of tasks; nothing was "
            "sent: tell the collector.",
            refused.status,
        ) from None


class _Sender(Generic[Transport]):
    """The common part of `Client` and `AsyncClient`, as coroutines."""

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
        transport: Transport | None = None,
    ) -> None:
        if entropy.seeded:
            raise SeededError(
                "A client for real people needs the operating system's randomness; "
                "leave the seed out."
            )
        task.check_size()
        self.task, self._verified = task, False
        self.outbox = outbox if isinstance(outbox, Outbox) else Outbox(outbox or DEFAULT_OUTBOX)
        self.policy, self.device = policy, Device(self.outbox.path, clock)
        self._clock = clock
        self._entropy, self._token = entropy, token
        self._retries = Retries(attempts, entropy)
        self._shuffler = shuffler.rstrip("/")
        self._proof, self._proved = proof, False
        self._one_time = (
            OneTimeToken(task, token, self.outbox.path) if task.issuer is not None else None
        )
        self._direct = self._to_shuffler = self._connect(transport, False)
        if relay:
            self._to_shuffler = RelayedConnection(
                gateway_of(task), self._shuffler, relay, self._connect(transport, True)
            )

    @staticmethod
    @abstractmethod
    def _connect(transport: Transport | None, bare: bool) -> Connection:
        """A connection to servers."""

    async def _prepare(self) -> None:
        await self._check()
        request = await self._direct.compute(self._token_request)
        if request is not None and self._one_time is not None:
            self._one_time.keep(await self._retries.send(self._direct, request))

    async def _check(self) -> None:
        self._check_task()
        if not self._proved:
            self._accept(self._proof or await self._fetch_proof())
        if not self._verified:
            await self._direct.compute(self._verify)

    async def _fetch_proof(self) -> TaskProof:
        return await fetch_proof(self._to_shuffler, self._shuffler, self.task.id, self._retries)

    async def _send(self, value: Any) -> None:
        await self._prepare()
        await self._post(await self._direct.compute(self._encrypt, value))

    async def _resume(self) -> None:
        body = self._stored()
        if body is not None:
            await self._post(body)

    async def _post(self, body: bytes) -> None:
        await self._retries.send(self._to_shuffler, self._report_request(body))
        self.outbox.acknowledge(self.task.id, self.task.repeat)
        if self._one_time is not None:
            self._one_time.forget()

    async def _close(self) -> None:
        await self._direct.close()
        await self._to_shuffler.close()

    @property
    def _bearer(self) -> str:
        """The token that the report carries."""
        token = self._token if self._one_time is None else self._one_time.text()
        if token is None:
            raise Refused("There is no token of this task yet; call `prepare` first.", 0)
        return token

    def _token_request(self) -> DeviceRequest | None:
        """The request for the one-time token; None if none is needed."""
        done = self.outbox.answered(self.task.id)
        if self._one_time is None or done or self._one_time.text() is not None:
            return None
        return self._one_time.signing_request()

    def _report_request(self, body: bytes) -> DeviceRequest:
        return DeviceRequest(
            method="POST",
            server=self._shuffler,
            path=f"/tasks/{self.task.id.hex()}/reports",
            headers={
                "Authorization": f"Bearer {self._bearer}",
                "Content-Type": "application/octet-stream",
            },
            body=body,
            unreachable=f"The shuffler did not accept the report in {self._retries.attempts} "
            "attempts; it is stored, encrypted: send it again later with `resume`.",
            refused="The shuffler refused the report",
        )

    def _check_task(self) -> None:
        """Raises `TaskNotNow`, `PolicyRefused` or `AlreadyAnswered` if this device does not answer
        the task now."""
        self.task.check_time(self._clock())
        self.policy.check(self.task)
        self.outbox.refuse_answered(self.task.id)
        self.device.check(self.task, self.policy)

    def _verify(self) -> None:
        """Proves the certificate again, once. This happens after checking the signatures, so that
        only a party that signs tasks can keep a device busy."""
        with time_limit(VERIFY_SECONDS, "Verifying this task"):
            self.task.verify()
        self._verified = True

    def _accept(self, proof: TaskProof) -> None:
        """Raises `ProofError` or `PolicyRefused` unless everyone gets the same task, as far as this
        device can verify with its keys."""
        proof.check(self.task.id)
        self.policy.check_signers(proof.keys)
        self.policy.check_witnesses(proof)
        self.device.trust(self._shuffler, self.task, proof.keys, self.policy)
        self._proof, self._proved = proof, True

    def _encrypt(self, value: Any) -> bytes:
        """The encrypted report of a value, charged and stored before it is sent.

        Requires: the task was checked, its proof accepted and its certificate proved.
        """
        if not (self._proved and self._verified):
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

    def _stored(self) -> bytes | None:
        """The report that `resume` has to send; None if the shuffler has it already."""
        body = self.outbox.stored(self.task.id)
        if body is None and not self.outbox.answered(self.task.id):
            raise Refused("Nothing is stored for this task; use `send` with a value.", 0)
        if body is not None:
            report = read_upload(body).report_id
            self.device.charge(self.task, report, self.policy, shuffler=self._shuffler)
        return body


class Client(_Sender[httpx2.BaseTransport]):
    """Sends one value per task, and returns when it is acknowledged."""

    def prepare(self) -> None:
        """Gets the task's one-time token, if the task has an issuer. Call it long before `send`, so
        that the times of the two requests are unrelated; `send` calls it if you did not."""
        run_blocking(self._prepare())

    def check(self) -> None:
        """Raises an error unless this device may answer the task now, every required party has
        signed it, and it is in the public log."""
        run_blocking(self._check())

    def send(self, value: Any) -> None:
        """Sends a value; raises `AlreadyAnswered` if this device has answered this task."""
        run_blocking(self._send(value))

    def resume(self) -> None:
        """Sends the stored report again: the same bytes."""
        run_blocking(self._resume())

    @staticmethod
    def _connect(transport: httpx2.BaseTransport | None, bare: bool) -> Connection:
        return BlockingConnection(transport, bare=bare)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        run_blocking(self._close())


class AsyncClient(_Sender[httpx2.AsyncBaseTransport]):
    """`Client` with `await`; encrypting runs in a thread."""

    async def prepare(self) -> None:
        """Gets the task's one-time token, as `Client.prepare` does."""
        await self._prepare()

    async def check(self) -> None:
        """Raises an error unless this device may answer the task now, as `Client.check` does."""
        await self._check()

    async def send(self, value: Any) -> None:
        """Sends a value; raises `AlreadyAnswered` if this device has answered this task."""
        await self._send(value)

    async def resume(self) -> None:
        """Sends the stored report again: the same bytes."""
        await self._resume()

    @staticmethod
    def _connect(transport: httpx2.AsyncBaseTransport | None, bare: bool) -> Connection:
        return AsyncConnection(transport, bare=bare)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()
