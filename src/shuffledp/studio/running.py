"""The collection that the studio runs or watches: one at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from shuffledp.errors import ParameterError, ShuffleDPError
from shuffledp.studio.collecting import Place, connect, progress
from shuffledp.studio.fields import Form
from shuffledp.studio.trial import Trial
from shuffledp.tasks.task import Task


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


class Running:
    """The task that is collected, where, and the trial behind it if there is one. What was found
    last is kept after the end. Its methods wait for servers: they are called in threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._trial: Trial | None = None
        self._collection: tuple[Place, Task] | None = None
        self._found: dict[str, Any] = {}
        self._last = Collected([], False)

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
        """Registers a task at servers that run somewhere, and watches it."""
        plan = str(asked.get("plan", ""))
        with self._turn:
            found = connect(asked, plan, _noise(asked))
            self._stop()
            self._begin(asked, plan, found)

    def _begin(self, asked: Mapping[str, Any], plan: str, begun: tuple[Place, Task]) -> None:
        self._found, self._collection = {}, begun
        self._last = Collected([], self._trial is not None, plan, begun[1], asked["form"])

    def progress(self) -> dict[str, Any]:
        """How far the collection is, or was when it was stopped; {} if there was none."""
        with self._turn:
            return self._progress()

    def _progress(self) -> dict[str, Any]:
        if self._collection is None:
            return {**self._found, "stopped": True} if self._found else {}
        place, task = self._collection
        found = progress(place, task)
        found |= {"shuffler": place.shuffler, "analyzer": place.analyzer}
        found["report_bytes"] = task.report_bytes
        if self._trial is not None:
            trial = self._trial
            sent = {"devices": trial.devices, "sent": trial.sent, "problem": trial.problem}
            found["trial"] = {**sent, "truth": trial.truth}
        self._found = found
        return found

    def collected(self) -> Collected:
        """What can be saved: also of a collection that was stopped."""
        with self._turn:
            return self._last._replace(results=self._progress().get("published", []))

    def stop(self) -> None:
        """Stops a trial, or stops watching; what was published is kept until the next start."""
        with self._turn:
            with suppress(ShuffleDPError):
                self._progress()
            self._stop()

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
        raise ParameterError("publish_noise must be true or false.")
    return noise
