"""Requests to the shuffler through a relay (Oblivious HTTP, RFC 9458): the relay sees only the
device's address, the shuffler everything but the address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import httpx2

from shuffledp.errors import ParameterError
from shuffledp.service.answers import MOST_ANSWER_BYTES, AnswerTooLong
from shuffledp.service.binary_http import BinaryRequest, read_response
from shuffledp.service.client.connection import Connection
from shuffledp.service.errors import UntrustedServer, untrusted_certificate
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.oblivious import GatewayKey, HpkeContext, open_answer, seal_request
from shuffledp.tasks.task import MOST_TASK_BYTES, Task

T = TypeVar("T")
P = ParamSpec("P")
REQUEST_MULTIPLE = 512
"""Requests are padded to a multiple of this. All lengths in them follow from the task, so all
devices of a task send the same number of bytes."""
MOST_PORT = 65535
MOST_RELAYED_BYTES = MOST_TASK_BYTES + (64 << 10)
PASSED = ("authorization", "content-type", "if-none-match")


def gateway_of(task: Task) -> GatewayKey:
    """The key of the gateway of a task's shuffler; raises `ParameterError` if it names none."""
    if task.gateway is None:
        raise ParameterError(
            "This task names no gateway key, so no relay can be used; send directly, or ask the "
            "collector for a task with one."
        )
    return task.gateway


def check_url(text: str, what: str = "server") -> None:
    """Raises `ParameterError`, with what the server is, unless the text is its URL."""
    try:
        url = httpx2.URL(text)
        good = url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) <= MOST_PORT
        good = good and not set(text) & set("?# ")  # paths are appended
    except httpx2.InvalidURL:
        good = False
    if not good:
        raise ParameterError(
            f"{text} is not a URL of a {what}; use one like https://{what}.example, or http:// on "
            "this machine."
        )


class RelayedConnection(Connection):
    """Sends requests to a shuffler through a relay, encrypted for the gateway with this key;
    `inner` sends them to the relay. Raises `ParameterError` unless both are URLs."""

    def __init__(self, key: GatewayKey, shuffler: str, relay: str, inner: Connection) -> None:
        check_url(shuffler, "shuffler")
        check_url(relay, "relay")
        parts = urlsplit(shuffler)
        self._key, self._scheme, self._authority = key, parts.scheme, parts.netloc
        self._base = parts.path.rstrip("/")
        self._relay = relay.rstrip("/")
        self._inner = inner

    async def request(
        self, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
    ) -> httpx2.Response:
        encrypted, context = self._encrypt(httpx2.Request(method, url, **content))
        try:
            answer = await self._inner.request(
                "POST",
                f"{self._relay}/relay",
                MOST_RELAYED_BYTES,
                headers={"Content-Type": "message/ohttp-req"},
                content=encrypted,
            )
        except httpx2.TransportError as error:
            if untrusted_certificate(error):
                raise UntrustedServer(self._relay) from None
            raise
        opened = _open(answer, context)
        if len(opened.content) > most:
            raise AnswerTooLong(f"The response is longer than {most:,} bytes.")
        return opened

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def compute(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        return await self._inner.compute(function, *args, **options)

    async def close(self) -> None:
        await self._inner.close()

    def _encrypt(self, request: httpx2.Request) -> tuple[bytes, HpkeContext]:
        """(the request encrypted for the gateway, what opens its answer)."""
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
            content=request.read(),
        )
        return seal_request(self._key, inner.to_bytes(REQUEST_MULTIPLE))


def _open(answer: httpx2.Response, context: HpkeContext) -> httpx2.Response:
    """The shuffler's answer. Only refusals may come from the relay itself: it must not be able to
    acknowledge a report."""
    if answer.status_code >= 400:
        return answer
    if answer.status_code != 200:
        raise httpx2.RemoteProtocolError("The relay returned no response from the gateway.")
    try:
        found = read_response(open_answer(context, answer.content))
    except (TaskError, ParameterError):
        raise httpx2.RemoteProtocolError("The gateway's answer cannot be opened.") from None
    return httpx2.Response(found.status, headers=found.fields, content=found.content)
