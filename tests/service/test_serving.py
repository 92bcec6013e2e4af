"""Servers as operators see them: health, a clean end, metrics, keys, wrong requests."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from pathlib import Path

import httpx2
from raw_sockets import connect, wait_for
from service_programs import Programs
from service_states import settled
from service_trio import ANALYZER_OPERATOR, COLLECTOR, OPERATOR, TRUSTING, USERS, Trio, bearing

from shuffledp.service.client.sending import Client
from shuffledp.tasks.reports import encrypt_report


def test_sigterm_drains_then_ends(tmp_path: Path) -> None:
    """From SIGTERM on /readyz says 503 while the port is still open; then the server ends well."""
    trio = Trio(tmp_path)
    programs = Programs(trio)
    programs.config.write_text(programs.toml().replace("drain_seconds = 0", "drain_seconds = 2"))
    with programs.alone("shuffler") as url, httpx2.Client(base_url=url) as web:
        assert web.get("/livez").text == "alive\n"
        programs.running["shuffler"].send_signal(signal.SIGTERM)
        assert wait_for(lambda: web.get("/readyz").status_code == 503)
        assert web.get("/readyz").json()["retry_after"] == 5
        assert web.get("/livez").status_code == 200
        assert programs.running["shuffler"].wait(60) in (0, -signal.SIGTERM)
    events = [json.loads(line)["event"] for line in programs_log(tmp_path)]
    assert events[:2] == ["signing key made", "started"] and events[-1] == "stopped"


def programs_log(folder: Path) -> list[str]:
    return (folder / "shuffler.log").read_text().splitlines()


def test_a_real_trio_over_http(tmp_path: Path, stores: dict[str, str]) -> None:
    """Clients and both servers as programs, over sockets; keys change while they run."""
    trio = Trio(tmp_path, stores)
    programs = Programs(trio)
    with programs.both() as (shuffler, analyzer):
        for name in ("first", "after rotation"):
            task = trio.task(name)
            programs.register(task)
            for user, token in enumerate(programs.enrol(USERS)):
                box = tmp_path / "boxes" / f"{name}{user}"
                with Client(task, shuffler, token, box, policy=TRUSTING) as client:
                    client.send(user % 2)
            programs.results(task)
            trio.keys.retire(task.key.key_id)
            trio.keys.new()  # the running analyzer takes it up
        assert len(httpx2.get(f"{analyzer}/keys").json()["keys"]) == 3


def received(client: socket.socket) -> bytes:
    """The next bytes; fails if the connection was closed."""
    data = client.recv(65536)
    assert data, "the server closed the connection"
    return data


def whole_answer(client: socket.socket) -> bytes:
    """One answer, to its last byte."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(client)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
    while len(body) < length:
        body += received(client)
    return head + b"\r\n\r\n" + body


def test_an_offer_of_another_protocol_is_declined(tmp_path: Path) -> None:
    """Clients that offer HTTP/2 in a header are answered by HTTP/1.1, and go on with a new
    connection; with a body the offer is refused, because a parser would lose the body."""
    offer = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAA\r\n"
    get = b"GET /livez HTTP/1.1\r\nhost: s\r\n" + offer + b"\r\n"
    post = b"POST /tokens HTTP/1.1\r\nhost: s\r\ncontent-length: 2\r\n%s\r\n{}"
    plain = get.replace(offer, b"")
    with Programs(Trio(tmp_path)).alone("shuffler") as shuffler:
        with connect(shuffler) as client:
            for request, left in ((plain, False), (plain, False), (get, True)):
                client.sendall(request)
                answer = whole_answer(client)
                assert answer.startswith(b"HTTP/1.1 200 ")
                assert (b"connection: close" in answer.lower()) is left
            assert client.recv(1) == b""
        with connect(shuffler) as client:
            client.sendall(plain * 12)  # all at once: each is answered
            answers = b""
            while answers.count(b"alive") < 12:
                answers += received(client)
        with connect(shuffler) as client:  # refused before its body is read: answered and closed
            client.sendall(post % b"")
            answer = whole_answer(client)
            assert answer.startswith(b"HTTP/1.1 401 ") and b"connection: close" in answer
        for wrong, code in ((b"this is no HTTP\r\n\r\n", b""), (post % offer, b"problem:upgrade")):
            with connect(shuffler) as client:
                client.sendall(wrong)
                answer = whole_answer(client)
                assert answer.startswith(b"HTTP/1.1 400 ") and code in answer
                assert client.recv(1) == b""


def test_metrics_are_prometheus_text(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await trio.post(task, b"x", "t")
            await trio.results(task)
            await trio.deleted(task)
            operators = ((trio.to_shuffler, OPERATOR), (trio.to_analyzer, ANALYZER_OPERATOR))
            for server, token in operators:
                assert (await server.get("/metrics")).status_code == 401
                text = (await server.get("/metrics", headers=bearing(token))).text
                for line in text.splitlines():
                    assert re.fullmatch(
                        r"# TYPE \w+ (counter|gauge|histogram)|# HELP \w+ \S.*"
                        r"|\w+(\{[^}]*\})? [\d.e+-]+",
                        line,
                    ), line
                described = set(re.findall(r"# HELP (\w+) ", text))
                assert described == set(re.findall(r"# TYPE (\w+) ", text))
                assert "process_resident_memory_bytes" in described
            text = (await trio.to_shuffler.get("/metrics", headers=bearing(OPERATOR))).text
            assert (
                f'shuffledp_shuffler_uploads_total{{task="1",verdict="accepted"}} {USERS}.0' in text
            )
            assert 'rejected_total{reason="size",task="1"} 1.0' in text
            other = (
                await trio.to_analyzer.get("/metrics", headers=bearing(ANALYZER_OPERATOR))
            ).text
            assert "shuffledp_analyzer_batches_total" in other and "shuffler" not in other
            assert 'batches_total{state="deleted"} 1.0' in text

    asyncio.run(walk())


def test_a_batch_for_a_destroyed_key_is_taken_and_held(tmp_path: Path) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            trio.keys.destroy(task.key.key_id)
            tokens = await trio.enrol(USERS)
            for token in tokens:
                await trio.post(task, encrypt_report(task, 1), token)
            (found,) = await settled(trio, task)
            assert found["state"] == "held" and "destroyed" in found["reason"]
            assert (await trio.deleted(task))["batches"][0]["state"] == "deleted"

    asyncio.run(walk())


def test_pages_that_do_not_exist(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            for path, method, status in (
                ("/nothing", "GET", 404),
                ("/tokens", "GET", 405),
                (f"/tasks/{'0' * 64}", "GET", 404),
            ):
                answer = await trio.to_shuffler.request(method, path)
                assert answer.status_code == status
                assert answer.headers["content-type"] == "application/problem+json"
            bad = await trio.to_shuffler.put("/tasks/zz", content=b"{}", headers=bearing(COLLECTOR))
            assert bad.status_code == 400
            bad = await trio.to_shuffler.put(
                f"/tasks/{'0' * 64}", content=b"{}", headers=bearing(COLLECTOR)
            )
            assert bad.status_code == 422
            bad = await trio.to_shuffler.post("/tokens", content=b"no", headers=bearing(OPERATOR))
            assert bad.status_code == 400

    asyncio.run(walk())
