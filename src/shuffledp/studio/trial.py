"""A trial on this machine: two servers of its own and simulated devices, as `shuffledp demo` has
them, until it is stopped."""

from __future__ import annotations

import shutil
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.exact.entropy import SYSTEM
from shuffledp.sealed.keys import KeyFolder
from shuffledp.sealed.task import Task
from shuffledp.service.client.collector import enrol
from shuffledp.service.demo import Servers, local_servers, send_all
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.studio.collecting import Place, make_task

MOST_DEVICES = 20_000


class Stopped(Exception):
    """The trial was stopped while devices were sending."""


class Trial:
    """Servers and devices of one trial. `start` returns when the task is registered; devices then
    send in the background."""

    def __init__(self, plan: str, name: str, batches: int, publish_noise: bool) -> None:
        self._plan, self._name, self._batches = plan, name, batches
        self._noise = publish_noise
        self._folder = Path(tempfile.mkdtemp(prefix="shuffledp-studio-trial-"))
        self._stack, self._stop = ExitStack(), threading.Event()
        self._sending: threading.Thread | None = None
        self.devices, self.sent, self.problem = 0, 0, ""

    def start(self) -> tuple[Place, Task]:
        """Starts both servers, registers the task and lets the devices begin."""
        servers = self._stack.enter_context(local_servers(self._folder))
        key = KeyFolder(self._folder / "keys").all()[-1].public
        task = make_task(self._plan, key, self._name, self._noise)
        self.devices = task.protocol.users * self._batches
        if self.devices > MOST_DEVICES:
            raise ParameterError(
                f"A trial has at most {MOST_DEVICES:,} simulated devices; take fewer people or "
                "batches."
            )
        servers.register(task)
        self._sending = threading.Thread(target=self._send, args=(servers, task), daemon=True)
        self._sending.start()
        ledger = self._folder / "ledger.json"
        return Place(shuffler=servers.shuffler, analyzer=servers.analyzer, ledger=ledger), task

    def _send(self, servers: Servers, task: Task) -> None:
        values = task.protocol.sample_values(self.devices)
        mixed = np.argsort(SYSTEM.words(self.devices, np.uint64))  # no batch has all equal values

        def before() -> None:
            if self._stop.is_set():
                raise Stopped
            self.sent += 1

        try:
            tokens = enrol(servers.shuffler, servers.operator_token, self.devices, EACH_PREFIX)
            send_all(servers, task, values[mixed].tolist(), tokens, lambda _: None, before)
        except Stopped:
            pass
        except ShuffleDPError as error:
            self.problem = str(error)

    def stop(self) -> None:
        """Stops devices and servers and removes all their files."""
        self._stop.set()
        if self._sending is not None:
            self._sending.join(30)
        try:
            self._stack.close()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
