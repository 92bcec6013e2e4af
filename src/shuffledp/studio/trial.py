"""A trial on this machine: two servers of its own and simulated devices, as `shuffledp demo` has
them, until it is stopped."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.queries.options import Options
from shuffledp.queries.truth import truth
from shuffledp.service.client.collector import enrol
from shuffledp.service.demo import Servers, local_servers, send_all
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.studio.collecting import Place, make_task
from shuffledp.studio.fields import whole_number
from shuffledp.studio.purpose import Purpose
from shuffledp.studio.questions import query_of
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.task import Task

MOST_BATCHES = 20
MOST_DEVICES = 20_000


class Stopped(Exception):
    """The trial was stopped while devices were sending."""


class Trial:
    """Servers and devices of one trial. `start` returns when the task is registered; devices then
    send in the background."""

    def __init__(self, asked: Mapping[str, Any], plan: str, publish_noise: bool) -> None:
        self._plan, self._noise, self._form = plan, publish_noise, asked["form"]
        self._purpose = Purpose.of(asked.get("purpose"))
        self._batches = whole_number(asked, "batches", most=MOST_BATCHES)
        self._folder = Path(tempfile.mkdtemp(prefix="shuffledp-studio-trial-"))
        self._stack, self._stop = ExitStack(), threading.Event()
        self._sending: threading.Thread | None = None
        self.devices, self.sent, self.problem = 0, 0, ""
        self.truth: list[list[float]] = []
        """The true answers in each batch: these people are simulated."""

    def start(self) -> tuple[Place, Task]:
        """Starts both servers, registers the task and lets the devices begin."""
        servers = self._stack.enter_context(local_servers(self._folder))
        key = KeyFolder(self._folder / "keys").all()[-1].public
        task = make_task(self._plan, key, self._purpose, self._noise, servers.shuffler)
        self.devices = task.protocol.users * self._batches
        if self.devices > MOST_DEVICES:
            raise ParameterError(
                f"A trial has at most {MOST_DEVICES:,} simulated devices; take fewer people or "
                "batches."
            )
        servers.register(task)
        self._sending = threading.Thread(target=self._send, args=(servers, task), daemon=True)
        self._sending.start()
        return Place(servers.shuffler, servers.analyzer), task

    def _send(self, servers: Servers, task: Task) -> None:
        values = task.protocol.sample_values(self.devices)
        mixed = np.argsort(SYSTEM.words(self.devices, np.uint64))  # no batch has all equal values
        batches = np.split(values[mixed], self._batches)
        query = query_of(self._form, Options.checked({}), task.protocol.epsilon)
        self.truth = [truth(query, batch) for batch in batches]

        def before() -> None:
            if self._stop.is_set():
                raise Stopped
            self.sent += 1

        try:
            tokens = enrol(servers.shuffler, servers.operator_token, self.devices, EACH_PREFIX)
            for number, batch in enumerate(
                batches
            ):  # one after another: the truth of each is known
                place = replace(servers, folder=servers.folder / f"batch-{number}")
                some = tokens[number * len(batch) : (number + 1) * len(batch)]
                send_all(place, task, batch.tolist(), some, lambda _: None, before)
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
