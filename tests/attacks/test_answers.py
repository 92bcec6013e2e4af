"""Answers of other servers and bodies of requests are bounded by what is received."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from functools import cache

import httpx2
import pytest

from shuffledp.service.answers import AnswerTooLong, bounded_request, bounded_request_async
from shuffledp.service.http.bodies import Arriving
from shuffledp.service.http.problems import Problem

UNPACKED = 600 << 20


@cache
def bomb() -> bytes:
    """A small answer that is large when it is unpacked."""
    return gzip.compress(bytes(UNPACKED))


def answer(request: httpx2.Request) -> httpx2.Response:
    """A hostile server packs its answer whatever was asked for."""
    assert request.headers["accept-encoding"] == "identity"
    return httpx2.Response(
        200, headers={"Content-Encoding": "gzip"}, stream=httpx2.ByteStream(bomb())
    )


@pytest.mark.attack("a small answer that unpacks to gigabytes")
def test_packed_answers_are_not_unpacked() -> None:
    assert len(bomb()) < 700 << 10
    tracemalloc.start()
    with (
        httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://a") as client,
        pytest.raises(AnswerTooLong),
    ):
        bounded_request(client, "GET", "/", 64 << 10)

    async def walk() -> None:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="http://a") as client:
            with pytest.raises(AnswerTooLong):
                await bounded_request_async(client, "GET", "/", 64 << 10)

    asyncio.run(walk())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


def test_plain_answers_are_read() -> None:
    """The twin."""
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"{}"))
    with httpx2.Client(transport=transport, base_url="http://a") as client:
        assert bounded_request(client, "GET", "/", 64 << 10).content == b"{}"


@pytest.mark.attack("many unfinished bodies")
def test_bodies_count_by_what_was_received() -> None:
    arriving = Arriving(1000)
    with arriving.counting() as first:
        first(900)
        with arriving.counting() as second:
            second(100)
            with pytest.raises(Problem, match="busy"):
                second(1)
    with arriving.counting() as third:  # all of it is free again
        third(1000)
