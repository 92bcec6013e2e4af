"""A collector, a shuffler and an analyzer in one program, joined without sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from shuffledp.planning.counting import plan_count
from shuffledp.sealed.encryption import KeyFolder, encrypt_all
from shuffledp.sealed.task import BatchRule, Task
from shuffledp.sealed.tokens import EACH, new_token, token_hash
from shuffledp.sealed.wire import Upload, plain_numbers
from shuffledp.service.analyzer.app import Analyzer
from shuffledp.service.client.sending import encrypt_report
from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.web.config import AnalyzerConfig, ShufflerConfig

USERS = 20
COLLECTOR, OPERATOR, DELIVERY = "collector-secret", "operator-secret", "delivery-secret"


@cache
def small_plan(users: int = USERS) -> dict[str, Any]:
    """A cheap count: few messages, so that tests seal few."""
    return plan_count(users, 2, mse_overhead=2).to_dict()


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sha(token: str) -> str:
    return token_hash(token).hex()


class Trio:
    """Both servers, started, with clients to talk to them."""

    def __init__(self, folder: Path, stores: dict[str, str] | None = None, **shuffler: Any) -> None:
        self.folder = folder
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

    def task(self, name: str = "test", users: int = USERS, **options: Any) -> Task:
        rule = BatchRule(**{"reports": users, **options.pop("batch", {})})
        key = self.keys.all()[-1].public
        return Task.create(small_plan(users), key, name, rule, **options)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Trio]:
        async with self.analyzer_running(), self.shuffler_running():
            yield self

    @contextlib.asynccontextmanager
    async def analyzer_running(self) -> AsyncIterator[None]:
        self.analyzer = Analyzer(self.analyzer_config)
        self._analyzer_transport = httpx.ASGITransport(self.analyzer.app())
        await self.analyzer.start()
        try:
            async with httpx.AsyncClient(
                transport=self._analyzer_transport, base_url="http://analyzer", timeout=60
            ) as self.to_analyzer:
                yield
        finally:
            await self.analyzer.stop()

    @contextlib.asynccontextmanager
    async def shuffler_running(self, transport: Any = None) -> AsyncIterator[None]:
        self.shuffler = Shuffler(self.shuffler_config, transport or self._analyzer_transport)
        self.shuffler_transport = httpx.ASGITransport(self.shuffler.app())
        await self.shuffler.start()
        try:
            async with httpx.AsyncClient(
                transport=self.shuffler_transport, base_url="http://shuffler", timeout=60
            ) as self.to_shuffler:
                yield
        finally:
            await self.shuffler.stop()

    async def register(self, task: Task) -> None:
        for server in (self.to_shuffler, self.to_analyzer):
            answer = await server.put(
                f"/tasks/{task.id.hex()}", content=task.canonical(), headers=bearing(COLLECTOR)
            )
            assert answer.status_code in (200, 201), answer.text

    async def enrol(self, count: int = 1, prefix: str = EACH) -> list[str]:
        tokens = [new_token(prefix) for _ in range(count)]
        answer = await self.to_shuffler.post(
            "/tokens", json={"sha256": [sha(token) for token in tokens]}, headers=bearing(OPERATOR)
        )
        assert answer.status_code == 201, answer.text
        return tokens

    async def post(self, task: Task, body: bytes, token: str) -> httpx.Response:
        return await self.to_shuffler.post(
            f"/tasks/{task.id.hex()}/reports", content=body, headers=bearing(token)
        )

    async def upload(self, task: Task, values: list[Any]) -> list[bytes]:
        """One enrolled client per value; the bodies that were sent."""
        tokens = await self.enrol(len(values))
        bodies = [encrypt_report(task, value) for value in values]
        answers = await asyncio.gather(
            *(self.post(task, body, token) for body, token in zip(bodies, tokens, strict=True))
        )
        assert {answer.status_code for answer in answers} == {201}, answers[0].text
        return bodies

    async def status(self, task: Task) -> dict[str, Any]:
        tasks = (await self.to_shuffler.get("/status")).json()["tasks"]
        return next(one for one in tasks if one["task"] == task.id.hex())

    async def results(self, task: Task, count: int = 1, seconds: float = 30) -> list[Any]:
        """The results, once there are so many."""
        for _ in range(int(seconds / 0.05)):
            answer = await self.to_analyzer.get(f"/tasks/{task.id.hex()}/results")
            if len(answer.json()["results"]) >= count:
                return answer.json()["results"]
            await asyncio.sleep(0.05)
        raise AssertionError(f"no {count} results: {await self.status(task)} {answer.text}")


def known_report(task: Task, value: Any) -> tuple[bytes, int, int]:
    """A sealed report, and how many +1 and −1 are inside: what only the test may know."""
    report = task.protocol.randomize(value)
    messages = report.messages()
    plain = plain_numbers(messages, task.report_size)
    sealed = encrypt_all(plain.tolist(), task.key, task.id)
    body = Upload(task.id, os.urandom(16), task.key.key_id, sealed).to_bytes()
    return body, int(report.plus.sum()), int(report.minus.sum())
