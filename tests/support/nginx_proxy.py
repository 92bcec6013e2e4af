"""nginx with deploy/nginx.conf, on loopback, in front of servers of a test."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
from raw_sockets import wait_for
from service_needs import missing

from shuffledp.service.demo import free_port

CONF = Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"


def program() -> str:
    """Where nginx is; without it the tests that need it are left out, loudly."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        missing("nginx", "apt-get install nginx")
    assert found is not None
    return found


def local_text(folder: Path, fronts: list[int], shufflers: Sequence[int], analyzer: int) -> str:
    """The configuration with ports, paths and names of this test, and without TLS. `fronts` are
    the ports of nginx for the shuffler and the analyzer, the others those of the servers."""
    text = CONF.read_text()
    text = re.sub(r"^\s*ssl_\w+ .*;.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\S+/(nginx-shuffledp\.pid|shuffledp-[\w.]+)", rf"{folder}/\1", text)
    for old, front in zip(("shuffler.example", "analyzer.example"), fronts, strict=True):
        text = text.replace(
            f"listen 443 ssl;\n        server_name {old};",
            f"listen 127.0.0.1:{front};\n        server_name {old};",
        )
    text = re.sub("listen 443 ssl;", lambda _: f"listen 127.0.0.1:{free_port()};", text)
    servers = "\n".join(f"        server 127.0.0.1:{port};" for port in shufflers)
    text = re.sub(r"^ *server 127\.0\.0\.1:8801;.*$", servers, text, flags=re.MULTILINE)
    text = text.replace("127.0.0.1:8802", f"127.0.0.1:{analyzer}")
    return text.replace("worker_processes auto;", "worker_processes 1;\ndaemon off;\nuser root;")


@contextlib.contextmanager
def proxy(folder: Path, shufflers: Sequence[int], analyzer: int) -> Iterator[list[str]]:
    """The proxy's URLs for the shuffler and the analyzer, while it runs."""
    nginx, fronts, conf = program(), [free_port(), free_port()], folder / "nginx.conf"
    conf.write_text(local_text(folder, fronts, shufflers, analyzer))
    checked = subprocess.run(
        [nginx, "-t", "-q", "-c", str(conf)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    running = subprocess.Popen([nginx, "-c", str(conf)], stderr=subprocess.DEVNULL)
    try:
        urls = [f"http://127.0.0.1:{port}" for port in fronts]
        assert wait_for(lambda: _alive(urls[0]), 60)
        yield urls
    finally:
        running.terminate()
        running.wait(60)


def _alive(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/livez").status_code == 200
    except httpx2.TransportError:
        return False
