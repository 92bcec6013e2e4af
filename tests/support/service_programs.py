"""Both servers as programs of their own, on the stores of a `Trio`."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from logged_tasks import KEYS
from service_trio import COLLECTOR, OPERATOR, Trio

from shuffledp.service.client.collector import enrol, register, results
from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.tasks.task import Task


class Programs:
    """Both servers as programs: how to start, kill and stop them."""

    def __init__(self, trio: Trio, scheme: str = "http") -> None:
        self.trio = trio
        self.ports = {"shuffler": free_port(), "analyzer": free_port()}
        self.urls = {role: f"{scheme}://127.0.0.1:{port}" for role, port in self.ports.items()}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.config = trio.folder / "service.toml"
        self.config.write_text(self.toml())

    def toml(self) -> str:
        """The configuration file of both."""
        lines = []
        for role, config in (
            ("shuffler", self.trio.shuffler_config),
            ("analyzer", self.trio.analyzer_config),
        ):
            lines.append(f"[{role}]")
            changed = {"listen": f"127.0.0.1:{self.ports[role]}", "drain_seconds": 0}
            if role == "shuffler":
                changed["analyzer"] = self.urls["analyzer"]
            for name, value in (vars(config) | changed).items():
                lines.append(f"{name} = {json.dumps(value)}")
        return "\n".join(lines)

    def start(self, role: str, before: Callable[[], None] | None = None) -> None:
        """Starts a server; `before` runs in the new program first."""
        with open(self.trio.folder / f"{role}.log", "ab") as log:
            self.running[role] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "shuffledp.cli.main",
                    role,
                    "serve",
                    "--config",
                    str(self.config),
                ],
                stderr=log,
                preexec_fn=before,  # noqa: PLW1509
            )

    @contextlib.contextmanager
    def both(self) -> Iterator[tuple[str, str]]:
        """(shuffler's URL, analyzer's URL) while both are running and ready."""
        try:
            for role in self.ports:
                self.start(role)
            for url in self.urls.values():
                wait_ready(url)
            yield self.urls["shuffler"], self.urls["analyzer"]
        finally:
            self.stop()

    @contextlib.contextmanager
    def alone(self, role: str) -> Iterator[str]:
        """The URL of one server while it is running and ready."""
        try:
            self.start(role)
            wait_ready(self.urls[role])
            yield self.urls[role]
        finally:
            self.stop()

    def kill(self, role: str) -> None:
        """Ends a server with SIGKILL."""
        self.running[role].send_signal(signal.SIGKILL)
        self.running[role].wait()

    def stop(self) -> None:
        """Ends all servers with SIGTERM."""
        for program in self.running.values():
            program.terminate()
        for program in self.running.values():
            program.wait(60)

    def log(self) -> str:
        """All that both servers have logged."""
        return "".join((self.trio.folder / f"{role}.log").read_text() for role in self.ports)

    def register(self, task: Task, *roles: str) -> None:
        """Registers a task at these servers, at both if none is named."""
        for role in roles or ("analyzer", "shuffler"):
            register(task, self.urls[role], COLLECTOR, KEYS["collector"])

    def enrol(self, count: int, prefix: str = EACH_PREFIX) -> list[str]:
        """Fresh tokens, enrolled at the shuffler, where its operators are answered."""
        inside = self.trio.shuffler_config.operators_listen
        return enrol(
            f"http://{inside}" if inside else self.urls["shuffler"], OPERATOR, count, prefix
        )

    def results(self, task: Task, count: int = 1, seconds: float = 60) -> list[dict[str, Any]]:
        """The published results of a task, after there are so many."""
        end = time.monotonic() + seconds
        found: Sequence[dict[str, Any]] = []
        while time.monotonic() < end:
            found = results(self.urls["analyzer"], task.id.hex())
            if len(found) >= count:
                return list(found)
            time.sleep(0.1)
        raise AssertionError(f"{len(found)} of {count} results")
