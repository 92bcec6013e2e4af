"""The states of the analyzer's encryption keys, as the shuffler knows them."""

from __future__ import annotations

import contextlib

import httpx2

from shuffledp.service.answers import answer_json, bounded_request_async
from shuffledp.service.http.problems import Problem
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.task import Task

MOST_KEYS_BYTES = 16 << 20


class AnalyzerKeys:
    """The states of the analyzer's keys, polled regularly."""

    def __init__(self, analyzer: httpx2.AsyncClient) -> None:
        self._analyzer = analyzer
        self._states: dict[PublicKey, str] = {}

    async def learn(self) -> None:
        """Asks the analyzer for the states of its keys; if it does not answer, the last known
        states stay."""
        with contextlib.suppress(httpx2.HTTPError, ValueError, KeyError, TypeError, TaskError):
            answer = await bounded_request_async(
                self._analyzer, "GET", "/keys", MOST_KEYS_BYTES, timeout=10
            )
            keys = answer_json(answer)["keys"]
            found = {PublicKey.from_dict(key): str(key["state"]) for key in keys}
            self._states = dict.fromkeys(self._states, "destroyed") | found

    def state(self, key: PublicKey) -> str:
        """The last known state of a key; active if nothing is known."""
        return self._states.get(key, "active")

    async def check(self, task: Task) -> None:
        """Refuses a new task unless exactly its key is an active key of the analyzer."""
        await self.learn()
        state = self._states.get(task.key)
        if not self._states:
            raise Problem(
                503,
                "analyzer-away",
                "The analyzer did not return its keys; register the task again later.",
                retry_after=10,
            )
        if state is None:
            raise Problem(
                422,
                "key-unknown",
                "The task's key is not one of the analyzer's keys, so nothing could be opened; "
                "make the task with the key that `shuffledp keys show` prints.",
            )
        if state != "active":
            raise Problem(
                410, "key-retired", "The task's key is retired; make the task with a newer key."
            )
