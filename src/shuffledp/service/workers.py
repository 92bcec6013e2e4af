"""Several shuffler processes on one machine, which share the listening socket.

Each is the same program, and they talk to each other only through the store. The parent starts
them, restarts those that end, kills those that hang, and answers no request itself.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, replace
from typing import Any

from shuffledp.service.http.lifecycle import MOST_BACKLOG, bound_socket, serve
from shuffledp.service.http.logs import log, start_logs
from shuffledp.service.shuffler.config import ShufflerConfig

COMMAND = ("-m", "shuffledp.service.workers")
LOOK_SECONDS, RESTART_SECONDS = 0.2, 1.0
HANG_SECONDS, START_SECONDS = 30.0, 3600.0
"""A process without a heartbeat for this long is killed. A starting process gets longer, because it
may wait for a migration or read many keys."""
END_SECONDS, BIND_SECONDS = 30.0, 30.0


class Worker:
    """One process, and the pipe for its heartbeats."""

    def __init__(self, config: ShufflerConfig, listening: socket.socket, metrics: str) -> None:
        alive, says = os.pipe()
        self._alive = alive
        given = {"config": asdict(config), "socket": listening.fileno(), "alive": says}
        self.process = subprocess.Popen(
            [sys.executable, *COMMAND],
            stdin=subprocess.PIPE,
            pass_fds=(listening.fileno(), says),
            start_new_session=True,  # Ctrl-C ends the parent, which ends these
            env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": metrics},
        )
        os.close(says)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(given).encode())
        self.process.stdin.close()
        self._seen = time.monotonic() + START_SECONDS - HANG_SECONDS

    def hangs(self) -> bool:
        """Whether its last heartbeat is too old."""
        while select.select([self._alive], [], [], 0)[0] and os.read(self._alive, 4096):
            self._seen = time.monotonic()
        return time.monotonic() - self._seen > HANG_SECONDS

    def end(self, how: signal.Signals) -> None:
        """Sends a signal, if the process still runs."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(how)

    def close(self) -> None:
        """Closes the pipe of a process that has ended."""
        os.close(self._alive)


def listening_socket(
    listen: str, stopping: threading.Event, seconds: float = BIND_SECONDS
) -> socket.socket:
    """A socket that listens at an address, for processes to inherit; waits for the processes of a
    parent that was killed, which end by themselves, until it is told to stop."""
    end = time.monotonic() + seconds
    while True:
        made = None
        try:
            made = bound_socket(listen)  # a new one: a refused one may stay bound
            made.listen(MOST_BACKLOG)
            made.setblocking(False)
            return made
        except OSError as error:
            if made is not None:
                made.close()
            late = time.monotonic() > end or stopping.wait(LOOK_SECONDS)
            if error.errno != errno.EADDRINUSE or late:
                raise


def serve_workers(config: ShufflerConfig) -> None:
    """Runs the configured number of processes until SIGTERM or SIGINT."""
    start_logs()
    stopping = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: stopping.set())
    metrics = tempfile.mkdtemp(prefix="shuffledp-")
    listening = listening_socket(config.listen, stopping)
    # the operators' address is answered by the first process alone
    configs = [config, *([replace(config, operators_listen="")] * (config.workers - 1))]
    workers: dict[int, Worker] = {}
    again: dict[int, float] = dict.fromkeys(range(config.workers), 0.0)
    try:
        while not stopping.is_set():
            for number, worker in list(workers.items()):
                if worker.hangs():
                    log("process hangs", level="error", process=worker.process.pid)
                    worker.end(signal.SIGKILL)
                code = worker.process.poll()
                if code is not None:
                    log(
                        "process ended",
                        level="warning",
                        process=worker.process.pid,
                        state=str(code),
                    )
                    worker.close()
                    del workers[number]
                    again[number] = time.monotonic() + RESTART_SECONDS
            for number, due in list(again.items()):
                if time.monotonic() >= due:
                    workers[number] = Worker(configs[number], listening, metrics)
                    del again[number]
            stopping.wait(LOOK_SECONDS)
    finally:
        _end(list(workers.values()))
        listening.close()
        shutil.rmtree(metrics, ignore_errors=True)


def _end(workers: list[Worker]) -> None:
    for worker in workers:
        worker.end(signal.SIGTERM)
    end = time.monotonic() + END_SECONDS
    for worker in workers:
        try:
            worker.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.end(signal.SIGKILL)
            worker.process.wait()
        worker.close()


def main() -> None:
    """Runs one process: what it needs comes on standard input."""
    from shuffledp.service.shuffler.app import Shuffler

    os.umask(0o077)
    given = json.loads(sys.stdin.buffer.read())
    settings: dict[str, Any] = given["config"]
    config = ShufflerConfig(**settings | {"allow_origins": tuple(settings["allow_origins"])})
    shuffler = Shuffler(config)
    shuffler.beat = lambda: _say(given["alive"])
    serve(shuffler, [socket.socket(fileno=given["socket"])])


def _say(pipe: int) -> None:
    try:
        os.write(pipe, b".")
    except OSError:  # the parent is gone: nobody would restart or end this process
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
