"""The proxy configuration deploy/nginx.conf: valid, passes reports on, and keeps its limits."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from raw_sockets import connect, send_until_refused, status_of, wait_for
from service_needs import missing
from service_programs import Programs
from service_trio import (
    OPERATOR,
    USERS,
    Trio,
    as_collector,
    bearing,
)

from shuffledp.service.demo import free_port
from shuffledp.tasks.reports import encrypt_report

CONF = Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"


def program() -> str:
    """Where nginx is; without it these tests are left out, loudly."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        missing("nginx", "apt-get install nginx")
    assert found is not None
    return found


def local_text(folder: Path, fronts: list[int], backs: list[int]) -> str:
    """The configuration with ports, paths and names of this test, and without TLS."""
    text = CONF.read_text()
    text = re.sub(r"^\s*ssl_\w+ .*;.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\S+/(nginx-shuffledp\.pid|shuffledp-[\w.]+)", rf"{folder}/\1", text)
    for old, front in zip(("shuffler.example", "analyzer.example"), fronts, strict=True):
        text = text.replace(
            f"listen 443 ssl;\n        server_name {old};",
            f"listen 127.0.0.1:{front};\n        server_name {old};",
        )
    for port, back in zip((8801, 8802), backs, strict=True):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{back}")
    return text.replace("worker_processes auto;", "worker_processes 1;\ndaemon off;\nuser root;")


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[Programs, list[str]]]:
    """Both servers, and the proxy's URLs in front of them."""
    nginx, programs = program(), Programs(Trio(tmp_path))
    fronts = [free_port(), free_port()]
    conf = tmp_path / "nginx.conf"
    conf.write_text(local_text(tmp_path, fronts, list(programs.ports.values())))
    checked = subprocess.run(
        [nginx, "-t", "-q", "-c", str(conf)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    with programs.both():
        proxy = subprocess.Popen([nginx, "-c", str(conf)], stderr=subprocess.DEVNULL)
        try:
            urls = [f"http://127.0.0.1:{port}" for port in fronts]
            assert wait_for(lambda: _alive(urls[0]))
            yield programs, urls
        finally:
            proxy.terminate()
            proxy.wait(20)


def _alive(url: str) -> bool:
    try:
        return httpx.get(f"{url}/livez").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.attack("behind the proxy: bodies, headers, redirects")
def test_reports_pass_and_limits_hold(proxied: tuple[Programs, list[str]]) -> None:
    programs, (shuffler, analyzer) = proxied
    task = programs.trio.task()
    for url in (analyzer, shuffler):
        answer = httpx.put(
            f"{url}/tasks/{task.id.hex()}",
            content=task.canonical(),
            headers=as_collector(task.id),
            timeout=60,
        )
        assert answer.status_code == 201, answer.text
    for token in programs.enrol(USERS):
        answer = httpx.post(
            f"{shuffler}/tasks/{task.id.hex()}/reports",
            content=encrypt_report(task, 1),
            headers=bearing(token),
        )
        assert answer.status_code == 201, answer.text
    assert programs.results(task)[0]["reports"] == USERS
    for url in (shuffler, analyzer):
        for path in ("", "/page.js", "/status", "/metrics", "/tasks", "/ledger/restore"):
            assert httpx.get(f"{url}{path}", headers=bearing(OPERATOR)).status_code == 403, path
    assert httpx.get(f"{shuffler}/tasks/{task.id.hex()}/progress").status_code == 200
    assert httpx.get(f"{shuffler}/{'a' * 9000}").status_code == 414
    assert httpx.get(shuffler, headers={"x": "y" * 9000}).status_code in (400, 431)
    with connect(shuffler) as client:
        client.sendall(b"PUT /tasks/x HTTP/1.1\r\nHost: x\r\nContent-Length: 300000000\r\n\r\n")
        assert status_of(client) == 413
    with connect(shuffler) as client:
        client.sendall(b"GET / HTTP/1.1\r\nx: ")
        assert send_until_refused(client, b"a" * 100_000, 200) < 20 << 20
