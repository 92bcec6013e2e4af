"""Attacks on a server's sockets: its memory stays bounded, and others are still answered."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from raw_sockets import (
    MemoryWatch,
    closed,
    connect,
    many,
    send_until_refused,
    status_of,
    wait_for,
)
from service_programs import Programs
from service_trio import COLLECTOR, OPERATOR, USERS, Trio, bearing

from shuffledp import plan_histogram
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task

MEGABYTE = 1 << 20
MOST_GROWTH_MB = 40.0
MOST_CONNECTIONS, MOST_PER_ADDRESS = 150, 100
IDLE_SECONDS, REQUEST_SECONDS = 2, 4
LARGE_LABELS = 15_000
LARGE_REPORT = 2_000_000
"""Bytes that a report of the large task has at least."""
UPLOADS_MB = 64.0
"""What all uploads that are not complete may hold together."""


class Stage:
    """A running shuffler and analyzer with tight limits, a task, and one with large reports."""

    def __init__(self, programs: Programs, small: Task, large: Task) -> None:
        self.programs, self.small, self.large = programs, small, large
        self.url = programs.urls["shuffler"]
        self.pid = programs.running["shuffler"].pid

    def honest(self) -> None:
        """Somebody else, from another address, uploads a report."""
        (token,) = self.programs.enrol(1)
        body = encrypt_report(self.small, 1)
        answer = httpx2.post(
            f"{self.url}/tasks/{self.small.id.hex()}/reports",
            content=body,
            headers=bearing(token),
            timeout=30,
        )
        assert answer.status_code == 201, answer.text

    def upload_head(self, token: str, length: int | None = None) -> bytes:
        """The head of an upload of the large task."""
        size = self.large.report_bytes if length is None else length
        return (
            f"POST /tasks/{self.large.id.hex()}/reports HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {size}\r\n\r\n"
        ).encode()


def large_task(trio: Trio) -> Task:
    """A task whose reports are almost as large as reports may be."""
    plan = plan_histogram(USERS, 2, LARGE_LABELS, mse_overhead=2, cell="paper")
    return Task.create(plan.to_dict(), trio.keys.all()[-1].public, "large")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    trio = Trio(tmp_path_factory.mktemp("stage"))
    programs = Programs(trio)
    text = programs.toml()
    for name, value in (
        ("most_connections", MOST_CONNECTIONS),
        ("most_connections_per_address", MOST_PER_ADDRESS),
        ("idle_seconds", IDLE_SECONDS),
        ("request_seconds", REQUEST_SECONDS),
    ):
        lines = text.splitlines()
        text = "\n".join(f"{name} = {value}" if x.startswith(f"{name} =") else x for x in lines)
    programs.config.write_text(text)
    small, large = trio.task(), large_task(trio)
    assert large.report_bytes > LARGE_REPORT
    with programs.both():
        programs.register(small)
        programs.register(large)
        stage = Stage(programs, small, large)
        stage.honest()  # everything is loaded
        yield stage


@contextlib.contextmanager
def bounded(stage: Stage, name: str) -> Iterator[None]:
    """The server's memory stays bounded in the block, and others can upload after it."""
    with MemoryWatch(stage.pid) as memory:
        yield
    print(f"{name}: {memory.before:.0f} to {memory.most:.0f} MB")
    assert memory.grown < MOST_GROWTH_MB, (memory.before, memory.most)
    stage.honest()


@pytest.mark.attack("headers without end")
def test_headers_without_end(stage: Stage, scale: int) -> None:
    with bounded(stage, "headers without end"), connect(stage.url) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        line = b"x-filler: " + b"a" * 8000 + b"\r\n"
        sent = send_until_refused(client, line * 13, 200 * scale)
        assert sent < 20 * MEGABYTE
    with bounded(stage, "one header without end"), connect(stage.url) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nx-filler: ")
        assert send_until_refused(client, b"a" * 100_000, 200 * scale) < 20 * MEGABYTE
    with connect(stage.url) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\n" + b"x: y\r\n" * 100 + b"\r\n")
        assert status_of(client) == 431


@pytest.mark.attack("a URL without end")
def test_a_url_without_end(stage: Stage, scale: int) -> None:
    with bounded(stage, "a URL without end"), connect(stage.url) as client:
        client.sendall(b"GET /")
        assert send_until_refused(client, b"a" * 100_000, 200 * scale) < 20 * MEGABYTE
    answer = httpx2.get(f"{stage.url}/{'a' * 3000}")
    assert answer.status_code == 414
    assert answer.headers["content-type"] == "application/problem+json"
    assert httpx2.get(f"{stage.url}/{'a' * 1500}").status_code == 404


@pytest.mark.attack("half-open connections")
def test_half_open_connections(stage: Stage, scale: int) -> None:
    """Silent ones are closed after the idle time; there are never more than allowed per address,
    so that others are served meanwhile."""
    with bounded(stage, "half-open connections"), many(stage.url, 300 * scale) as clients:
        assert len(clients) > MOST_PER_ADDRESS
        assert httpx2.get(f"{stage.url}/livez", timeout=60).status_code == 200
        stage.honest()
        refused = sum(closed(client) for client in clients)
        assert refused >= len(clients) - MOST_PER_ADDRESS
        assert wait_for(lambda: all(closed(client) for client in clients))


@pytest.mark.attack("requests that never end")
def test_one_byte_at_a_time(stage: Stage) -> None:
    """Two senders at once, one in its headers and one before its body."""
    begun = time.monotonic()
    with connect(stage.url) as asking, connect(stage.url) as sending:
        asking.sendall(b"GET /livez HTTP/1.1\r\nx: ")
        sending.sendall(b"POST /tokens HTTP/1.1\r\n")
        held = [asking, sending]
        while time.monotonic() - begun < 30 and held:
            held = [client for client in held if not closed(client)]
            for client in held:
                with contextlib.suppress(OSError):
                    client.send(b"a")
            time.sleep(0.2)
    assert time.monotonic() - begun < REQUEST_SECONDS + 20


@pytest.mark.attack("unfinished uploads without a token")
def test_unfinished_uploads_without_a_token(stage: Stage, scale: int) -> None:
    """The token is looked up before more than the first piece of a body is read."""
    _unfinished(stage, ["each-unknown"] * 60, "unfinished uploads without a token", {403})


@pytest.mark.attack("unfinished uploads with tokens")
def test_unfinished_uploads_with_tokens(stage: Stage, scale: int) -> None:
    """All uploads that are not complete have a limit together, also of enrolled clients."""
    tokens = stage.programs.enrol(80)
    name = "unfinished uploads with tokens"
    found = _unfinished(stage, tokens, name, {0, 408, 503}, UPLOADS_MB + MOST_GROWTH_MB)
    assert 503 in found


def _unfinished(
    stage: Stage, tokens: list[str], name: str, statuses: set[int], most_mb: float = MOST_GROWTH_MB
) -> list[int]:
    body = os.urandom(stage.large.report_bytes - 1)
    found: list[int] = []
    with MemoryWatch(stage.pid) as memory, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(stage.url)) for _ in tokens]
        threads = [
            threading.Thread(target=_send, args=(client, stage.upload_head(token) + body))
            for client, token in zip(clients, tokens, strict=True)
        ]
        for thread in threads:
            thread.start()
        found = [status_of(client) for client in clients]
        for thread in threads:
            thread.join()
    print(f"{name}: {memory.before:.0f} to {memory.most:.0f} MB, {sorted(set(found))}")
    assert set(found) <= statuses | {0}
    assert memory.grown < most_mb, (memory.before, memory.most)
    stage.honest()
    return found


def _send(client: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(data)


@pytest.mark.attack("bodies far too long")
@pytest.mark.parametrize(
    ("method", "path", "token"),
    [
        ("PUT", lambda stage: f"/tasks/{stage.large.id.hex()}", COLLECTOR),
        ("POST", lambda stage: "/tokens", OPERATOR),
        ("POST", lambda stage: f"/tasks/{stage.large.id.hex()}/reports", "each-x"),
    ],
    ids=["a task", "tokens", "a report"],
)
def test_a_body_far_too_long(
    stage: Stage, method: str, path: Callable[[Stage], str], token: str, scale: int
) -> None:
    """Refused by its declared length; what is sent nevertheless is not kept."""
    size = 300 * MEGABYTE
    head = (
        f"{method} {path(stage)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()
    with bounded(stage, f"{method} of 300 MiB"), connect(stage.url) as client:
        client.sendall(head)
        assert status_of(client) == 413
        assert send_until_refused(client, b"a" * MEGABYTE, 30 * scale) < 30 * MEGABYTE
    without = head.replace(f"Content-Length: {size}".encode(), b"Transfer-Encoding: chunked")
    with connect(stage.url) as client:
        client.sendall(without)
        assert status_of(client) == 411


@pytest.mark.attack("many requests at once on one connection")
def test_pipelined_requests(stage: Stage, scale: int) -> None:
    with bounded(stage, "pipelined requests"), connect(stage.url) as client:
        data = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
        assert send_until_refused(client, data, 500 * scale) < 500 * scale * len(data)


@pytest.mark.attack("odd JSON")
def test_odd_json_at_the_servers(stage: Stage) -> None:
    for url in stage.programs.urls.values():
        for body in (b"[" * 100_000, b"\xff", b"Infinity", b"[]", b"1" * 10_000, b'{"sha256": 7}'):
            for method, path, token in (
                ("PUT", f"/tasks/{'0' * 64}", COLLECTOR),
                ("POST", "/tokens", OPERATOR),
            ):
                answer = httpx2.request(
                    method, url + path, content=body, headers=bearing(token), timeout=60
                )
                assert 400 <= answer.status_code < 500, (path, body[:9], answer.text)


@pytest.mark.attack("redirects to another host")
def test_no_redirects(stage: Stage) -> None:
    for path in ("/livez/", "/tasks/", "/status/", "//evil.example/"):
        answer = httpx2.get(stage.url + path, headers={"Host": "evil.example"})
        assert answer.status_code == 404 and "location" not in answer.headers


@pytest.mark.attack("a report id with other bytes")
def test_a_report_id_with_other_bytes(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            first, second = await trio.enrol(2)
            body = encrypt_report(task, 1)
            other = body[:-1] + bytes([body[-1] ^ 1])
            assert (await trio.post(task, body, first)).status_code == 201
            assert (await trio.post(task, body, first)).status_code == 200  # a retry
            for token in (first, second):
                answer = await trio.post(task, other, token)
                assert answer.status_code == 409, answer.text
                assert answer.json()["type"].endswith("report-differs")
            assert (await trio.status(task))["have"] == 1

    asyncio.run(walk())


@pytest.mark.attack("slow uploads to a task that does not exist")
def test_slow_uploads_to_an_unknown_task(stage: Stage) -> None:
    """They are answered and disconnected at once, however much they say is to come."""
    head = (
        f"POST /tasks/{bytes(32).hex()}/reports HTTP/1.1\r\nHost: x\r\n"
        "Authorization: Bearer each-x\r\nContent-Length: 99999999999999\r\n\r\na"
    ).encode()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(stage.url)) for _ in range(MOST_PER_ADDRESS - 5)]
        for client in clients:
            client.sendall(head)
        assert {status_of(client) for client in clients} == {404}
        end = time.monotonic() + REQUEST_SECONDS
        while time.monotonic() < end and not all(closed(client) for client in clients):
            time.sleep(0.1)
        assert all(closed(client) for client in clients)
    stage.honest()


@pytest.mark.attack("a declared length that buys time")
def test_a_declared_length_buys_no_time(stage: Stage) -> None:
    """An enrolled client declares a long body and sends a byte now and then."""
    (token,) = stage.programs.enrol(1)
    with connect(stage.url) as client:
        begun = time.monotonic()
        client.sendall(stage.upload_head(token))
        while time.monotonic() - begun < 30 and not closed(client):
            with contextlib.suppress(OSError):
                client.send(b"a")
            time.sleep(0.2)
        assert time.monotonic() - begun < REQUEST_SECONDS + 20


@pytest.mark.attack("slow sealed requests")
def test_slow_sealed_requests_hold_nothing_from_others(stage: Stage) -> None:
    """Eighty senders that declare two megabytes each and send one byte: others are answered."""
    head = (
        "POST /.well-known/ohttp-gateway HTTP/1.1\r\nHost: x\r\n"
        f"Content-Length: {stage.large.report_bytes}\r\n\r\na"
    ).encode()
    with contextlib.ExitStack() as stack:
        for _ in range(80):
            stack.enter_context(connect(stage.url)).sendall(head)
        time.sleep(0.5)
        answer = httpx2.post(f"{stage.url}/.well-known/ohttp-gateway", content=b"x" * 100)
        assert answer.status_code == 400, answer.text  # understood, not refused for want of room


@pytest.mark.attack("unfinished requests at the relay")
def test_unfinished_requests_at_the_relay(tmp_path: Path) -> None:
    """A hundred and twenty senders leave out the last byte of four megabytes: what the relay holds
    of all of them together is bounded, and others are answered."""
    port, size = free_port(), 4 << 20
    url = f"http://127.0.0.1:{port}"
    config = tmp_path / "relay.toml"
    config.write_text(
        f'[relay]\nlisten = "127.0.0.1:{port}"\nshuffler = "http://127.0.0.1:9"\n'
        f"idle_seconds = 5\nrequest_seconds = {REQUEST_SECONDS}\ndrain_seconds = 0\n"
    )
    words = [sys.executable, "-m", "shuffledp.cli.main", "relay", "serve", "--config", str(config)]
    relay = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    head = (
        "POST /relay HTTP/1.1\r\nHost: x\r\nContent-Type: message/ohttp-req\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()
    try:
        wait_ready(url, 120)
        with MemoryWatch(relay.pid) as memory, contextlib.ExitStack() as stack:
            clients = [stack.enter_context(connect(url)) for _ in range(120)]
            data = head + bytes(size - 1)
            threads = [threading.Thread(target=_send, args=(one, data)) for one in clients]
            for thread in threads:
                thread.start()
            sealed = {"Content-Type": "message/ohttp-req"}
            answer = httpx2.get(f"{url}/livez", timeout=30)
            assert answer.status_code == 200
            statuses = {status_of(client) for client in clients}
            for thread in threads:
                thread.join()
        print(f"relay: {memory.before:.0f} to {memory.most:.0f} MB, {statuses}")
        assert statuses <= {0, 408, 503}
        assert memory.grown < UPLOADS_MB + 2 * MOST_GROWTH_MB, (memory.before, memory.most)
        answer = httpx2.post(f"{url}/relay", content=b"sealed", headers=sealed, timeout=30)
        assert answer.status_code == 503 and answer.json()["type"].endswith("gateway-away")
    finally:
        relay.terminate()
        relay.wait(30)
