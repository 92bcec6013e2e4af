"""The collection that the studio runs or watches, one at a time: at servers that run already, or a
trial with servers and simulated devices on this machine, as in `shuffledp demo`."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.protocols.base import Protocol
from shuffledp.queries.by_group.protocol import ByGroupProtocol
from shuffledp.service.client.collector import enrol
from shuffledp.service.demo import Servers, local_servers, send_all
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.studio.collecting import (
    Purpose,
    ServerUrls,
    connect,
    log_proof,
    make_task,
    progress,
)
from shuffledp.studio.fields import Form, whole_number
from shuffledp.studio.kept import Entry, Kept
from shuffledp.studio.questions import question_of
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task, task_from_json

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
        self._users: int = json.loads(plan)["users"]
        self._batches = whole_number(asked, "batches", most=MOST_BATCHES)
        self.devices = self._users * self._batches
        if self.devices > MOST_DEVICES:
            raise ParameterError(
                f"A trial has at most {MOST_DEVICES:,} simulated devices; choose fewer people or "
                "batches."
            )
        self._folder = Path(tempfile.mkdtemp(prefix="shuffledp-studio-trial-"))
        self._stack, self._stop = ExitStack(), threading.Event()
        self._sending: threading.Thread | None = None
        self.sent, self.problem = 0, ""
        self.truth: list[list[float]] = []
        """The true answers in each batch, known because the people are simulated."""

    def start(self) -> tuple[ServerUrls, Task]:
        """Starts both servers, registers the task and lets the devices begin."""
        servers = self._stack.enter_context(local_servers(self._folder))
        key = KeyFolder(self._folder / "keys").all()[-1].public
        task = make_task(
            self._plan,
            key,
            self._purpose,
            publish_noise=self._noise,
            shuffler=servers.shuffler,
            batch=BatchRule(self._users),  # simulated devices work
        )
        servers.register(task)
        self._sending = threading.Thread(target=self._send, args=(servers, task), daemon=True)
        self._sending.start()
        return ServerUrls(servers.shuffler, servers.analyzer, servers.operator_token), task

    def _send(self, servers: Servers, task: Task) -> None:
        values = task.protocol.sample_values(self.devices)
        mixed = np.argsort(SYSTEM.words(self.devices, np.uint64))  # no batch has all equal values
        batches = np.split(values[mixed], self._batches)
        question = question_of(self._form)
        query = question.query(self._form, task.protocol.epsilon)
        if not question.words.finds_words:  # else rows are those that are found
            self.truth = [query.truth(batch) for batch in batches]

        def before() -> None:
            if self._stop.is_set():
                raise Stopped
            self.sent += 1

        try:
            tokens = enrol(servers.shuffler, servers.operator_token, self.devices, EACH_PREFIX)
            for number, batch in enumerate(batches):  # in turn: the truth of each is known
                of_batch = replace(servers, folder=servers.folder / f"batch-{number}")
                some = tokens[number * len(batch) : (number + 1) * len(batch)]
                given = given_values(task.protocol, batch)
                send_all(of_batch, task, given, some, lambda _: None, before)
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


def given_values(protocol: Protocol[Any], values: Any) -> list[Any]:
    """The values of simulated people as devices are given them: groups by their names."""
    if isinstance(protocol, ByGroupProtocol):
        return [(protocol.labels[group], number) for group, number in values.tolist()]
    found: list[Any] = values.tolist()
    return found


class Collected(NamedTuple):
    """What a collection brought so far, for the files that are saved."""

    results: list[dict[str, Any]]
    """All results that were published so far."""
    trial: bool
    """Whether its people are simulated."""
    plan: str = ""
    """The plan that it follows, as JSON text; empty if there is no collection."""
    task: Task | None = None
    form: Form = MappingProxyType({})
    """The form of the first step when it began."""
    purpose: Mapping[str, Any] = MappingProxyType({})
    """The words of the first step when it began."""
    proof: TaskProof | None = None
    """That the task is in the public log, once the servers have said so."""


class Running:
    """The current collection: its task, its servers and, if it is one, its trial. The last progress
    is kept after the end. The methods wait for servers, so they are called in threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._trial: Trial | None = None
        self._collection: tuple[ServerUrls, Task] | None = None
        self._found: dict[str, Any] = {}
        self._last = Collected([], False)
        self._kept = Kept()
        watched = self._kept.watched()
        if watched is not None:
            with suppress(ShuffleDPError):  # a task of another version: it stays on the list
                self._watch(watched)

    def start_trial(self, asked: Mapping[str, Any], plan: str) -> None:
        """Starts servers and devices on this machine; what ran before is stopped."""
        with self._turn:
            self._stop()
            trial = self._trial = Trial(asked, plan, _noise(asked))
            try:
                self._begin(asked, plan, trial.start())
            except BaseException:
                self._stop()
                raise

    def connect(self, asked: Mapping[str, Any]) -> None:
        """Registers a task at running servers and watches it."""
        plan = str(asked.get("plan", ""))
        with self._turn:
            servers, task = connect(asked, plan, _noise(asked))
            self._stop()
            self._begin(asked, plan, (servers, task))
            self._kept.add(
                task.id.hex(),
                {
                    "task": task.canonical().decode(),
                    "plan": plan,
                    "shuffler": servers.shuffler,
                    "analyzer": servers.analyzer,
                    **{name: dict(asked.get(name) or {}) for name in ("form", "purpose")},
                },
            )

    def _begin(self, asked: Mapping[str, Any], plan: str, begun: tuple[ServerUrls, Task]) -> None:
        self._found, self._collection = {}, begun
        self._last = Collected(
            [],
            self._trial is not None,
            plan,
            begun[1],
            asked["form"],
            asked.get("purpose") or {},
        )

    def _watch(self, kept: Entry) -> None:
        """Goes on with a collection that was started earlier."""
        task = task_from_json(kept["task"], bytes.fromhex(kept["id"]))
        self._begin(kept, kept["plan"], (ServerUrls(kept["shuffler"], kept["analyzer"]), task))

    def collections(self) -> list[dict[str, Any]]:
        """The collections at running servers that were started here, for a list to choose from."""
        return [
            {
                "id": one["id"],
                "name": json.loads(one["task"])["name"],
                **{name: one[name] for name in ("began", "shuffler", "analyzer")},
                "watched": self._watches(one["id"]),
            }
            for one in self._kept.all()
        ]

    def _watches(self, task_id: str) -> bool:
        """Whether this collection is the current one, and not stopped."""
        return self._collection is not None and self._collection[1].id.hex() == task_id

    def watch(self, asked: Mapping[str, Any]) -> None:
        """Watches a collection of the list; what ran before is stopped."""
        with self._turn:
            kept = self._kept.entry(str(asked.get("id")))
            self._stop()
            self._watch(kept)
            self._kept.watch(kept["id"])

    def forget(self, asked: Mapping[str, Any]) -> None:
        """Takes a collection off the list; if it is watched, that is stopped."""
        with self._turn:
            kept = self._kept.entry(str(asked.get("id")))
            if self._watches(kept["id"]):
                self._stop()
                self._found = {}
            self._kept.forget(kept["id"])

    def progress(self) -> dict[str, Any]:
        """The progress of the collection, or its last state after a stop; {} if there was none."""
        with self._turn:
            return self._progress()

    def _progress(self) -> dict[str, Any]:
        if self._collection is None:
            return {**self._found, "stopped": True} if self._found else {}
        servers, task = self._collection
        found = progress(servers, task, self._last.form)
        found |= {"shuffler": servers.shuffler, "analyzer": servers.analyzer}
        found["report_bytes"] = task.report_bytes
        if self._trial is not None:
            trial = self._trial
            sent = {"devices": trial.devices, "sent": trial.sent, "problem": trial.problem}
            found["trial"] = {**sent, "truth": trial.truth}
        if self._last.proof is None:
            with suppress(ShuffleDPError):
                self._last = self._last._replace(proof=log_proof(servers, task))
        self._found = found
        return found

    def collected(self) -> Collected:
        """What can be saved: also of a collection that was stopped."""
        with self._turn:
            return self._last._replace(results=self._progress().get("published", []))

    def stop(self, _: Mapping[str, Any]) -> None:
        """Stops a trial, or stops watching; what was published is kept until the next start."""
        with self._turn:
            with suppress(ShuffleDPError):
                self._progress()
            self._stop()
            self._kept.watch(None)

    def close(self) -> None:
        """Stops whatever runs."""
        with self._turn:
            self._stop()

    def _stop(self) -> None:
        trial, self._trial, self._collection = self._trial, None, None
        if trial is not None:
            trial.stop()


def _noise(asked: Mapping[str, Any]) -> bool:
    noise = asked.get("publish_noise")
    if not isinstance(noise, bool):
        raise ParameterError("publish_noise must be true or false; reload the page.")
    return noise
