"""All programs of a season on 127.0.0.1, started through the command line, with a clock that a test
moves: libfaketime gives the servers the time that is written in a file. No server has a switch for
that, and what they measure without a date (pauses, limits) runs as ever."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from raw_sockets import wait_for
from service_needs import missing
from service_states import keep_tallies

from shuffledp.cli.main import main
from shuffledp.service.demo import configuration, free_port, new_tokens
from shuffledp.tasks.clock import DAY_SECONDS

ROLES = ("analyzer", "shuffler", "issuer", "relay")
KILLED = (*ROLES, "worker")
"""What is killed: the shuffler is the parent of its workers."""
WORKERS = 3
COMMAND = ("-m", "shuffledp.cli.main")
PATIENCE_SECONDS = 180.0
LOG_LINES = 12


def faketime() -> Path:
    """The library that moves clocks; without it the season is left out, loudly."""
    file = "faketime/libfaketimeMT.so.1"
    places = [Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib")]
    found = [one for place in places for one in (*place.glob(file), *place.glob(f"*/{file}"))]
    if not found:
        missing("libfaketime", "Debian: apt-get install libfaketime")
    return found[0]


def command(*words: str) -> str:
    """What a command of `shuffledp` prints; an error if it does not succeed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    assert code == 0, f"shuffledp {words[0]} {words[1]}: {err.getvalue()}"
    return out.getvalue()


class Stage:
    """The servers: how to start, kill and stop them, and what time it is."""

    def __init__(
        self, folder: Path, temporary: str, shuffler_store: str, *, origin: str, bucket: str
    ) -> None:
        self.folder, self.bucket = folder, bucket
        self.folder.mkdir()
        self.ports = {role: free_port() for role in ROLES}
        self.urls = {role: f"http://127.0.0.1:{port}" for role, port in self.ports.items()}
        self.tokens = new_tokens()
        self.http = httpx2.Client(timeout=60)
        self.kills: Counter[str] = Counter()
        self._origin, self._days = origin, 0
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._programs: dict[str, tuple[str, ...]] = dict.fromkeys(ROLES, COMMAND)
        self.config = folder / "service.toml"
        self.config.write_text(configuration(folder, self.ports, self.tokens))
        self._clock = folder.with_name("clock")
        self._library = faketime()
        self.pass_days(0)
        self.temporary = Path(temporary)
        """Where the servers' temporary files are: a short path, as sockets need it."""
        self.settings = {
            "TMPDIR": temporary,
            "SHUFFLEDP_SHUFFLER_STORE": shuffler_store,
            "SHUFFLEDP_SHUFFLER_DELIVER_TOKEN": self.tokens["shuffler"],
            "SHUFFLEDP_SHUFFLER_RETRY_SECONDS": "1",
            "SHUFFLEDP_SHUFFLER_DELIVER": "manifest",
            "SHUFFLEDP_SHUFFLER_SPOOL": bucket,
            "SHUFFLEDP_SHUFFLER_REPORT_KEYS": f"{folder}/shuffler-keys",
            "SHUFFLEDP_SHUFFLER_GATEWAY_KEYS": f"{folder}/shuffler-gateway",
            "SHUFFLEDP_SHUFFLER_SIGNING_KEY": f"{folder}/shuffler-signing.json",
            "SHUFFLEDP_ANALYZER_PARTS": bucket,
            "SHUFFLEDP_ANALYZER_WORKERS": "1",
        }

    # time

    def clock(self) -> float:
        """The time of servers and devices."""
        return time.time() + self._days * DAY_SECONDS

    @property
    def milliseconds_ahead(self) -> int:
        """By how much this clock is ahead of the machine's."""
        return 1000 * self._days * DAY_SECONDS

    def pass_days(self, days: int) -> None:
        """Moves the clock forward, for every program at once."""
        self._days += days
        part = self._clock.with_suffix(".part")
        part.write_text(f"+{self._days}d\n")
        part.rename(self._clock)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **self.settings,
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    # programs

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """All servers while they run."""
        asyncio.run(keep_tallies(f"sqlite:{self.folder}/analyzer.db"))
        try:
            for role in ROLES:
                self._start(role)
            for role in ROLES:
                self.wait_ready(role)
            yield
        finally:
            self.stop(*self._running)
            self.http.close()

    def _start(self, role: str) -> None:
        workers = ("--workers", str(WORKERS)) if role == "shuffler" else ()
        words = (role, "serve", "--config", str(self.config), "--allow-origin", self._origin)
        with open(self.folder / f"{role}.log", "ab") as log:
            self._running[role] = subprocess.Popen(
                [sys.executable, *self._programs[role], *words, *workers],
                env=self._environment(),
                stdout=log,
                stderr=log,
            )

    def wait_ready(self, role: str) -> None:
        """Waits until a server answers, and all workers of the shuffler are there."""

        def ready() -> bool:
            with contextlib.suppress(httpx2.TransportError):
                answer = self.http.get(f"{self.urls[role]}/readyz")
                return answer.status_code == 200 and (
                    role != "shuffler" or len(self.workers()) == WORKERS
                )
            return False

        with self.telling():
            assert wait_for(ready, PATIENCE_SECONDS), f"the {role} is not ready"

    def workers(self) -> list[int]:
        """The ids of the shuffler's processes."""
        writer = self._running["shuffler"].pid
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{writer}/task/{writer}/children").read_text().split()
            return [int(child) for child in children if _is_worker(child)]
        return []

    def kill(self, name: str) -> None:
        """kill −9 of a server or a worker. A server is started again, a worker is by its parent."""
        if name == "worker":
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(self.workers()), signal.SIGKILL)
        else:
            self._running[name].kill()
            self._running[name].wait()
            self._start(name)
        self.kills[name] += 1
        self.wait_ready("shuffler" if name == "worker" else name)

    def stop(self, *roles: str) -> None:
        """Ends servers as an operator does."""
        for role in roles:
            self._running[role].terminate()
        for role in roles:
            self._running[role].wait(PATIENCE_SECONDS)

    def start(self, *roles: str) -> None:
        """Starts servers that were stopped."""
        for role in roles:
            self._start(role)
        for role in roles:
            self.wait_ready(role)

    def replace_shuffler(self, *program: str) -> None:
        """Runs the shuffler as another program from now on: its operator can do that."""
        self.stop("shuffler")
        self._programs["shuffler"] = program
        self.start("shuffler")

    # what they say

    def log(self, role: str) -> str:
        """All that a server has written to its standard output and error."""
        return (self.folder / f"{role}.log").read_text()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Adds the servers' last log lines to whatever fails inside."""
        try:
            yield
        except Exception as error:
            for role in ROLES:
                lines = self.log(role).splitlines()[-LOG_LINES:]
                error.add_note("\n".join([f"--- {role}", *lines]))
            raise

    def results(self, task_id: bytes, count: int) -> list[dict[str, Any]]:
        """The published results of a task, after there are so many."""
        found: list[dict[str, Any]] = []

        def enough() -> bool:
            nonlocal found
            with contextlib.suppress(httpx2.TransportError):
                url = f"{self.urls['analyzer']}/tasks/{task_id.hex()}/results"
                answer = self.http.get(url)
                found = answer.json()["results"] if answer.status_code == 200 else found
            return len(found) >= count

        with self.telling():
            assert wait_for(enough, PATIENCE_SECONDS), f"{len(found)} of {count} results"
        return found


def _is_worker(process: str) -> bool:
    with contextlib.suppress(OSError):
        return b"service.workers" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False
