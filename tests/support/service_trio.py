"""A collector, a shuffler and an analyzer in one program, joined without sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from described_answers import described_by
from logged_tasks import KEYS

from shuffledp.queries.count.planner import plan_count
from shuffledp.service.analyzer import publishing
from shuffledp.service.analyzer.app import Analyzer
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.store import AnalyzerStore, StoredBatch
from shuffledp.service.client.collector import signature_headers
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.shuffler import delivery
from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.service.tokens import EACH_PREFIX, new_token, token_hash
from shuffledp.tasks.clock import system_clock
from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.keys import KeyFolder, PrivateKey
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import Upload, plain_numbers

publishing.TRY_AGAIN_SECONDS, delivery.LOOK_AGAIN_SECONDS = 0.5, 0.2  # servers in this process

USERS = 20
MADE = system_clock()
"""When all tasks are made, so that equal ones have equal ids."""
TRUSTING = ClientPolicy(
    most_epsilon_per_task=Fraction(1000),
    most_epsilon_per_period=Fraction(1000),
    least_users=1,
    allow_repeat=True,
    allow_short_batches=True,
)
"""The policy of devices that answer every task: tests use few users."""
COUNTED: dict[bytes, str] = {}
"""The tallies that analyzers of this process have counted, by batch: they delete them."""
_count = AnalyzerStore.count


async def _count_and_tell(store: AnalyzerStore, batch: StoredBatch, tally: Tally) -> None:
    COUNTED[batch.id] = tally.to_json()
    await _count(store, batch, tally)


AnalyzerStore.count = _count_and_tell  # type: ignore[method-assign,assignment]
COLLECTOR, OPERATOR, DELIVERY = "collector-secret", "operator-secret", "delivery-secret"
ANALYZER_OPERATOR = "analyzer-operator-secret"


@cache
def small_plan(users: int = USERS, cell: str = "paper") -> dict[str, Any]:
    """The JSON of a cheap count: few messages, so that tests encrypt few."""
    return plan_count(users, 2, mse_overhead=2, cell=cell).to_dict()


def bearing(token: str) -> dict[str, str]:
    """The headers of a request that carries a token."""
    return {"Authorization": f"Bearer {token}"}


def as_collector(task_id: bytes) -> dict[str, str]:
    """The headers of the collector's request to register a task."""
    return bearing(COLLECTOR) | signature_headers(task_id, KEYS["collector"])


def sha(token: str) -> str:
    """A token's hash, as servers are configured with it."""
    return token_hash(token).hex()


class Trio:
    """Both servers, started, with clients to talk to them."""

    def __init__(self, folder: Path, stores: dict[str, str] | None = None, **shuffler: Any) -> None:
        self.folder = folder
        self.seconds_ahead = 0.0
        """By how much the servers' clocks run ahead."""
        stores = stores or {role: f"sqlite:{folder}/{role}.db" for role in ("shuffler", "analyzer")}
        self.keys = KeyFolder(folder / "keys")
        if not self.keys.all():
            self.keys.new()
        self.analyzer_config = AnalyzerConfig(
            store=stores["analyzer"],
            spool=f"{folder}/analyzer",
            keys=f"{folder}/keys",
            collector_token_sha256=sha(COLLECTOR),
            shuffler_token_sha256=sha(DELIVERY),
            operator_token_sha256=sha(ANALYZER_OPERATOR),
            ledger=f"{folder}/ledger.json",
            budget="1000",
            workers=1,
        )
        self.shuffler_config = ShufflerConfig(
            store=stores["shuffler"],
            spool=f"{folder}/shuffler",
            analyzer="http://analyzer",
            collector_token_sha256=sha(COLLECTOR),
            operator_token_sha256=sha(OPERATOR),
            deliver_token=DELIVERY,
            **{"retry_seconds": 1, **shuffler},
        )

    def newest_key(self) -> PrivateKey:
        """The key of the tasks that are made now."""
        return self.keys.all()[-1]

    def clock(self) -> float:
        """The servers' time."""
        return system_clock() + self.seconds_ahead

    def task(
        self, name: str = "test", users: int = USERS, cell: str = "paper", **options: Any
    ) -> Task:
        """A task under the newest key; `batch` holds settings of its rule."""
        rule = BatchRule(**{"reports": users, **options.pop("batch", {})})
        key = self.newest_key().public
        options.setdefault("clock", lambda: MADE)
        return Task.create(small_plan(users, cell), key, name, rule, **options)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Trio]:
        """Both servers while they run."""
        async with self.analyzer_running(), self.shuffler_running():
            yield self

    @contextlib.asynccontextmanager
    async def analyzer_running(self) -> AsyncIterator[None]:
        """The analyzer while it runs."""
        self.analyzer = Analyzer(self.analyzer_config, self.clock)
        self.analyzer_transport = httpx2.ASGITransport(self.analyzer.app())
        await self.analyzer.start()
        try:
            async with httpx2.AsyncClient(
                transport=self.analyzer_transport,
                base_url="http://analyzer",
                timeout=60,
                event_hooks={"response": [described_by(self.analyzer)]},
            ) as self.to_analyzer:
                yield
        finally:
            await self.analyzer.stop()

    @contextlib.asynccontextmanager
    async def shuffler_running(
        self, transport: httpx2.AsyncBaseTransport | None = None
    ) -> AsyncIterator[None]:
        """The shuffler while it runs; `transport` carries its requests to the analyzer."""
        self.shuffler = Shuffler(
            self.shuffler_config, transport or self.analyzer_transport, self.clock
        )
        self.shuffler_app = self.shuffler.app()
        await self.shuffler.start()
        try:
            async with httpx2.AsyncClient(
                transport=httpx2.ASGITransport(self.shuffler_app),
                base_url="http://shuffler",
                timeout=60,
                event_hooks={"response": [described_by(self.shuffler)]},
            ) as self.to_shuffler:
                yield
        finally:
            await self.shuffler.stop()

    async def register(self, task: Task) -> None:
        """Registers a task at both servers."""
        for server in (self.to_analyzer, self.to_shuffler):
            path, body = f"/tasks/{task.id.hex()}", task.canonical()
            for _ in range(20):  # a busy server asks to try again
                answer = await server.put(path, content=body, headers=as_collector(task.id))
                if answer.status_code != 503:
                    break
                await asyncio.sleep(answer.json()["retry_after"])
            assert answer.status_code in (200, 201), answer.text

    async def enrol(self, count: int = 1, prefix: str = EACH_PREFIX) -> list[str]:
        """Fresh tokens, enrolled at the shuffler."""
        tokens = [new_token(prefix) for _ in range(count)]
        answer = await self.to_shuffler.post(
            "/tokens", json={"sha256": [sha(token) for token in tokens]}, headers=bearing(OPERATOR)
        )
        assert answer.status_code == 201, answer.text
        return tokens

    async def post(self, task: Task, body: bytes, token: str) -> httpx2.Response:
        """The shuffler's answer to an upload."""
        return await self.to_shuffler.post(
            f"/tasks/{task.id.hex()}/reports", content=body, headers=bearing(token)
        )

    async def upload(self, task: Task, values: Sequence[Any]) -> list[bytes]:
        """Uploads one report per value, each with a token of its own; gives the reports."""
        tokens = await self.enrol(len(values))
        bodies = [encrypt_report(task, value) for value in values]
        answers = await asyncio.gather(
            *(self.post(task, body, token) for body, token in zip(bodies, tokens, strict=True))
        )
        assert {answer.status_code for answer in answers} == {201}, answers[0].text
        return bodies

    async def status(self, task: Task) -> dict[str, Any]:
        """What the shuffler's status says about a task."""
        tasks: list[dict[str, Any]] = (
            await self.to_shuffler.get("/status", headers=bearing(OPERATOR))
        ).json()["tasks"]
        return next(one for one in tasks if one["task"] == task.id.hex())

    async def deleted(self, task: Task) -> dict[str, Any]:
        """The shuffler's status of a task, after its first batch was delivered and deleted."""
        for _ in range(1200):
            status = await self.status(task)
            if status["batches"] and status["batches"][0]["state"] == "deleted":
                break
            await asyncio.sleep(0.05)
        return status

    async def results(self, task: Task, count: int = 1, seconds: float = 60) -> list[Any]:
        """The published results of a task, after there are so many."""
        for _ in range(int(seconds / 0.05)):
            answer = await self.to_analyzer.get(f"/tasks/{task.id.hex()}/results")
            found: list[Any] = answer.json()["results"]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {count} results: {await self.status(task)} {answer.text}")


def known_report(task: Task, value: int) -> tuple[bytes, int, int]:
    """An encrypted report, and how many +1 and −1 are inside: what only the test may know."""
    report = task.protocol.randomize(value)
    numbers = plain_numbers(report.messages(), task.report_size).tolist()
    body = Upload(
        task_id=task.id,
        report_id=os.urandom(16),
        key_id=task.key.key_id,
        messages=encrypt_all(numbers, task.key, task.id),
    ).to_bytes()
    return body, int(report.plus.sum()), int(report.minus.sum())
