"""Reads a server's response up to a limit, and its JSON with bounds.

The server is not trusted: its response may be arbitrarily long and deep. Responses are requested
without compression and never decompressed: a few kilobytes can expand to gigabytes.
"""

from __future__ import annotations

from typing import Any

import httpx2

from shuffledp.documents.json_text import read_json
from shuffledp.errors import ParameterError
from shuffledp.service.errors import Unreachable, UntrustedServer, untrusted_certificate

MOST_ANSWER_BYTES = 64 << 20
"""Published results of many batches are the longest answers."""
MOST_SHORT_ANSWER_BYTES = 64 << 10
LONGEST_REASON = 500


class AnswerTooLong(httpx2.TransportError):
    """The other side sent more than any honest response has; the connection is closed."""


def bounded_request(
    client: httpx2.Client, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
) -> httpx2.Response:
    """The answer to a request; raises `AnswerTooLong` if it has more than `most` bytes."""
    with client.stream(method, url, **_plain(content)) as answer:
        _check_plain(answer)
        parts, size = [], 0
        for part in [answer.content] if answer.is_stream_consumed else answer.iter_raw():
            size += len(part)
            _check(size, most)
            parts.append(part)
    return _read(answer, parts)


async def bounded_request_async(
    client: httpx2.AsyncClient, method: str, url: str, most: int = MOST_ANSWER_BYTES, **content: Any
) -> httpx2.Response:
    """`bounded_request` with `await`."""
    async with client.stream(method, url, **_plain(content)) as answer:
        _check_plain(answer)
        parts, size = [], 0
        if answer.is_stream_consumed:  # it was made in this process
            parts.append(answer.content)
            _check(len(answer.content), most)
        else:
            async for part in answer.aiter_raw():
                size += len(part)
                _check(size, most)
                parts.append(part)
    return _read(answer, parts)


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    """The options of a request that asks for an answer without compression."""
    try:
        headers = httpx2.Headers(content.get("headers"))
    except UnicodeEncodeError:
        raise ParameterError(
            "The token has characters other than ASCII; copy it again from where it was made."
        ) from None
    headers["Accept-Encoding"] = "identity"
    return content | {"headers": headers}


def _check_plain(answer: httpx2.Response) -> None:
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise AnswerTooLong("The response is compressed, although that was not requested.")


def _read(answer: httpx2.Response, parts: list[bytes]) -> httpx2.Response:
    """An answer as it was read: its status, its content, and how long to wait."""
    kept = {name: answer.headers[name] for name in ("retry-after",) if name in answer.headers}
    return httpx2.Response(answer.status_code, headers=kept, content=b"".join(parts))


def _check(size: int, most: int) -> None:
    if size > most:
        raise AnswerTooLong(f"The response is longer than {most:,} bytes.")


def refusal(answer: httpx2.Response) -> tuple[str, str]:
    """(the code of the server's reason for refusing, the reason in words); empty if it gave none.
    Long reasons are cut."""
    try:
        data = answer_json(answer)
        return str(data["type"]).rpartition(":")[2], str(data["detail"])[:LONGEST_REASON]
    except (ValueError, KeyError):
        return "", ""


def lasting_failure(error: Exception, url: str) -> Unreachable | None:
    """What to say if a request failed in a way that waiting does not mend."""
    if untrusted_certificate(error):
        return UntrustedServer(url)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol | UnicodeError):
        return Unreachable(f"{url} is not a URL; use one like https://shuffler.example:8801.")
    return None


def answer_json(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON object in a response; raises `ParameterError` if there is none."""
    data = read_json(answer.content, "The server's answer", MOST_ANSWER_BYTES)
    if not isinstance(data, dict):
        raise ParameterError("The server's response is not a JSON object; check the URL.")
    return data
