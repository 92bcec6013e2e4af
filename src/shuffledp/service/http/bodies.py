"""Reading a request's body: refused by its declared length, before a byte of it is read, and by the
total size of all incomplete bodies."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from shuffledp.documents.json_text import read_json
from shuffledp.errors import ParameterError
from shuffledp.service.http.problems import Problem

MOST_ARRIVING_BYTES = 64 << 20
LONGEST_REASON = 200
MOST_REASON_BYTES = 4096
LENGTH_TEXT = re.compile(r"[0-9]{1,15}", re.ASCII)


class Arriving:
    """How many bytes of incomplete bodies are in memory; the body that exceeds the limit gets 503.
    Declared lengths do not count, so slow requests take nothing away from others."""

    def __init__(self, most: int = MOST_ARRIVING_BYTES) -> None:
        self._most = most
        self._bytes = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[Callable[[int], None]]:
        """Counts the bytes of a body while it arrives; call the returned function with each part's
        length."""
        mine = 0

        def received(length: int) -> None:
            nonlocal mine
            if self._bytes + length > self._most:
                raise Problem(
                    503,
                    "busy",
                    "Too many uploads at once; send the same again later.",
                    retry_after=5,
                )
            mine += length
            self._bytes += length

        try:
            yield received
        finally:
            self._bytes -= mine


def declared_length(headers: Headers, need: int) -> int:
    """The length that a request declares; a 411 if it declares none."""
    length = headers.get("content-length", "")
    if not LENGTH_TEXT.fullmatch(length):
        raise Problem(411, "length", "Send a Content-Length.", need=need)
    return int(length)


async def read_body(request: Request, most: int, arriving: Arriving | None = None) -> bytes:
    """A request's whole body; a 413 if it declares to be longer than `most` bytes. `arriving`
    limits it together with others."""
    length = declared_length(request.headers, most)
    if length > most:
        raise Problem(
            413, "size", "The body is larger than this server accepts.", have=length, need=most
        )
    parts, size = [], 0
    with (arriving or Arriving(length)).counting() as received:
        try:
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > length:
                    break
                received(len(part))
        except ClientDisconnect:
            size = -1
    if size != length:
        raise Problem(400, "interrupted", "The request was interrupted; send the same again.")
    return b"".join(parts)


async def read_json_body(request: Request, most: int) -> Any:
    """The JSON in a request's body; a 400 if there is none."""
    try:
        return read_json(await read_body(request, most), "The request", most)
    except ParameterError as error:
        raise Problem(400, "json", str(error)) from None


async def given_reason(request: Request) -> str:
    """The reason that an operator gives for discarding something; a 422 if there is none."""
    try:
        reason = (await read_json_body(request, MOST_REASON_BYTES))["reason"]
    except (KeyError, TypeError):
        reason = ""
    if not isinstance(reason, str) or not 0 < len(reason) <= LONGEST_REASON:
        reason = ""
    if not reason.isprintable() or not reason.strip():
        raise Problem(
            422,
            "reason",
            f'Send {{"reason": "…"}} with 1 to {LONGEST_REASON} printable characters.',
            need=LONGEST_REASON,
        )
    return reason


async def next_part(receive: Receive) -> Message:
    """The next part of a request's body."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Problem(400, "interrupted", "The upload was interrupted; send the same again.")
    return message


async def rest_of_body(receive: Receive, first: bytes, most: int, arriving: Arriving) -> bytes:
    """A body whose first part has arrived; reading stops when it is longer than `most` bytes."""
    parts, size, more = [first], len(first), True
    with arriving.counting() as received:
        received(size)
        while more:
            message = await next_part(receive)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False) and size <= most
            received(len(parts[-1]))
    return b"".join(parts)
