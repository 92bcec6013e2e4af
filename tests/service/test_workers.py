"""Several shuffler processes on one machine: they share the address, and a dead one is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from raw_sockets import wait_for
from service_programs import Programs
from service_trio import OPERATOR, USERS, Trio, bearing

from shuffledp.service import workers
from shuffledp.service.demo import wait_ready
from shuffledp.service.workers import Worker
from shuffledp.tasks.reports import encrypt_report


@contextlib.contextmanager
def running(trio: Trio, workers: int) -> Iterator[Programs]:
    """An analyzer, and a shuffler of so many processes."""
    programs = Programs(trio)
    try:
        programs.start("analyzer")
        words = ["shuffler", "serve", "--config", str(programs.config), "--workers", str(workers)]
        with open(trio.folder / "shuffler.log", "ab") as log:
            programs.running["shuffler"] = subprocess.Popen(
                [sys.executable, "-m", "shuffledp.cli.main", *words], stderr=log
            )
        for url in programs.urls.values():
            wait_ready(url, 120)
        yield programs
    finally:
        programs.stop()


def children(pid: int) -> list[int]:
    """The processes that a program has started."""
    with contextlib.suppress(OSError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in found]
    return []


def test_a_process_that_starts_may_take_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: one that has said something and then nothing hangs."""
    monkeypatch.setattr(workers, "HANG_SECONDS", 0.2)
    silent = "import sys, time; sys.stdin.read(); time.sleep(60)"
    speaking = (
        "import json, os, sys, time; given = json.load(sys.stdin); os.write(given['alive'], b'.'); "
        "time.sleep(60)"
    )
    made = workers.listening_socket("127.0.0.1:0", threading.Event())
    with contextlib.closing(made) as listening:
        for program, hangs in ((silent, False), (speaking, True)):
            monkeypatch.setattr(workers, "COMMAND", ("-S", "-c", program))
            worker = Worker(Trio(tmp_path).shuffler_config, listening, str(tmp_path))
            try:
                assert wait_for(worker.hangs, 30 if hangs else 1) is hangs
            finally:
                worker.end(signal.SIGKILL)
                worker.process.wait()
                worker.close()


def test_workers_share_the_address_and_are_replaced(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    trio = Trio(
        tmp_path,
        {"shuffler": postgres_database(), "analyzer": f"sqlite:{tmp_path}/analyzer.db"},
    )
    task = trio.task()
    with running(trio, 2) as programs:
        parent, url = programs.running["shuffler"].pid, programs.urls["shuffler"]
        assert wait_for(lambda: len(children(parent)) == 2, 60)
        programs.register(task)
        tokens = programs.enrol(USERS)

        def send(token: str) -> int:
            for _ in range(100):
                with contextlib.suppress(httpx2.TransportError):
                    answer = httpx2.post(
                        f"{url}/tasks/{task.id.hex()}/reports",
                        content=encrypt_report(task, 1),
                        headers=bearing(token),
                        timeout=60,
                    )
                    if answer.status_code != 503:
                        return answer.status_code
                time.sleep(0.2)
            return 0

        assert [send(token) for token in tokens[:5]] == [201] * 5
        first = children(parent)
        os.kill(first[0], signal.SIGKILL)
        assert wait_for(lambda: len(children(parent)) == 2 and first[0] not in children(parent), 60)
        assert [send(token) for token in tokens[5:]] == [201] * (USERS - 5)
        (result,) = programs.results(task, seconds=120)
        assert result["reports"] == USERS

        def counted() -> float:
            lines = httpx2.get(
                f"{url}/metrics", headers=bearing(OPERATOR), timeout=60
            ).text.splitlines()
            name = 'shuffledp_shuffler_uploads_total{task="1",verdict="accepted"}'
            return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

        assert counted() == USERS  # of all processes together, whichever answers
        programs.running["shuffler"].kill()  # the parent: its workers end by themselves
        assert wait_for(
            lambda: not any(os.path.exists(f"/proc/{pid}/fd/0") for pid in first[1:]), 60
        )
