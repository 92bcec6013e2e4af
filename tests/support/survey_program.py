"""`shuffledp demo --browser` as a program, for tests that answer on its page."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from shuffledp.service.demo import free_port

USERS = 100
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from shuffledp.cli.main import main
sys.exit(main())
"""
"""`shuffledp`, which Ctrl-C ends even where the tests' own processes ignore it."""


@contextlib.contextmanager
def running_survey(log: Path, *words: str) -> Iterator[str]:
    """The URL of a survey with these further options, while it runs."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", PROGRAM, "demo", "--browser"]
    command += ["--users", str(USERS), "--port", url.rpartition(":")[2], *words]
    with open(log, "w") as lines:
        program = subprocess.Popen(command, stderr=lines)
    try:
        wait_for(url)
        assert f"Open {url}" in log.read_text()
        yield url
        program.send_signal(signal.SIGINT)
        assert program.wait(120) == 0
    finally:
        program.kill()
        program.wait(15)


def wait_for(url: str) -> None:
    for _ in range(600):
        try:
            httpx2.get(url)
            return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise AssertionError("the survey's site did not start")
