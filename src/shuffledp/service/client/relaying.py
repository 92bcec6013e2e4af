"""Requests to the shuffler through a relay (Oblivious HTTP, RFC 9458): the relay sees the device's
address and nothing else, the shuffler everything but the address.

`RelayTransport` and `AsyncRelayTransport` take the place of httpx' own transports.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import cast
from urllib.parse import urlsplit

import httpx

from shuffledp.errors import ParameterError
from shuffledp.service.answers import AnswerTooLong
from shuffledp.service.binary_http import BinaryRequest, read_response
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.hpke_context import HpkeContext
from shuffledp.tasks.oblivious import GatewayKey, open_answer, seal_request
from shuffledp.tasks.schema import MOST_TASK_BYTES
from shuffledp.tasks.task import Task

REQUEST_MULTIPLE = 512
"""Requests are padded to a multiple of this; everything in them has a length that follows from the
task, so that all devices of a task send equally many bytes."""
MOST_ANSWER_BYTES = MOST_TASK_BYTES + (64 << 10)
PASSED = ("authorization", "content-type", "if-none-match")


def gateway_of(task: Task) -> GatewayKey:
    """The key of the gateway of a task's shuffler; raises `ParameterError` if it names none."""
    if task.gateway is None:
        raise ParameterError(
            "This task names no gateway key, so that no relay can be used; send directly, or ask "
            "the collector for a task with one."
        )
    return task.gateway


class _Envelope:
    """How requests to a shuffler are sealed for its gateway, and answers opened."""

    def __init__(self, key: GatewayKey, shuffler: str, relay: str) -> None:
        parts = urlsplit(shuffler)
        self._key, self._scheme, self._authority = key, parts.scheme, parts.netloc
        self._base = parts.path.rstrip("/")
        self._relay = f"{relay.rstrip('/')}/relay"

    def seal(self, request: httpx.Request, content: bytes) -> tuple[httpx.Request, HpkeContext]:
        """(the request to the relay, what opens its answer)."""
        inner = BinaryRequest(
            method=request.method,
            scheme=self._scheme,
            authority=self._authority,
            path=request.url.path.removeprefix(self._base),
            fields=[
                (name.encode(), request.headers[name].encode())
                for name in PASSED
                if name in request.headers
            ],
            content=content,
        )
        sealed, context = seal_request(self._key, inner.to_bytes(REQUEST_MULTIPLE))
        headers = {"Content-Type": "message/ohttp-req"}
        outer = httpx.Request(
            "POST", self._relay, headers=headers, content=sealed, extensions=request.extensions
        )
        return outer, context

    @staticmethod
    def open(answer: httpx.Response, content: bytes, context: HpkeContext) -> httpx.Response:
        """The shuffler's answer. Only refusals may come from the relay itself: it must not be able
        to acknowledge a report."""
        if answer.status_code >= 400:
            return httpx.Response(answer.status_code, headers=_kept(answer), content=content)
        if answer.status_code != 200:
            raise httpx.RemoteProtocolError("The relay gave no answer of the gateway.")
        try:
            found = read_response(open_answer(context, content))
        except (TaskError, ParameterError):
            raise httpx.RemoteProtocolError("The gateway's answer cannot be opened.") from None
        return httpx.Response(found.status, headers=found.fields, content=found.content)


def _kept(answer: httpx.Response) -> dict[str, str]:
    names = ("retry-after", "content-type")
    return {name: answer.headers[name] for name in names if name in answer.headers}


def _check(size: int) -> None:
    if size > MOST_ANSWER_BYTES:
        raise AnswerTooLong(f"An answer has at most {MOST_ANSWER_BYTES:,} bytes.")


class RelayTransport(httpx.BaseTransport):
    """Carries requests to a shuffler through a relay, sealed for the gateway with this key; `inner`
    carries them to the relay."""

    def __init__(
        self, key: GatewayKey, shuffler: str, relay: str, inner: httpx.BaseTransport
    ) -> None:
        self._envelope, self._inner = _Envelope(key, shuffler, relay), inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        outer, context = self._envelope.seal(request, request.read())
        answer = self._inner.handle_request(outer)
        content = b""
        try:
            for part in cast("Iterable[bytes]", answer.stream):
                content += part
                _check(len(content))
        finally:
            answer.close()
        return self._envelope.open(answer, content, context)

    def close(self) -> None:
        self._inner.close()


class AsyncRelayTransport(httpx.AsyncBaseTransport):
    """`RelayTransport` with `await`."""

    def __init__(
        self, key: GatewayKey, shuffler: str, relay: str, inner: httpx.AsyncBaseTransport
    ) -> None:
        self._envelope, self._inner = _Envelope(key, shuffler, relay), inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        outer, context = self._envelope.seal(request, await request.aread())
        answer = await self._inner.handle_async_request(outer)
        content = b""
        try:
            async for part in cast("AsyncIterable[bytes]", answer.stream):
                content += part
                _check(len(content))
        finally:
            await answer.aclose()
        return self._envelope.open(answer, content, context)

    async def aclose(self) -> None:
        await self._inner.aclose()
