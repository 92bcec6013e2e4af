"""The same coroutines over both connections: blocking without an event loop, or awaited in one."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from logged_tasks import proof_of
from service_trio import TRUSTING, Trio

from shuffledp.cli.main import main
from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.service.answers import AnswerTooLong
from shuffledp.service.blocking import run_blocking
from shuffledp.service.client.collector import call
from shuffledp.service.client.connection import (
    AsyncConnection,
    BlockingConnection,
    Connection,
)
from shuffledp.service.client.retries import DeviceRequest, Retries
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import Refused, Unreachable
from shuffledp.studio.collecting import newest_key


def echo(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, json={name: request.headers[name] for name in request.headers})


async def walk(connection: Connection) -> tuple[dict[str, str], int]:
    """A request, a pause, and a computation."""
    answer = await connection.request("POST", "http://server/", json={"a": 1})
    await connection.sleep(0.001)
    threads = await connection.compute(lambda start: start + threading.get_ident(), 1)
    await connection.close()
    return answer.json(), threads


def test_both_connections_give_the_same_answer() -> None:
    transport = httpx2.MockTransport(echo)
    blocking, here = run_blocking(walk(BlockingConnection(transport)))
    awaited, elsewhere = asyncio.run(walk(AsyncConnection(transport)))
    assert blocking == awaited and "user-agent" in blocking
    own = threading.get_ident() + 1
    assert here == own and elsewhere != own  # asyncio computes in a thread


@pytest.mark.parametrize("kind", [BlockingConnection, AsyncConnection])
def test_a_bare_connection_names_no_program(
    kind: type[BlockingConnection] | type[AsyncConnection],
) -> None:
    connection = kind(httpx2.MockTransport(echo), bare=True)
    got = connection.request("POST", "http://server/", content=b"x", headers={"Content-Type": "y"})
    answer = run_blocking(got) if kind is BlockingConnection else asyncio.run(got)
    sent = answer.json()
    assert set(sent) == {"host", "content-type", "content-length", "accept-encoding"}
    assert sent["accept-encoding"] == "identity"  # the same from every program


def test_a_long_answer_is_cut_off() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=bytes(100)))
    with pytest.raises(AnswerTooLong):
        run_blocking(BlockingConnection(transport).request("GET", "http://server/", 99))
    with pytest.raises(AnswerTooLong):
        asyncio.run(AsyncConnection(transport).request("GET", "http://server/", 99))


def test_reasons_of_servers_are_cut_and_urls_are_checked_at_once() -> None:
    reason = {"type": "urn:shuffledp:problem:x", "detail": "no " * 10_000}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(403, json=reason))
    with pytest.raises(Refused, match=r"refused \(HTTP 403\): no no") as refused:
        call("GET", "http://server/", connection=BlockingConnection(transport))
    assert len(str(refused.value)) < 600 and refused.value.code == "x"
    for wrong in ("server:80", "http://server:port", "ftp://server", "http://a..example"):
        request = DeviceRequest(
            method="GET", server=wrong, path="/", headers={}, unreachable="silent", refused=""
        )
        with pytest.raises(Unreachable, match="is not a URL"):
            call("GET", wrong)
        with pytest.raises(Unreachable, match="is not a URL"):
            run_blocking(Retries(8, SYSTEM).send(BlockingConnection(), request))
    with pytest.raises(ParameterError, match="The token has characters other than ASCII"):
        call("GET", "http://server/", "tökén", connection=BlockingConnection(transport))


def test_another_program_that_answers_yes_to_everything_is_not_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise `enrol` hands out tokens that no server knows, and `result` ends in a trace."""

    class Yes(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    task, file = "0" * 64, tmp_path / "tokens.txt"
    with ThreadingHTTPServer(("127.0.0.1", 0), Yes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        made = ["--count", "2", "--output", str(file), "--token", "t"]
        for words in (
            ["shuffler", "enrol", "--shuffler", url, *made],
            ["issuer", "enrol", "--issuer", url, *made],
            ["result", "--task", task, "--analyzer", url],
            ["result", "--series", task, "--analyzer", url],
            ["task", "list", "--server", url, "--token", "t"],
            ["task", "archive", "--task", task, "--server", url, "--token", "t"],
            ["analyzer", "restore-ledger", "--analyzer", url, "--token", "t"],
            ["task", "log", "--analyzer", url],
        ):
            assert main(words) == 2
            assert "may be another program; check the URL" in capsys.readouterr().err
        with pytest.raises(ParameterError, match="may be another program"):
            newest_key(url)  # the studio's first question to an analyzer
        server.shutdown()
    assert not file.exists()


def test_what_suspends_is_refused_and_cleaned_up() -> None:
    ended = []

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    with pytest.raises(RuntimeError, match="event loop"):
        run_blocking(waits())
    assert ended == [True]


def test_errors_arrive_as_they_are() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_blocking(fails())


def client(folder: Path, *statuses: int) -> Client:
    """A client whose server gives these answers in turn."""
    task, left = Trio(folder).task(), iter(statuses)
    return Client(
        task,
        "http://s",
        "t",
        folder / "box",
        policy=TRUSTING,
        proof=proof_of(task),
        transport=httpx2.MockTransport(lambda _: httpx2.Response(next(left))),
    )


def test_a_client_works_inside_a_running_loop(tmp_path: Path) -> None:
    """A notebook runs cells inside an event loop."""

    async def cell() -> None:
        client(tmp_path, 503, 201).send(1)

    asyncio.run(cell())


def test_ctrl_c_ends_a_pause(tmp_path: Path) -> None:
    device = client(tmp_path, *[503] * 8)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist ignores it
    begin = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            device.send(1)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begin < 10
    assert device.outbox.stored(device.task.id) is not None  # `resume` can send it
