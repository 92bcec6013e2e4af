"""Addresses and tokens that come too fast are told when to come again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from service_trio import OPERATOR, Trio, bearing

from shuffledp.service.http import rates
from shuffledp.service.http.metrics import Metrics
from shuffledp.service.http.problems import Problem
from shuffledp.service.http.rates import LIMITED, Rate, network
from shuffledp.tasks.reports import encrypt_report


def _rate(per_minute: int) -> tuple[Rate, list[float]]:
    """A limit whose clock is the number in a list."""
    now = [1000.0]
    return Rate(per_minute, "address", Metrics("test", (LIMITED,)), lambda: now[0]), now


def _wait(rate: Rate, name: str) -> int:
    """How long a request is told to wait; 0 if it is let in."""
    try:
        rate.check(name)
    except Problem as problem:
        assert (problem.status, problem.code) == (429, "rate")
        return int(problem.extra["retry_after"])
    return 0


def test_an_allowance_is_used_up_and_refills() -> None:
    rate, now = _rate(6)
    assert [_wait(rate, "a") for _ in range(8)] == [0] * 6 + [10, 10]
    assert _wait(rate, "b") == 0  # others are not concerned
    now[0] += 9.0
    assert _wait(rate, "a") == 1
    now[0] += 1.0
    assert [_wait(rate, "a"), _wait(rate, "a")] == [0, 10]
    now[0] += 600.0
    assert [_wait(rate, "a") for _ in range(7)] == [0] * 6 + [10]


def test_no_limit_remembers_nobody() -> None:
    rate, _ = _rate(0)
    assert not any(_wait(rate, "a") for _ in range(1000)) and not rate._full_at


def test_names_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_NAMES", 50)
    rate, now = _rate(60)
    for number in range(200):
        rate.check(str(number))
        assert len(rate._full_at) <= 51
    now[0] += 60
    for _ in range(40):
        rate.check("a")
    assert set(rate._full_at) == {"a"}


def test_an_ipv6_network_counts_as_one() -> None:
    assert network("2001:db8::1") == network("2001:db8::ffff:1") != network("2001:db8:0:1::1")
    assert network("::ffff:192.0.2.7") == network("192.0.2.7") == "192.0.2.7"
    assert network("fe80::1%eth0") == "fe80::/64" and network("") == ""


def test_the_shuffler_slows_tokens_and_addresses_down(tmp_path: Path) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path, token_requests_per_minute=3)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            first, second = await trio.enrol(2)
            body = encrypt_report(task, 1)
            said = [(await trio.post(task, body, first)).status_code for _ in range(4)]
            assert said == [201, 200, 200, 429]
            slow = await trio.post(task, body, first)
            assert 0 < int(slow.headers["retry-after"]) <= 20
            assert (await trio.post(task, encrypt_report(task, 1), second)).status_code == 201
            metrics = (await trio.to_shuffler.get("/metrics", headers=bearing(OPERATOR))).text
            assert 'shuffledp_shuffler_limited_total{by="token"} 2.0' in metrics
        trio.shuffler_config = replace(trio.shuffler_config, address_requests_per_minute=5)
        async with trio.running():
            said = [(await trio.to_shuffler.get("/livez")).status_code for _ in range(6)]
            assert said == [200] * 5 + [429]
            assert (await trio.to_analyzer.get("/livez")).status_code == 200

    asyncio.run(walk())
