"""One request of a device, sent until the other side has taken it or refuses it for good: the same
for programs that wait and that `await`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx
from tenacity import AsyncRetrying, Retrying

from shuffledp.numbers.entropy import Entropy
from shuffledp.service.answers import (
    MOST_SHORT_ANSWER_BYTES,
    answer_json,
    bounded_request,
    bounded_request_async,
)
from shuffledp.service.client.retries import TEMPORARY_STATUSES, NotTaken, retry_options
from shuffledp.service.errors import Refused, Unreachable, UntrustedServer, untrusted_certificate

INTERRUPTED = "interrupted"
"""The reason in a 400 after which the same bytes are sent again."""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What is sent where, and what is done with the answer."""

    server: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    refusal: str
    """How to begin the sentence that passes a refusal on."""
    settle: Callable[[bytes], None]
    """Called with the answer's content once the request was taken."""

    def check(self, answer: httpx.Response) -> None:
        """Settles an answer; raises `NotTaken` if the same is to be sent again, and `Refused` if it
        was refused for good."""
        if answer.status_code in TEMPORARY_STATUSES:
            raise NotTaken(answer)
        if answer.status_code not in (200, 201):
            code, why = _problem(answer)
            if answer.status_code == 400 and code == INTERRUPTED:
                raise NotTaken(answer)
            raise Refused(f"{self.refusal}{why}", answer.status_code, code)
        self.settle(answer.content)

    def no_answer(self, error: httpx.TransportError) -> NotTaken | UntrustedServer:
        """What to raise: at once, if waiting will not help because the server's certificate is not
        trusted."""
        return UntrustedServer(self.server) if untrusted_certificate(error) else NotTaken(None)


@dataclass(frozen=True)
class Errands:
    """How often errands are tried, and what is said when that was in vain."""

    attempts: int
    entropy: Entropy

    def run(self, http: httpx.Client, errand: Errand, vain: str) -> None:
        """Sends a request until it is taken; raises `Unreachable` with `vain` if it never is."""

        def attempt() -> None:
            try:
                answer = bounded_request(
                    http,
                    "POST",
                    errand.server + errand.path,
                    MOST_SHORT_ANSWER_BYTES,
                    content=errand.body,
                    headers=errand.headers,
                )
            except httpx.TransportError as error:
                raise errand.no_answer(error) from None
            errand.check(answer)

        try:
            Retrying(**retry_options(self.attempts, self.entropy))(attempt)
        except NotTaken:
            raise Unreachable(vain) from None

    async def run_async(self, http: httpx.AsyncClient, errand: Errand, vain: str) -> None:
        """`run` with `await`."""

        async def attempt() -> None:
            try:
                answer = await bounded_request_async(
                    http,
                    "POST",
                    errand.server + errand.path,
                    MOST_SHORT_ANSWER_BYTES,
                    content=errand.body,
                    headers=errand.headers,
                )
            except httpx.TransportError as error:
                raise errand.no_answer(error) from None
            errand.check(answer)

        try:
            await AsyncRetrying(**retry_options(self.attempts, self.entropy))(attempt)
        except NotTaken:
            raise Unreachable(vain) from None


def _problem(answer: httpx.Response) -> tuple[str, str]:
    """(the code of the reason, the reason in words)."""
    try:
        data = answer_json(answer)
        return str(data["type"]).rpartition(":")[2], f": {data['detail']}"
    except (ValueError, KeyError, TypeError):
        return "", f" (HTTP {answer.status_code})."
