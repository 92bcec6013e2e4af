"""Reading a server's answer: no more of it than a limit, and its JSON with bounds.

Whoever asks does not trust whoever answers: an answer may be as long and as deep as its sender
likes.
"""

from __future__ import annotations

from typing import Any

import httpx

from shuffledp.documents.json_text import read_json
from shuffledp.errors import ParameterError

MOST_ANSWER_BYTES = 64 << 20
"""Published results of many batches are the longest answers."""
MOST_SHORT_ANSWER_BYTES = 64 << 10


class AnswerTooLong(httpx.TransportError):
    """The other side sends more than any honest answer holds; the connection is closed."""


def bounded_request(
    client: httpx.Client, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
) -> httpx.Response:
    """The answer to a request; raises `AnswerTooLong` if it has more than `most` bytes."""
    with client.stream(method, url, **content) as answer:
        parts, size = [], 0
        for part in answer.iter_bytes():
            size += len(part)
            _check(size, most)
            parts.append(part)
    return _read(answer, parts)


async def bounded_request_async(
    client: httpx.AsyncClient, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
) -> httpx.Response:
    """`bounded_request` with `await`."""
    async with client.stream(method, url, **content) as answer:
        parts, size = [], 0
        async for part in answer.aiter_bytes():
            size += len(part)
            _check(size, most)
            parts.append(part)
    return _read(answer, parts)


def _read(answer: httpx.Response, parts: list[bytes]) -> httpx.Response:
    """An answer as it was read: its status, its content, and how long to wait."""
    kept = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
    return httpx.Response(answer.status_code, headers=kept, content=b"".join(parts))


def _check(size: int, most: int) -> None:
    if size > most:
        raise AnswerTooLong(f"An answer has at most {most:,} bytes.")


def answer_json(answer: httpx.Response) -> dict[str, Any]:
    """The JSON object in an answer; raises `ParameterError` if there is none."""
    data = read_json(answer.content, "The server's answer", MOST_ANSWER_BYTES)
    if not isinstance(data, dict):
        raise ParameterError("The server's answer is no JSON object; is this its URL?")
    return data
