"""Batches without their noise, made-up batches, and foreign keys: never published."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_deliveries import batch_of, deliver, made_reports, stored_tally
from service_states import batches_of, settled
from service_trio import (
    COLLECTOR,
    USERS,
    Trio,
    as_collector,
    bearing,
    small_plan,
)

from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES

Walk = Callable[[Trio, Task], Awaitable[None]]


def run_trio(
    folder: Path, walk: Walk, *, analyzer: dict[str, Any] | None = None, **task: Any
) -> None:
    """Runs `walk` with both servers and a registered task."""

    async def run() -> None:
        trio = Trio(folder)
        trio.analyzer_config = replace(trio.analyzer_config, **(analyzer or {}))
        async with trio.running():
            made = trio.task(**task)
            await trio.register(made)
            await walk(trio, made)

    asyncio.run(run())


def charged(folder: Path) -> int:
    """How many lines the analyzer's ledger has."""
    file = folder / "ledger.json"
    return len(json.loads(file.read_text())["entries"]) if file.exists() else 0


@pytest.mark.attack("one real report among 99 of random bytes")
def test_one_report_among_junk_is_never_published(tmp_path: Path, scale: int) -> None:
    users, tries = 100 if scale > 1 else 20, 12

    async def walk(trio: Trio, task: Task) -> None:
        for attempt in range(tries):
            (real,), _, _ = made_reports(task, 1, attempt % 2)
            junk = os.urandom((users - 1) * task.report_size * MESSAGE_BYTES)
            batch, body = batch_of(task, real + junk, reports=users)
            assert (await deliver(trio, batch, body)).status_code == 201
        found = await settled(trio, task, tries, 90)
        assert {one["state"] for one in found} == {"held"}
        assert all("noise" in one["reason"] for one in found)
        page = (await trio.to_analyzer.get("/")).text
        assert "shares of noise" in page
        assert (await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results")).json()[
            "results"
        ] == []
        assert charged(tmp_path) == 0

    run_trio(tmp_path, walk, users=users)


def test_a_batch_of_honest_reports_is_published(tmp_path: Path) -> None:
    """The twin: nothing is bad, so it is published and charged once."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        assert (await deliver(trio, batch, body)).status_code == 201
        (found,) = await settled(trio, task)
        assert (found["state"], found.get("reason", "")) == ("published", "")
        assert charged(tmp_path) == 1

    run_trio(tmp_path, walk)


@pytest.mark.attack("bad messages beyond a batch's slack")
def test_as_many_bad_messages_as_the_slack_are_tolerated_and_no_more(tmp_path: Path) -> None:
    slack = 5

    async def walk(trio: Trio, task: Task) -> None:
        for bad in (slack, slack + 1):
            messages, _, _ = made_reports(task, USERS + slack)
            joined = bytearray(b"".join(messages))
            for number in range(bad):  # one in every report: the worst that so many can do
                start = number * task.report_size * MESSAGE_BYTES
                joined[start : start + MESSAGE_BYTES] = os.urandom(MESSAGE_BYTES)
            batch, body = batch_of(task, bytes(joined), reports=USERS + slack)
            assert (await deliver(trio, batch, body)).status_code == 201
        first, second = await settled(trio, task, 2)
        assert (first["state"], second["state"]) == ("published", "held")
        (result,) = await trio.results(task)
        assert result["dropped"] == {"replayed": 0, "unopened": slack, "malformed": 0}

    run_trio(tmp_path, walk, batch={"reports": USERS + slack})


@pytest.mark.attack("a shuffler restored from a backup sends reports again")
def test_a_batch_with_reports_that_were_counted_is_held(tmp_path: Path) -> None:
    """As the analyzer sees it: 15 of 20 reports were in a batch before."""

    async def walk(trio: Trio, task: Task) -> None:
        old, _, _ = made_reports(task)
        fresh, _, _ = made_reports(task, 5)
        for messages in (old, old[:15] + fresh):
            batch, body = batch_of(task, b"".join(messages))
            assert (await deliver(trio, batch, body)).status_code == 201
        first, second = await settled(trio, task, 2)
        assert (first["state"], second["state"]) == ("published", "held")
        assert "copies" in second["reason"] and charged(tmp_path) == 1

    run_trio(tmp_path, walk)


@pytest.mark.attack("a shuffler restored from a backup sends reports again")
def test_a_restored_shuffler_does_not_publish_old_reports(tmp_path: Path) -> None:
    """All of the shuffler's state is restored to a time before its batch was delivered."""
    backup = tmp_path / "backup"

    def state() -> list[Path]:
        return [file for file in tmp_path.glob("shuffler*") if file.suffix != ".log"]

    def copy(source: Path, folder: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, folder / source.name)
        else:
            shutil.copy(source, folder)

    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.analyzer_running():
            async with trio.shuffler_running():
                task = trio.task()
                await trio.register(task)
                await trio.upload(task, [1] * 15)
            backup.mkdir()
            for file in state():
                copy(file, backup)
            async with trio.shuffler_running():
                await trio.upload(task, [1] * 5)
                await trio.results(task)
                await trio.deleted(task)
            for file in state():
                shutil.rmtree(file) if file.is_dir() else file.unlink()
            for file in backup.iterdir():
                copy(file, tmp_path)
            async with trio.shuffler_running():
                await trio.upload(task, [1] * 5)
                for _ in range(1200):
                    (status,) = (await trio.status(task))["batches"] or [{"problem": ""}]
                    if status["problem"] or len(await batches_of(trio, task)) > 1:
                        break
                    await asyncio.sleep(0.05)
            # refused as another batch of the same id, or held for its copies
            states = [one["state"] for one in await batches_of(trio, task)]
            assert states in (["published"], ["published", "held"])
            assert (status["problem"], charged(tmp_path)) == ("HTTP 409", 1)

    asyncio.run(run())


@pytest.mark.attack("one report copied twenty times")
@pytest.mark.parametrize("sort", [True, False])
def test_copies_of_one_report_are_not_published(tmp_path: Path, sort: bool) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task, 1)
        batch, body = batch_of(task, messages[0] * USERS, sort=sort)
        assert (await deliver(trio, batch, body)).status_code == 201
        (found,) = await settled(trio, task)
        assert found["state"] == "held"
        tally = await stored_tally(trio, batch)
        assert tally["dropped"]["replayed"] == (USERS - 1) * task.report_size
        assert charged(tmp_path) == 0

    run_trio(tmp_path, walk)


async def register_answers(trio: Trio, task: Task) -> list[tuple[int, str]]:
    """What both servers answer to a task."""
    answers: list[httpx2.Response] = [
        await server.put(
            f"/tasks/{task.id.hex()}", content=task.canonical(), headers=as_collector(task.id)
        )
        for server in (trio.to_shuffler, trio.to_analyzer)
    ]
    return [(one.status_code, one.json().get("type", "")) for one in answers]


@pytest.mark.attack("a task with a foreign public key")
def test_tasks_with_foreign_keys_are_refused_by_both(tmp_path: Path) -> None:
    async def walk(trio: Trio, honest: Task) -> None:
        stranger = KeyFolder(tmp_path / "other").new().public  # the same number and epoch
        assert (stranger.key_id, stranger.epoch) == (honest.key.key_id, honest.key.epoch)
        unknown = replace(honest.key, key_id=7, epoch=7)  # the analyzer's bytes, another number
        for key in (stranger, unknown, replace(stranger, key_id=9)):
            task = Task.create(small_plan(), key, "foreign")
            refused = "urn:shuffledp:problem:key-unknown"
            assert await register_answers(trio, task) == [(422, refused)] * 2
        assert [code for code, _ in await register_answers(trio, honest)] == [200, 200]  # the twin

    run_trio(tmp_path, walk)


@pytest.mark.attack("messages that no honest client sends (−1 in a bounded cell)")
def test_minus_messages_of_bounded_cells_are_malformed(tmp_path: Path) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        honest, _, _ = made_reports(task, USERS)
        minus = encrypt_all([0], task.key, task.id)
        joined = minus + b"".join(honest)[MESSAGE_BYTES:]
        batch, body = batch_of(task, joined)
        assert (await deliver(trio, batch, body)).status_code == 201
        (found,) = await settled(trio, task)
        tally = await stored_tally(trio, batch)
        assert (tally["minus"], tally["dropped"]["malformed"]) == ([0], 1)
        assert found["state"] == "held"

    run_trio(tmp_path, walk, cell="bounded")


def implausible_batch(task: Task) -> bytes:
    """Honest reports, and some clients that send −1 only."""
    bad = [encrypt_all([0] * task.report_size, task.key, task.id) for _ in range(8)]
    honest, _, _ = made_reports(task, USERS - len(bad))
    return b"".join([*honest, *bad])


@pytest.mark.attack("a total that honest clients do not send")
@pytest.mark.parametrize("rule", ["hold", "mark"])
def test_implausible_totals_are_held_or_marked(tmp_path: Path, rule: str) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        batch, body = batch_of(task, implausible_batch(task))
        assert (await deliver(trio, batch, body)).status_code == 201
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        assert (await deliver(trio, batch, body)).status_code == 201
        odd, honest = await settled(trio, task, 2)
        assert (odd["state"], honest["state"]) == (
            "held" if rule == "hold" else "published",
            "published",
        )
        results = await trio.results(task)
        marks = [result["implausible"] for result in results]
        assert marks == ([False] if rule == "hold" else [True, False])
        assert charged(tmp_path) == 2  # that a batch is held tells something, so it is paid for

    run_trio(tmp_path, walk, analyzer={"implausible": rule}, cell="paper")


@pytest.mark.attack("a batch that must not be published is kept or retried forever")
def test_held_batches_are_discarded_with_a_reason(tmp_path: Path) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        from service_trio import ANALYZER_OPERATOR

        messages, _, _ = made_reports(task, 1)
        batch, body = batch_of(task, messages[0] * USERS)
        assert (await deliver(trio, batch, body)).status_code == 201
        await settled(trio, task)
        url, reason = f"/batches/{batch.hex()}/discard", {"reason": "the shuffler was restored"}
        for token, sent, code in (
            (COLLECTOR, reason, 403),
            (ANALYZER_OPERATOR, {}, 422),
            (ANALYZER_OPERATOR, {"reason": "a\x1b[1m"}, 422),
            (ANALYZER_OPERATOR, reason, 200),
        ):
            answer = await trio.to_analyzer.post(url, json=sent, headers=bearing(token))
            assert answer.status_code == code
        (found,) = await settled(trio, task)
        assert (found["state"], found["reason"]) == ("discarded", reason["reason"])
        stored = await trio.analyzer.store.find(batch)
        assert stored is not None and stored.tally is None
        assert (await deliver(trio, batch, body)).json() == {"state": "discarded"}
        honest, _, _ = made_reports(task)  # the twin: a published batch is not discarded
        batch, body = batch_of(task, b"".join(honest))
        assert (await deliver(trio, batch, body)).status_code == 201
        await trio.results(task)
        answer = await trio.to_analyzer.post(
            f"/batches/{batch.hex()}/discard", json=reason, headers=bearing(ANALYZER_OPERATOR)
        )
        assert answer.status_code == 409

    run_trio(tmp_path, walk)
