"""One batch has one published result, whatever is killed, retried or restored from a backup."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_deliveries import batch_of, deliver, made_reports
from service_states import batches_of, settled, waiting_with_reason
from service_trio import ANALYZER_OPERATOR, USERS, Trio, bearing

from shuffledp.release.ledger import Ledger
from shuffledp.service.analyzer.publishing import Publishing
from shuffledp.service.analyzer.store import AnalyzerStore
from shuffledp.tasks.errors import BatchHeld
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.results import OpenedBatch, publish_batch
from shuffledp.tasks.task import Task

AGAIN = 9
DRAWS = 120
"""This many draws are all equal about once in 10¹³ runs: the most likely one has 76 %."""


@asynccontextmanager
async def analyzer(trio: Trio) -> AsyncIterator[None]:
    async with trio.analyzer_running():
        yield


async def counted(trio: Trio, patch: pytest.MonkeyPatch, cell: str = "bounded") -> Task:
    """A task with one batch that waits as counted: publishing fails."""

    async def away(*_: object) -> None:
        raise RuntimeError("away")

    task = trio.task(cell=cell, publish_noise="full")
    with patch.context() as failing:
        failing.setattr(Publishing, "_publish", away)
        async with trio.running():
            await trio.register(task)
            messages, _, _ = made_reports(task)
            batch, body = batch_of(task, b"".join(messages))
            assert (await deliver(trio, batch, body)).status_code == 201
            waiting = await waiting_with_reason(trio, task)
            assert waiting["state"] == "counted"
    return task


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Trio, Task]:
    """Servers that are stopped, and the task whose one batch waits there as counted."""
    trio = Trio(tmp_path)
    return trio, asyncio.run(counted(trio, monkeypatch))


def copy_store(folder: Path, name: str) -> None:
    (folder / name).mkdir()
    for file in folder.glob("analyzer.db*"):
        shutil.copy(file, folder / name / file.name)


def put_back(folder: Path, name: str) -> None:
    for file in folder.glob("analyzer.db*"):
        file.unlink()
    for file in (folder / name).iterdir():
        shutil.copy(file, folder / file.name)


async def published(trio: Trio, task: Task) -> dict[str, Any]:
    async with analyzer(trio):
        (found,) = await settled(trio, task)
        assert found["state"] == "published", found
        answer = await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results")
        result: dict[str, Any] = answer.json()["results"][0]
        return result


@pytest.mark.attack("one batch, many results: a counted batch restored from a backup")
def test_a_counted_batch_that_is_put_back_is_published_with_the_same_noise(
    tmp_path: Path, stopped: tuple[Trio, Task]
) -> None:
    trio, task = stopped
    copy_store(tmp_path, "backup")
    found = []
    for _ in range(AGAIN):
        found.append(asyncio.run(published(trio, task)))
        put_back(tmp_path, "backup")
    assert all(one == found[0] for one in found)
    assert found[0]["result"]["certificate"] == json.loads(json.dumps(task.certificate))
    (entry,) = Ledger(trio.analyzer_config.ledger).entries()
    assert entry.epsilon == task.protocol.epsilon
    assert entry.result is not None
    assert entry.result["result"]["estimate"] == found[0]["result"]["estimate"]


@pytest.mark.attack("one batch, many results: store and ledger restored to the same earlier time")
@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_a_ledger_that_is_put_back_with_the_store_publishes_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: str
) -> None:
    """`test_two_batches_have_different_noise` is the twin."""
    trio = Trio(tmp_path)
    task = asyncio.run(counted(trio, monkeypatch, cell))
    copy_store(tmp_path, "backup")
    ledger = Ledger.create(trio.analyzer_config.ledger, trio.analyzer_config.budget).path
    before = ledger.read_bytes()
    found = []
    for _ in range(AGAIN):
        assert not Ledger(ledger).entries()
        found.append(asyncio.run(published(trio, task)))
        put_back(tmp_path, "backup")
        ledger.write_bytes(before)
    assert all(one == found[0] for one in found)


@pytest.mark.attack("the publish noise of a batch whose key was destroyed or is missing")
def test_a_batch_is_not_published_without_its_key(
    tmp_path: Path, stopped: tuple[Trio, Task]
) -> None:
    trio, task = stopped
    copy_store(tmp_path, "backup")
    file = next((tmp_path / "keys").glob("key-*.json"))
    away = file.rename(tmp_path / file.name)

    async def waits() -> dict[str, Any]:
        async with analyzer(trio):
            return await waiting_with_reason(trio, task)

    waiting = asyncio.run(waits())
    assert waiting["state"] == "counted" and "key is missing" in waiting["problem"]
    assert not Ledger(trio.analyzer_config.ledger).entries()
    away.rename(file)
    first = asyncio.run(published(trio, task))

    async def again() -> dict[str, Any]:
        async with analyzer(trio):
            (found,) = await settled(trio, task)
            return found

    put_back(tmp_path, "backup")
    trio.keys.destroy(task.key.key_id)
    assert asyncio.run(published(trio, task)) == first  # the ledger has it
    put_back(tmp_path, "backup")
    Path(trio.analyzer_config.ledger).unlink()
    held = asyncio.run(again())
    assert held["state"] == "held" and "destroyed" in held["reason"]
    assert not Ledger(trio.analyzer_config.ledger).entries()


@pytest.mark.parametrize("cell", ["bounded", "paper"])
def test_two_batches_have_different_noise(tmp_path: Path, cell: str) -> None:
    """The twin: what the other tests compare does differ between batches with the same contents."""
    trio = Trio(tmp_path)
    task = trio.task(cell=cell, publish_noise="full")
    report = task.protocol.aggregate(np.repeat([0, 1], USERS // 2))
    tally, found = Tally(report.plus, report.minus), set()
    for number in range(1, DRAWS + 1):
        batch = OpenedBatch(
            id=number.to_bytes(16), number=number, reports=USERS, noise_shares=USERS, tally=tally
        )
        result = publish_batch(task, batch, key=trio.newest_key, ledger=None, confidence=0.95)
        found.add(result["result"]["estimate"])
    assert len(found) > 1


@pytest.mark.attack("one batch, many results: killed between the ledger and the store")
def test_a_kill_after_the_charge_publishes_what_the_ledger_holds(
    stopped: tuple[Trio, Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    trio, task = stopped

    async def killed(*_: object) -> None:
        raise RuntimeError("killed")

    async def charged_only() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(AnalyzerStore, "publish", killed)
            async with analyzer(trio):
                await waiting_with_reason(trio, task)

    for _ in range(2):
        asyncio.run(charged_only())
    (entry,) = Ledger(trio.analyzer_config.ledger).entries()
    assert entry.result is not None
    shown = asyncio.run(published(trio, task))
    kept = {**shown, "result": {**shown["result"], "certificate": None}}
    assert entry.result == kept


@pytest.mark.attack("the tally without publish noise, read after the result is published")
def test_the_tally_is_gone_when_the_result_is_there(stopped: tuple[Trio, Task]) -> None:
    trio, task = stopped

    async def look() -> list[tuple[str, str | None]]:
        async with analyzer(trio):
            await settled(trio, task)
            return [(one.state, one.tally) for one in await trio.analyzer.store.batches()]

    assert asyncio.run(look()) == [("published", None)]


@pytest.mark.attack("one batch, many results: a line of the ledger without its result")
def test_a_line_without_a_result_holds_the_batch(
    tmp_path: Path, stopped: tuple[Trio, Task]
) -> None:
    trio, task = stopped
    copy_store(tmp_path, "backup")
    asyncio.run(published(trio, task))
    ledger = Ledger(trio.analyzer_config.ledger)
    (entry,) = ledger.entries()
    ledger.forget([entry.what])
    put_back(tmp_path, "backup")

    async def again() -> dict[str, Any]:
        async with analyzer(trio):
            (found,) = await settled(trio, task)
            return found

    found = asyncio.run(again())
    assert found["state"] == "held" and "second time" in found["reason"]
    assert len(ledger.entries()) == 1


@pytest.mark.attack("one batch, many results: a ledger that was restored from the store")
def test_a_restored_ledger_knows_the_results(tmp_path: Path, stopped: tuple[Trio, Task]) -> None:
    trio, task = stopped
    copy_store(tmp_path, "backup")
    first = asyncio.run(published(trio, task))
    Path(trio.analyzer_config.ledger).unlink()

    async def restored() -> None:
        async with analyzer(trio):
            answer = await trio.to_analyzer.post(
                "/ledger/restore", headers=bearing(ANALYZER_OPERATOR)
            )
            assert answer.json() == {"lines": 1}

    asyncio.run(restored())
    put_back(tmp_path, "backup")
    assert asyncio.run(published(trio, task)) == first


@pytest.mark.attack("a ledger with edited or removed entries and recomputed hashes")
def test_a_rewritten_ledger_stops_publishing(stopped: tuple[Trio, Task]) -> None:
    trio, task = stopped
    asyncio.run(published(trio, task))
    path = Path(trio.analyzer_config.ledger)
    kept = Ledger(path).read()
    path.unlink()
    forged = Ledger.create(path, kept.budget)
    for entry in kept.entries:  # the same lines and ε, another result
        assert entry.result is not None
        inner = {**entry.result["result"], "estimate": 0.0}
        forged.spend_once(entry.epsilon, entry.what, {**entry.result, "result": inner})
    assert forged.verify() != kept.last

    async def next_batch() -> dict[str, Any]:
        async with analyzer(trio):
            messages, _, _ = made_reports(task)
            batch, body = batch_of(task, b"".join(messages))
            assert (await deliver(trio, batch, body)).status_code == 201
            await waiting_with_reason(trio, task)
            return (await batches_of(trio, task))[-1]

    waiting = asyncio.run(next_batch())
    assert waiting["state"] == "counted" and "was rewritten" in waiting["problem"]


@pytest.mark.attack("one batch, many results: a batch job that is run again and again")
def test_a_job_that_is_run_again_gives_the_same_result(tmp_path: Path) -> None:
    """What the analyzer and Spark's `open_batch` call; confidence and tally change."""
    trio = Trio(tmp_path)
    task = trio.task(publish_noise="full")
    ledger = Ledger.create(tmp_path / "budget.json", 100)

    def opened(ones: int) -> OpenedBatch:
        report = task.protocol.aggregate(np.repeat([0, 1], [USERS - ones, ones]))
        tally = Tally(report.plus, report.minus)
        return OpenedBatch(id=bytes(16), number=1, reports=USERS, noise_shares=USERS, tally=tally)

    found = [
        publish_batch(task, opened(ones), key=trio.newest_key, ledger=ledger, confidence=confidence)
        for ones, confidence in ((3, 0.95), (3, 0.95), (3, 0.5), (USERS, 0.95))
    ]
    assert all(one == found[0] for one in found) and ledger.spent() == task.protocol.epsilon
    again = [
        publish_batch(task, opened(3), key=trio.newest_key, ledger=None, confidence=0.95)
        for _ in range(DRAWS)
    ]  # the twin: without a ledger, other contents have other results
    assert len({one["result"]["estimate"] for one in again}) > 1


@pytest.mark.attack("a batch that was held as implausible, judged again with other contents")
def test_a_held_batch_is_held_again(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    task = trio.task(publish_noise="full")
    ledger = Ledger.create(tmp_path / "budget.json", 100)
    report = task.protocol.aggregate(np.ones(USERS, np.int64))
    tally = Tally(report.plus, report.minus + 10_000)
    batch = OpenedBatch(id=bytes(16), number=1, reports=USERS, noise_shares=USERS, tally=tally)
    for _ in range(3):
        with pytest.raises(BatchHeld, match="implausible"):
            publish_batch(
                task,
                batch,
                key=trio.newest_key,
                ledger=ledger,
                confidence=0.95,
                implausible_rule="hold",
            )
        batch = replace(batch, tally=Tally(report.plus, report.minus))  # plausible by now
    assert len(ledger.entries()) == 1
