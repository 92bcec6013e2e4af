"""Asking the shuffler for the proof of a task: who has signed it, and where it is in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
from tenacity import AsyncRetrying, Retrying

from shuffledp.service.answers import bounded_request, bounded_request_async
from shuffledp.service.client.retries import TEMPORARY_STATUSES, NotTaken
from shuffledp.service.errors import Refused, Unreachable, UntrustedServer, untrusted_certificate
from shuffledp.tasks.task_proof import MOST_PROOF_BYTES, TaskProof


@dataclass(frozen=True)
class ProofSource:
    """Where a task's proof is, and how often to ask for it."""

    shuffler: str
    task_id: bytes
    retries: dict[str, Any]

    def fetch(self, http: httpx.Client) -> TaskProof:
        """The proof; raises `Unreachable`, or `Refused` if the shuffler has none."""
        try:
            return Retrying(**self.retries)(self._once, http)
        except NotTaken:
            raise self._away() from None

    async def fetch_async(self, http: httpx.AsyncClient) -> TaskProof:
        """`fetch` with `await`."""
        try:
            return await AsyncRetrying(**self.retries)(self._once_async, http)
        except NotTaken:
            raise self._away() from None

    def _once(self, http: httpx.Client) -> TaskProof:
        try:
            return _read(bounded_request(http, "GET", self._url, MOST_PROOF_BYTES))
        except httpx.TransportError as error:
            raise self._no_answer(error) from None

    async def _once_async(self, http: httpx.AsyncClient) -> TaskProof:
        try:
            return _read(await bounded_request_async(http, "GET", self._url, MOST_PROOF_BYTES))
        except httpx.TransportError as error:
            raise self._no_answer(error) from None

    @property
    def _url(self) -> str:
        return f"{self.shuffler}/tasks/{self.task_id.hex()}/proof"

    def _no_answer(self, error: httpx.TransportError) -> NotTaken | UntrustedServer:
        return UntrustedServer(self.shuffler) if untrusted_certificate(error) else NotTaken(None)

    def _away(self) -> Unreachable:
        return Unreachable(
            f"{self.shuffler} did not give the proof of this task; nothing was sent: try again "
            "later."
        )


def _read(answer: httpx.Response) -> TaskProof:
    """The proof in an answer; only its form is checked."""
    if answer.status_code in TEMPORARY_STATUSES:
        raise NotTaken(answer)
    if answer.status_code != 200:
        raise Refused(
            "The shuffler gives no proof that this task is in the public log of tasks; nothing was "
            "sent: tell the collector.",
            answer.status_code,
        )
    return TaskProof.from_json(answer.content)
