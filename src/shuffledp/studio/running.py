"""The collection that the studio runs or watches: one at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import whole
from shuffledp.sealed.task import Task
from shuffledp.studio.collecting import Place, connect, progress
from shuffledp.studio.trial import Trial

MOST_BATCHES = 20


class Running:
    """The task that is collected, where, and the trial behind it if there is one. Its methods wait
    for servers: they are called in threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._trial: Trial | None = None
        self._collection: tuple[Place, Task] | None = None

    def start_trial(self, asked: Mapping[str, Any], plan: str) -> None:
        """Starts servers and devices on this machine; what ran before is stopped."""
        batches = whole(asked.get("batches"), "batches", most=MOST_BATCHES)
        with self._turn:
            self._stop()
            trial = self._trial = Trial(plan, str(asked.get("name", "")), batches, _noise(asked))
            try:
                self._collection = trial.start()
            except BaseException:
                self._stop()
                raise

    def connect(self, asked: Mapping[str, Any]) -> None:
        """Registers a task at servers that run somewhere, and watches it."""
        with self._turn:
            found = connect(asked, str(asked.get("plan", "")), _noise(asked))
            self._stop()
            self._collection = found

    def progress(self) -> dict[str, Any]:
        """How far the collection is; {} if there is none."""
        with self._turn:
            if self._collection is None:
                return {}
            found = progress(*self._collection)
            place, task = self._collection
            found |= {"shuffler": place.shuffler, "analyzer": place.analyzer}
            found["report_bytes"], found["rmse"] = task.report_bytes, task.forecast_rmse()
            if self._trial is not None:
                trial = self._trial
                sent = {"devices": trial.devices, "sent": trial.sent, "problem": trial.problem}
                found["trial"] = sent
            return found

    def published(self) -> list[dict[str, Any]]:
        """All results that were published so far."""
        published: list[dict[str, Any]] = self.progress().get("published", [])
        return published

    def stop(self) -> None:
        """Stops a trial, or stops watching."""
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
