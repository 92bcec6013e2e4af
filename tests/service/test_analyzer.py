"""The analyzer: replays, deliveries, what is published."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import service_deliveries
from service_deliveries import (
    batch_of,
    deliver,
    made_reports,
    send_manifest,
    send_part,
    stored_tally,
)
from service_states import settled, waiting_with_reason
from service_trio import COLLECTOR, USERS, Trio

from shuffledp import plan_histogram, plan_quantiles, plan_real_sum
from shuffledp.documents import files
from shuffledp.service.analyzer import receiving
from shuffledp.service.analyzer.store import StoredBatch
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.problems import Problem
from shuffledp.tasks import parts
from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.errors import StateLost
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.results import result_lines
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES

Walk = Callable[[Trio, Task], Awaitable[None]]


def run_trio(tmp_path: Path, walk: Walk, stores: dict[str, str] | None = None) -> None:
    async def run() -> None:
        trio = Trio(tmp_path, stores)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await walk(trio, task)

    asyncio.run(run())


@pytest.mark.parametrize("sort", [True, False])
def test_a_shuffler_that_repeats_one_user_learns_nothing(
    tmp_path: Path, stores: dict[str, str], sort: bool
) -> None:
    """Copies in one batch are counted once, in whatever order they come."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task, 1)
        batch, body = batch_of(task, messages[0] * USERS, sort=sort)
        assert (await deliver(trio, batch, body)).status_code == 201
        assert [one["state"] for one in await settled(trio, task)] == ["held"]
        found = await stored_tally(trio, batch)
        assert found["dropped"]["replayed"] == (USERS - 1) * task.report_size
        assert found["plus"][0] + found["minus"][0] <= task.report_size

    run_trio(tmp_path, walk, stores)


def test_replays_across_batches_of_a_key_are_dropped(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        messages, plus, minus = made_reports(task)
        first, body = batch_of(task, b"".join(messages))
        assert (await deliver(trio, first, body)).status_code == 201
        fresh, more_plus, more_minus = made_reports(task, USERS - 2)
        second, body = batch_of(task, b"".join(fresh + messages[:2]))
        assert (await deliver(trio, second, body)).status_code == 201
        states = [one["state"] for one in await settled(trio, task, 2)]
        assert states == ["published", "held"]
        found = await stored_tally(trio, first)
        assert (found["plus"], found["minus"]) == ([plus], [minus])
        found = await stored_tally(trio, second)
        assert found["dropped"]["replayed"] == 2 * task.report_size
        assert (found["plus"], found["minus"]) == ([more_plus], [more_minus])
        other = trio.task("another task with the same key")
        await trio.register(other)
        third, body = batch_of(other, b"".join(messages))
        assert (await deliver(trio, third, body)).status_code == 201
        assert [one["state"] for one in await settled(trio, other)] == ["held"]
        found = await stored_tally(trio, third)
        assert found["dropped"]["replayed"] == USERS * task.report_size

    run_trio(tmp_path, walk, stores)


def test_a_batch_is_kept_once(tmp_path: Path, stores: dict[str, str]) -> None:
    """Idempotent PUT by (batch id, digest); another content under the same id is refused."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, plus, minus = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        statuses = [(await deliver(trio, batch, body)).status_code for _ in range(3)]
        assert statuses == [201, 200, 200]
        other, _, _ = made_reports(task)
        _, changed = batch_of(task, b"".join(other), batch)
        assert (await deliver(trio, batch, changed)).status_code == 409
        assert len(await trio.results(task)) == 1
        found = await stored_tally(trio, batch)
        assert (found["plus"], found["minus"]) == ([plus], [minus])
        ledger = json.loads((tmp_path / "ledger.json").read_text())
        assert len(ledger["entries"]) == 1

    run_trio(tmp_path, walk, stores)


def test_deliveries_that_are_refused(tmp_path: Path) -> None:
    """Only the shuffler delivers, and only batches that the task's rule allows."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task)
        joined = b"".join(messages)
        batch, body = batch_of(task, joined)
        assert (await deliver(trio, batch, body, "wrong")).status_code == 403
        assert (await deliver(trio, batch, body, COLLECTOR)).status_code == 403
        short, one_less = batch_of(task, b"".join(messages[:-1]), reports=USERS - 1)
        refused = await deliver(trio, short, one_less)
        assert refused.status_code == 422
        assert (refused.json()["have"], refused.json()["need"]) == (USERS - 1, USERS)
        _, lie = batch_of(task, b"".join(messages[:-1]), short)  # says USERS, holds one less
        assert (await deliver(trio, short, lie)).status_code == 413
        _, lie = batch_of(task, joined, batch, noise_shares=USERS + 1)
        assert (await deliver(trio, batch, lie)).status_code == 422
        _, lie = batch_of(task, joined + joined[:MESSAGE_BYTES], batch, top_up_messages=1)
        assert (await deliver(trio, batch, lie)).status_code == 422
        assert (await deliver(trio, batch, body, digest="0" * 64)).status_code == 422
        assert (await deliver(trio, batch, body, digest="zz")).status_code == 400
        assert (await deliver(trio, os.urandom(16), body)).status_code == 400
        text = body.manifest.to_bytes()
        assert (await send_manifest(trio, batch, b"short")).status_code == 400
        assert (await send_manifest(trio, batch, b" " + text)).status_code == 400
        assert (await send_manifest(trio, batch, text + b" " * (16 << 20))).status_code == 413
        stranger = text.replace(task.id.hex().encode(), task.id[::-1].hex().encode())
        assert (await send_manifest(trio, batch, stranger)).status_code == 404
        headers = {"X-Parts-Folder": "../../x", "X-Parts-Key": "0" * 64}
        assert (await send_manifest(trio, batch, text, **headers)).status_code == 400
        headers["X-Parts-Folder"] = f"{batch.hex()}/{'0' * 16}"
        assert (await send_manifest(trio, batch, text, **headers)).status_code == 422  # no bucket
        assert list((tmp_path / "analyzer").glob("*")) == []
        assert (await deliver(trio, batch, body)).status_code == 201

    run_trio(tmp_path, walk)


def test_a_delivery_goes_on_where_it_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts come in any order, twice, damaged, or from two shufflers; a batch that is not complete
    may be ordered again, a complete one may not."""
    monkeypatch.setattr(parts, "PART_ROWS", 16)
    monkeypatch.setattr(service_deliveries, "MOST_PART_BYTES", 16 * MESSAGE_BYTES)

    async def walk(trio: Trio, task: Task) -> None:
        messages, plus, minus = made_reports(task)
        joined = b"".join(messages)
        batch, first = batch_of(task, joined)
        _, unsorted = batch_of(task, joined, batch, sort=False)
        count = len(first.parts)
        assert count > 3
        early = await send_part(trio, first, 0, first.parts[0])
        assert early.status_code == 409  # no manifest yet
        answer = await send_manifest(trio, batch, first.manifest.to_bytes())
        assert (answer.status_code, answer.json()["missing"]) == (202, list(range(count)))
        wrong = await send_part(trio, first, 1, first.parts[0])
        assert wrong.status_code == 422
        for number in (2, 0, 2):
            sent = await send_part(trio, first, number, first.parts[number])
            assert sent.status_code == 201
        answer = await send_manifest(trio, batch, first.manifest.to_bytes())
        assert answer.json()["missing"] == [one for one in range(count) if one not in (0, 2)]
        # the shuffler's machine is gone, and another one has ordered the batch again
        assert (await deliver(trio, batch, unsorted)).status_code == 201
        late = await send_part(trio, first, 1, first.parts[1])
        assert late.status_code == 409
        assert (await deliver(trio, batch, first)).status_code == 409
        assert len(await trio.results(task)) == 1
        found = await stored_tally(trio, batch)
        assert (found["plus"], found["minus"]) == ([plus], [minus])
        assert not list((tmp_path / "analyzer").glob(f"{batch.hex()}*"))

    run_trio(tmp_path, walk)


def test_what_cannot_be_opened_or_understood_is_counted(tmp_path: Path) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        good, _, _ = made_reports(task, USERS - 3)
        stranger = KeyFolder(tmp_path / "other").new().public
        wrong_key = encrypt_all([1] * task.report_size, stranger, task.id)
        wrong_task = encrypt_all([1] * task.report_size, task.key, bytes(32))
        no_cell = encrypt_all([99] * task.report_size, task.key, task.id)
        batch, body = batch_of(task, b"".join([*good, wrong_key, wrong_task, no_cell]))
        assert (await deliver(trio, batch, body)).status_code == 201
        assert [one["state"] for one in await settled(trio, task)] == ["held"]
        found = await stored_tally(trio, batch)
        assert found["dropped"]["unopened"] == 2 * task.report_size
        assert found["dropped"]["malformed"] == task.report_size

    run_trio(tmp_path, walk)


def test_one_bad_client_moves_a_count_by_at_most_k_and_shows(tmp_path: Path) -> None:
    """K times +1 moves the estimate by K; K times −1 is an outlier."""

    async def walk(trio: Trio, task: Task) -> None:
        honest, _, _ = made_reports(task, USERS - 1)
        zeros = encrypt_all([1] * task.report_size, task.key, task.id)
        batch, body = batch_of(task, b"".join([*honest, zeros]))
        assert (await deliver(trio, batch, body)).status_code == 201
        await trio.results(task)
        found = await stored_tally(trio, batch)
        assert (
            sum(found["plus"]) + sum(found["minus"]) + found["dropped"]["dummies"]
            == USERS * task.report_size
        )
        many = [encrypt_all([0] * task.report_size, task.key, task.id) for _ in range(4)]
        fresh, _, _ = made_reports(task, USERS - 4)
        batch, body = batch_of(task, b"".join([*fresh, *many]))
        assert (await deliver(trio, batch, body)).status_code == 201
        results = await trio.results(task, 2)
        assert abs(results[1]["anomaly"]) > 10

    run_trio(tmp_path, walk)


def test_results_as_json_and_csv(tmp_path: Path) -> None:
    async def walk(trio: Trio, task: Task) -> None:
        await trio.upload(task, [1] * USERS)
        (result,) = await trio.results(task)
        assert result["result"]["certificate"] == task.certificate
        assert "2⁻⁶⁴" in result["guarantee"] and "outside the possible range" in result["note"]
        answer = await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results.csv")
        (row,) = csv.DictReader(io.StringIO(answer.text))
        assert float(row["estimate"]) == result["result"]["estimate"]
        assert [float(row["low"]), float(row["high"])] == result["result"]["interval"]

    run_trio(tmp_path, walk)


def test_a_spent_budget_withholds_the_result(tmp_path: Path) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path)
        trio.analyzer_config = replace(trio.analyzer_config, budget="3")  # one release of ε = 2
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await trio.results(task)
            await trio.upload(task, [1] * USERS)
            for _ in range(1200):
                status = (await trio.to_analyzer.get("/status")).json()["tasks"][0]
                if len(status["batches"]) == 2 and status["batches"][1]["problem"]:
                    break
                await asyncio.sleep(0.05)
            assert status["batches"][1] | {"batch": ""} == {
                "number": 2,
                "batch": "",
                "state": "counted",
                "reports": USERS,
                "problem": status["batches"][1]["problem"],
                "reason": "",
            }
            assert "costs ε = 2" in status["batches"][1]["problem"]
            assert len(status["results"]) == 1

    asyncio.run(walk())


PLANS: dict[str, Callable[[], dict[str, Any]]] = {
    "histogram": lambda: plan_histogram(20, 4, ["a", "b"], mse_overhead=4).to_dict(),
    "real-sum": lambda: plan_real_sum(20, 8, bounds=(-2, 2), mse_overhead=20, dither=3).to_dict(),
    "quantiles": lambda: plan_quantiles(20, 4, (0, 1), bins=4, mse_overhead=4).to_dict(),
}
VALUES: dict[str, list[Any]] = {
    "histogram": ["a"] * 12 + ["b"] * 8,
    "real-sum": [-1.5] * 20,
    "quantiles": [0.6] * 20,
}


@pytest.mark.parametrize("query", PLANS)
def test_other_queries_walk_the_same_way(tmp_path: Path, query: str) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            for top_up in ("none", "full")[: 1 if query == "quantiles" else 2]:
                rule = BatchRule(20, top_up=top_up)
                key = trio.keys.all()[0].public
                noise = "none" if query == "quantiles" else "full"
                task = Task.create(
                    PLANS[query](), key, f"{query} {top_up}", rule, publish_noise=noise
                )
                await trio.register(task)
                await trio.upload(task, VALUES[query])
                (result,) = await trio.results(task)
                found = result_lines(result["result"])
                if query == "histogram":
                    assert [line.label for line in found] == ["a", "b"]
                elif query == "real-sum":
                    assert abs(found[0].estimate + 30) < 40
                assert all(line.low <= line.high for line in found)
                assert (await trio.to_analyzer.get("/")).status_code == 200

    asyncio.run(walk())


def test_a_manifest_that_was_replaced_is_never_complete(tmp_path: Path) -> None:
    """Two shufflers deliver: the one whose manifest was replaced is not told that the analyzer has
    its batch. Nor does it remove a batch that became complete."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task)
        joined = b"".join(messages)
        batch, first = batch_of(task, joined)
        _, second = batch_of(task, joined, batch, sort=False)
        for one in (first, second):
            assert (await send_manifest(trio, batch, one.manifest.to_bytes())).status_code == 202
        known = await trio.analyzer.store.find(batch)
        assert known is not None and known.digest == second.manifest.digest
        stale = replace(known, digest=first.manifest.digest)
        with pytest.raises(Problem):
            await trio.analyzer.receiving._complete(stale)
        assert stale.state == "receiving"
        assert (await deliver(trio, batch, second)).status_code == 201
        await trio.results(task)

    run_trio(tmp_path, walk)


def test_parts_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    """Of a counted batch, of a manifest that was replaced, and of sorting. Twins: the parts of a
    batch that is still received stay, and so do those of a batch that the store does not know."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        unfinished, other = batch_of(task, b"".join(messages))
        await deliver(trio, batch, body)
        await trio.results(task)
        assert (await send_manifest(trio, unfinished, other.manifest.to_bytes())).status_code == 202
        spool = tmp_path / "analyzer"
        (kept,) = spool.glob(f"{unfinished.hex()}-*")
        counted = spool / f"{batch.hex()}-{body.manifest.digest.hex()[:16]}"
        replaced, unknown = (
            spool / f"{unfinished.hex()}-{'0' * 16}",
            spool / f"{'0' * 32}-{'0' * 16}",
        )
        for folder in (counted, replaced, unknown):
            folder.mkdir()
            (folder / "key").write_bytes(b"k" * 32)
        (spool / "run-1-00000000").write_bytes(b"sorted")
        await trio.analyzer.receiving.sweep()
        assert not counted.exists() and not replaced.exists() and not list(spool.glob("run-*"))
        assert kept.exists() and (unknown / "key").exists()

    run_trio(tmp_path, walk)


def test_a_part_that_cannot_be_stored_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is no fault of the shuffler, and no answer names a path of this machine."""

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        assert (await send_manifest(trio, batch, body.manifest.to_bytes())).status_code == 202
        shutil.rmtree(trio.analyzer.inbox.folder(batch, body.manifest.digest))
        monkeypatch.setattr(trio.analyzer.inbox, "manifest", lambda *_: body.manifest)
        answer = await send_part(trio, body, 0, body.parts[0])
        assert answer.status_code == 503 and str(tmp_path) not in answer.text
        monkeypatch.undo()
        other, manifest = batch_of(task, b"".join(messages))
        trio.analyzer.inbox.folder(other, manifest.manifest.digest).write_bytes(b"no folder")
        answer = await send_manifest(trio, other, manifest.manifest.to_bytes())
        assert answer.status_code == 503 and str(tmp_path) not in answer.text

    run_trio(tmp_path, walk)


def test_a_batch_is_durable_before_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file, its name, and the name of its folder."""
    synced: list[Path] = []
    real = files.sync

    def sync(path: Path) -> None:
        synced.append(path)
        real(path)

    monkeypatch.setattr(files, "sync", sync)
    monkeypatch.setattr(receiving, "sync", sync)

    async def walk(trio: Trio, task: Task) -> None:
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        synced.clear()
        assert (await send_manifest(trio, batch, body.manifest.to_bytes())).status_code == 202
        folder = trio.analyzer.inbox.folder(batch, body.manifest.digest)
        assert synced == [folder, folder.parent]
        synced.clear()
        assert (await send_part(trio, body, 0, body.parts[0])).status_code == 201
        assert synced == [folder]

    run_trio(tmp_path, walk)


@pytest.mark.parametrize("state", ["received", "counted"])
def test_a_batch_that_is_discarded_before_its_turn_is_not_charged(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator discards it while the batches before it in the list are opened."""

    async def walk(trio: Trio, task: Task) -> None:
        publishing, store = trio.analyzer.publishing, trio.analyzer.store
        away = asyncio.Event()

        async def lost(*_: object) -> None:
            away.set()
            raise StateLost("away")

        monkeypatch.setattr(publishing, {"received": "_count", "counted": "_publish"}[state], lost)
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        assert (await deliver(trio, batch, body)).status_code == 201
        await away.wait()
        monkeypatch.undo()
        real, turns = store.unfinished, list[int]()

        async def unfinished() -> list[StoredBatch]:
            listed = await real()
            turns.append(len(listed))
            for one in await real():
                assert one.state == state
                assert await publishing.discard(one, "a mistake")
            return listed

        monkeypatch.setattr(store, "unfinished", unfinished)
        async with asyncio.timeout(30):
            while len(turns) < 2:
                publishing.arrived.set()
                await asyncio.sleep(0.01)
        assert turns == [1, 0] and publishing.failing == {}
        known = await store.find(batch)
        assert known is not None and (known.state, known.reason) == ("discarded", "a mistake")
        ledger = tmp_path / "ledger.json"
        assert not ledger.exists() or json.loads(ledger.read_text())["entries"] == []

    run_trio(tmp_path, walk)


@pytest.mark.parametrize("bucket", [False, True])
def test_a_batch_whose_files_cannot_be_removed_is_held_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: bool
) -> None:
    """The status says why until then, and other batches are published meanwhile."""

    async def walk(trio: Trio, task: Task) -> None:
        publishing, turns = trio.analyzer.publishing, list[str]()
        real, removed = publishing._hold, trio.analyzer.inbox.remove

        def fails(found: bytes, digest: bytes) -> None:
            if found != batch:
                return removed(found, digest)
            raise StorageUnavailable("no right to delete") if bucket else PermissionError

        async def hold(*words: Any) -> None:
            turns.append("hold")
            await real(*words)

        monkeypatch.setattr(publishing, "_hold", hold)
        messages, _, _ = made_reports(task, 1)
        batch, body = batch_of(task, messages[0] * USERS)
        with monkeypatch.context() as patch:
            patch.setattr(trio.analyzer.inbox, "remove", fails)
            assert (await deliver(trio, batch, body)).status_code == 201
            async with asyncio.timeout(30):
                while not turns:
                    publishing.arrived.set()  # not after five seconds
                    await asyncio.sleep(0.01)
            reason = "cannot be removed from the bucket" if bucket else "PermissionError"
            assert reason in (await waiting_with_reason(trio, task))["problem"]
            fresh, _, _ = made_reports(task)
            later, body = batch_of(task, b"".join(fresh))
            assert (await deliver(trio, later, body)).status_code == 201
            await trio.results(task)
        publishing.arrived.set()
        assert [one["state"] for one in await settled(trio, task, 2)] == ["held", "published"]
        assert (await trio.to_analyzer.get("/readyz")).status_code == 200

    run_trio(tmp_path, walk)


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_part_that_was_lost_is_named_in_the_status(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: once it is back, the batch is published."""

    async def walk(trio: Trio, task: Task) -> None:
        publishing = trio.analyzer.publishing
        monkeypatch.setattr(publishing, "_count", lambda *_: asyncio.sleep(0))
        monkeypatch.setattr(publishing, "_publish", lambda *_: asyncio.sleep(0))
        messages, _, _ = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        assert (await deliver(trio, batch, body)).status_code == 201
        part = trio.analyzer.inbox.folder(batch, body.manifest.digest) / parts.part_name(0)
        good = part.read_bytes()
        part.unlink()
        if how == "damaged":
            part.write_bytes(good[:-1] + b"?")
        monkeypatch.undo()
        publishing.arrived.set()
        assert "missing or damaged" in (await waiting_with_reason(trio, task))["problem"]
        part.write_bytes(good)
        publishing.arrived.set()
        await trio.results(task)

    run_trio(tmp_path, walk)
