"""Both servers as programs of their own, on the stores of a `Trio`."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
from service_trio import OPERATOR, Trio, as_collector, bearing, sha

from shuffledp.service.demo import free_port, wait_ready
from shuffledp.service.tokens import EACH_PREFIX, new_token
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
                [sys.executable, "-m", "shuffledp.service", role, "--config", str(self.config)],
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

    def kill(self, role: str) -> None:
        """Ends a server with SIGKILL."""
        self.running[role].send_signal(signal.SIGKILL)
        self.running[role].wait()

    def stop(self) -> None:
        """Ends all servers with SIGTERM."""
        for program in self.running.values():
            program.terminate()
        for program in self.running.values():
            program.wait(30)

    def log(self) -> str:
        """All that both servers have logged."""
        return "".join((self.trio.folder / f"{role}.log").read_text() for role in self.ports)

    def register(self, task: Task, *roles: str) -> None:
        """Registers a task at these servers, at both if none is named."""
        for role in roles or ("analyzer", "shuffler"):
            httpx2.put(
                f"{self.urls[role]}/tasks/{task.id.hex()}",
                content=task.canonical(),
                headers=as_collector(task.id),
                timeout=60,
            ).raise_for_status()

    def enrol(self, count: int, prefix: str = EACH_PREFIX) -> list[str]:
        """Fresh tokens, enrolled at the shuffler, where its operators are answered."""
        tokens = [new_token(prefix) for _ in range(count)]
        inside = self.trio.shuffler_config.operators_listen
        httpx2.post(
            f"{f'http://{inside}' if inside else self.urls['shuffler']}/tokens",
            json={"sha256": [sha(token) for token in tokens]},
            headers=bearing(OPERATOR),
            timeout=60,
        ).raise_for_status()
        return tokens

    def results(self, task: Task, count: int = 1, seconds: float = 60) -> list[dict[str, Any]]:
        """The published results of a task, after there are so many."""
        end = time.monotonic() + seconds
        found: list[dict[str, Any]] = []
        with httpx2.Client(timeout=60) as client:  # one: each reads the trust store
            while time.monotonic() < end:
                answer = client.get(f"{self.urls['analyzer']}/tasks/{task.id.hex()}/results")
                found = answer.json()["results"]
                if len(found) >= count:
                    return found
                time.sleep(0.1)
        raise AssertionError(f"{len(found)} of {count} results")
