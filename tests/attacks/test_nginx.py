"""The proxy configuration deploy/nginx.conf: valid, passes reports on, and keeps its limits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import httpx2
import pytest
from nginx_proxy import program, proxy
from raw_sockets import MemoryWatch, closed, connect, send_until_refused, status_of
from service_programs import Programs
from service_trio import OPERATOR, USERS, Trio, as_collector, bearing

from shuffledp.tasks.reports import encrypt_report


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Programs, list[str]]]:
    """Both servers, and the proxy's URLs in front of them."""
    folder = tmp_path_factory.mktemp("proxied")
    program()
    programs = Programs(Trio(folder))
    ports = programs.ports
    with programs.both(), proxy(folder, [ports["shuffler"]], ports["analyzer"]) as urls:
        yield programs, urls


@pytest.mark.attack("behind the proxy: bodies, headers, redirects")
def test_reports_pass_and_limits_hold(proxied: tuple[Programs, list[str]]) -> None:
    programs, (shuffler, analyzer) = proxied
    task = programs.trio.task()
    for url in (analyzer, shuffler):
        answer = httpx2.put(
            f"{url}/tasks/{task.id.hex()}",
            content=task.canonical(),
            headers=as_collector(task.id),
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
    for token in programs.enrol(USERS):
        answer = httpx2.post(
            f"{shuffler}/tasks/{task.id.hex()}/reports",
            content=encrypt_report(task, 1),
            headers=bearing(token),
        )
        assert answer.status_code == 201, answer.text
    assert programs.results(task)[0]["reports"] == USERS
    for url in (shuffler, analyzer):
        for path in ("", "/page.js", "/status", "/metrics", "/tasks", "/ledger/restore"):
            assert httpx2.get(f"{url}{path}", headers=bearing(OPERATOR)).status_code == 403, path
    assert httpx2.get(f"{shuffler}/tasks/{task.id.hex()}/progress").status_code == 200
    assert httpx2.get(f"{shuffler}/{'a' * 9000}").status_code == 414
    assert httpx2.get(shuffler, headers={"x": "y" * 9000}).status_code in (400, 431)
    with connect(shuffler) as client:
        client.sendall(b"PUT /tasks/x HTTP/1.1\r\nHost: x\r\nContent-Length: 300000000\r\n\r\n")
        assert status_of(client) == 413
    with connect(shuffler) as client:
        client.sendall(b"GET / HTTP/1.1\r\nx: ")
        assert send_until_refused(client, b"a" * 100_000, 200) < 20 << 20


@pytest.mark.attack("slow uploads behind the proxy")
def test_slow_uploads_reach_no_server(proxied: tuple[Programs, list[str]]) -> None:
    """Four addresses with sixty slow uploads each: the proxy keeps them, closes the silent ones,
    and everybody else is answered. The server sees no connection of theirs."""
    programs, (shuffler, _) = proxied
    head = (
        f"POST /tasks/{bytes(32).hex()}/reports HTTP/1.1\r\nHost: x\r\n"
        "Authorization: Bearer each-x\r\nContent-Length: 4000000\r\n\r\na"
    ).encode()
    pid = programs.running["shuffler"].pid
    with MemoryWatch(pid) as memory, contextlib.ExitStack() as stack:
        clients = []
        for number in range(240):
            client = connect(shuffler, f"127.0.0.{2 + number % 4}")
            clients.append(stack.enter_context(client))
            with contextlib.suppress(OSError):
                client.sendall(head)
        answer = httpx2.get(f"{shuffler}/livez", timeout=60)
        assert answer.status_code == 200
        for client in clients:
            client.setblocking(False)
        refused = sum(status_of(client) == 429 for client in clients)
        assert refused == 4 * 10  # of 60 from each address, 50 may be open
        end = time.monotonic() + 40
        while time.monotonic() < end and not all(closed(client) for client in clients):
            time.sleep(0.5)
        assert all(closed(client) for client in clients)
    assert memory.grown < 20, (memory.before, memory.most)
