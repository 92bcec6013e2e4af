"""Reading a request's body: refused by its declared length, before a byte of it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from shuffledp.documents.json_text import read_json
from shuffledp.errors import ParameterError
from shuffledp.service.http.arriving import Arriving
from shuffledp.service.http.problems import Problem

LENGTH_TEXT = re.compile(r"[0-9]{1,15}", re.ASCII)


def declared_length(headers: Mapping[str, str], need: int) -> int:
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
