"""Requests of a device that are sent again until the server has accepted or refused them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_base

from shuffledp.numbers.entropy import Entropy
from shuffledp.service.answers import MOST_SHORT_ANSWER_BYTES, lasting_failure, refusal
from shuffledp.service.client.connection import Connection
from shuffledp.service.errors import Refused, Unreachable

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 30.0
MOST_DOUBLINGS = 20
TEMPORARY_STATUSES = {408, 425, 429, 500, 502, 503, 504}
"""Answers after which the same request is sent again."""
INTERRUPTED = "interrupted"
"""The reason in a 400 after which the same request is sent again."""


@dataclass(frozen=True, kw_only=True)
class DeviceRequest:
    """A request of a device to a server, and what to say if it fails."""

    method: str
    server: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    most: int = MOST_SHORT_ANSWER_BYTES
    """The longest answer, in bytes."""
    unreachable: str
    """The message of `Unreachable` if no attempt was answered."""
    refused: str
    """How the message of `Refused` begins; the server's reason follows."""


class NotAccepted(Exception):
    """The server did not accept the request this time; the same bytes may be sent again."""

    def __init__(self, answer: httpx2.Response | None) -> None:
        super().__init__()
        self.asked_seconds = 0.0 if answer is None else asked_seconds(answer)


def asked_seconds(answer: httpx2.Response) -> float:
    """How long the server asks to wait (Retry-After: seconds or a date); 0 if it does not say."""
    text = answer.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return 0.0


class Pauses(wait_base):
    """Pauses between attempts, in seconds. They double up to a limit and vary at random, so that
    clients do not all come back at the same time. A longer pause that the server asks for is
    respected, up to the same limit."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def __call__(self, state: RetryCallState) -> float:
        doublings = min(state.attempt_number - 1, MOST_DOUBLINGS)
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**doublings)
        pause = longest * (0.5 + self._entropy.below(1024) / 1024)
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.asked_seconds if isinstance(error, NotAccepted) else 0.0
        return max(pause, min(asked, LONGEST_PAUSE_SECONDS))


@dataclass(frozen=True)
class Retries:
    """How often a request is sent, and the randomness of the pauses."""

    attempts: int
    entropy: Entropy

    async def send(self, connection: Connection, request: DeviceRequest) -> bytes:
        """The content of the answer that accepts a request.

        Raises:
            Refused: The server refused permanently.
            Unreachable: No attempt was answered; `UntrustedServer` at once if the server's
                certificate is not trusted, because waiting will not help.
        """
        retrying = AsyncRetrying(
            sleep=connection.sleep,
            stop=stop_after_attempt(self.attempts),
            wait=Pauses(self.entropy),
            retry=retry_if_exception_type(NotAccepted),
            reraise=True,
        )
        try:
            return await retrying(_attempt, connection, request)
        except NotAccepted:
            raise Unreachable(request.unreachable) from None


async def _attempt(connection: Connection, request: DeviceRequest) -> bytes:
    """The content of the answer; raises `NotAccepted` if the same request may be sent again."""
    try:
        answer = await connection.request(
            request.method,
            request.server + request.path,
            request.most,
            content=request.body,
            headers=request.headers,
        )
    except (httpx2.TransportError, httpx2.InvalidURL, UnicodeError) as error:
        raise lasting_failure(error, request.server) or NotAccepted(None) from None
    if answer.status_code in (200, 201):
        return answer.content
    code, why = refusal(answer)
    if answer.status_code in TEMPORARY_STATUSES or (answer.status_code, code) == (400, INTERRUPTED):
        raise NotAccepted(answer)
    why = f": {why}" if why else f" (HTTP {answer.status_code})."
    raise Refused(f"{request.refused}{why}", answer.status_code, code)
