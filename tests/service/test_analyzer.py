"""The analyzer: replays, deliveries, what is published."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import os

import numpy as np
import pytest
from service_trio import COLLECTOR, DELIVERY, USERS, Trio, bearing, known_report

from shuffledp.sealed.encryption import KeyFolder, encrypt_all
from shuffledp.sealed.ordering import ordered
from shuffledp.sealed.wire import MESSAGE, REPORT_HEADER, BatchHeader


def batch_of(task, messages: bytes, batch=None, reports=USERS, **header) -> tuple[bytes, bytes]:
    """(batch id, body) of a delivery."""
    batch = batch or os.urandom(16)
    head = BatchHeader(
        task.id, batch, reports, header.get("extra", 0), header.get("shares", reports)
    ).to_bytes()
    rows = np.frombuffer(messages, np.uint8).reshape(-1, MESSAGE)
    return batch, head + (ordered(rows).tobytes() if header.get("sort", True) else messages)


async def deliver(trio, batch, body, token=DELIVERY, digest=None, **headers):
    digest = digest or hashlib.sha256(body).hexdigest()
    headers = bearing(token) | {"X-Content-SHA256": digest} | headers
    return await trio.to_analyzer.put(f"/batches/{batch.hex()}", content=body, headers=headers)


def made_reports(task, count=USERS, value=1):
    made = [known_report(task, value) for _ in range(count)]
    messages = [body[REPORT_HEADER:] for body, _, _ in made]
    return messages, sum(plus for _, plus, _ in made), sum(minus for _, _, minus in made)


async def tally(trio, batch):
    return json.loads((await trio.analyzer.store.find(batch)).tally)


def run_trio(tmp_path, walk, stores=None):
    async def run():
        trio = Trio(tmp_path, stores)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await walk(trio, task)

    asyncio.run(run())


@pytest.mark.parametrize("sort", [True, False])
def test_a_shuffler_that_repeats_one_user_learns_nothing(tmp_path, stores, sort):
    """Must hold 5: copies in one batch are counted once, in whatever order they come."""

    async def walk(trio, task):
        messages, _, _ = made_reports(task, 1)
        batch, body = batch_of(task, messages[0] * USERS, sort=sort)
        assert (await deliver(trio, batch, body)).status_code == 201
        (result,) = await trio.results(task)
        assert result["dropped"]["replayed"] == (USERS - 1) * task.report_size
        found = await tally(trio, batch)
        assert found["plus"][0] + found["minus"][0] <= task.report_size

    run_trio(tmp_path, walk, stores)


def test_replays_across_batches_of_a_key_are_dropped(tmp_path, stores):
    async def walk(trio, task):
        messages, plus, minus = made_reports(task)
        first, body = batch_of(task, b"".join(messages))
        assert (await deliver(trio, first, body)).status_code == 201
        fresh, more_plus, more_minus = made_reports(task, USERS - 2)
        second, body = batch_of(task, b"".join(fresh + messages[:2]))
        assert (await deliver(trio, second, body)).status_code == 201
        results = await trio.results(task, 2)
        assert results[1]["dropped"]["replayed"] == 2 * task.report_size
        found = await tally(trio, first)
        assert (found["plus"], found["minus"]) == ([plus], [minus])
        found = await tally(trio, second)
        assert (found["plus"], found["minus"]) == ([more_plus], [more_minus])
        other = trio.task("another task with the same key")
        await trio.register(other)
        third, body = batch_of(other, b"".join(messages))
        assert (await deliver(trio, third, body)).status_code == 201
        (result,) = await trio.results(other)
        assert result["dropped"]["replayed"] == USERS * task.report_size

    run_trio(tmp_path, walk, stores)


def test_a_batch_is_kept_once(tmp_path, stores):
    """Idempotent PUT by (batch id, digest); another content under the same id is refused."""

    async def walk(trio, task):
        messages, plus, minus = made_reports(task)
        batch, body = batch_of(task, b"".join(messages))
        statuses = [(await deliver(trio, batch, body)).status_code for _ in range(3)]
        assert statuses == [201, 200, 200]
        other, _, _ = made_reports(task)
        _, changed = batch_of(task, b"".join(other), batch)
        assert (await deliver(trio, batch, changed)).status_code == 409
        assert len(await trio.results(task)) == 1
        found = await tally(trio, batch)
        assert (found["plus"], found["minus"]) == ([plus], [minus])
        ledger = json.loads((tmp_path / "ledger.json").read_text())
        assert len(ledger["entries"]) == 1

    run_trio(tmp_path, walk, stores)


def test_deliveries_that_are_refused(tmp_path):
    """Only the shuffler delivers, and only what the task's rule allows: the second lock."""

    async def walk(trio, task):
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
        _, lie = batch_of(task, joined, batch, shares=USERS + 1)
        assert (await deliver(trio, batch, lie)).status_code == 422
        _, lie = batch_of(task, joined + joined[:MESSAGE], batch, extra=1)
        assert (await deliver(trio, batch, lie)).status_code == 422
        assert (await deliver(trio, batch, body, digest="0" * 64)).status_code == 422
        assert (await deliver(trio, batch, body, digest="zz")).status_code == 400
        assert (await deliver(trio, os.urandom(16), body)).status_code == 400
        assert (await deliver(trio, batch, b"short")).status_code == 413
        assert (await deliver(trio, batch, b"X" + body[1:])).status_code == 422
        unknown = task.id[::-1]
        stranger = body[:5] + unknown + body[37:]
        assert (await deliver(trio, batch, stranger)).status_code == 404
        assert list((tmp_path / "analyzer").glob("*")) == []
        assert (await deliver(trio, batch, body)).status_code == 201

    run_trio(tmp_path, walk)


def test_what_cannot_be_opened_or_understood_is_counted(tmp_path):
    async def walk(trio, task):
        good, _, _ = made_reports(task, USERS - 3)
        stranger = KeyFolder(tmp_path / "other").new().public
        wrong_key = encrypt_all([1] * task.report_size, stranger, task.id)
        wrong_task = encrypt_all([1] * task.report_size, task.key, bytes(32))
        no_cell = encrypt_all([99] * task.report_size, task.key, task.id)
        batch, body = batch_of(task, b"".join([*good, wrong_key, wrong_task, no_cell]))
        assert (await deliver(trio, batch, body)).status_code == 201
        (result,) = await trio.results(task)
        assert result["dropped"]["unopened"] == 2 * task.report_size
        assert result["dropped"]["malformed"] == task.report_size

    run_trio(tmp_path, walk)


def test_one_bad_client_moves_a_count_by_at_most_k_and_shows(tmp_path):
    """Must hold 7: K times +1 moves the estimate by K; K times −1 is an outlier in V₋."""

    async def walk(trio, task):
        honest, _, _ = made_reports(task, USERS - 1)
        zeros = encrypt_all([1] * task.report_size, task.key, task.id)
        batch, body = batch_of(task, b"".join([*honest, zeros]))
        assert (await deliver(trio, batch, body)).status_code == 201
        await trio.results(task)
        found = await tally(trio, batch)
        assert (
            sum(found["plus"]) + sum(found["minus"]) + found["dropped"]["dummies"]
            == USERS * task.report_size
        )
        many = [encrypt_all([0] * task.report_size, task.key, task.id) for _ in range(4)]
        fresh, _, _ = made_reports(task, USERS - 4)
        batch, body = batch_of(task, b"".join([*fresh, *many]))
        assert (await deliver(trio, batch, body)).status_code == 201
        results = await trio.results(task, 2)
        assert results[1]["minus_z_score"] > 10

    run_trio(tmp_path, walk)


def test_z_score_of_honest_batches_is_standard(tmp_path):
    from shuffledp.protocols import protocol_from_dict
    from shuffledp.service.analyzer.results import minus_z_score

    task = Trio(tmp_path).task()
    protocol = protocol_from_dict(task.certificate["protocol"])
    scores = []
    for _ in range(300):
        report = protocol.aggregate(np.ones(USERS, np.int64))
        scores.append(minus_z_score(protocol, USERS, USERS, int(report.minus.sum())))
    assert abs(np.mean(scores)) < 0.3 and 0.8 < np.std(scores) < 1.2


def test_results_as_json_and_csv(tmp_path):
    async def walk(trio, task):
        await trio.upload(task, [1] * USERS)
        (result,) = await trio.results(task)
        assert result["result"]["certificate"] == task.certificate
        assert "2⁻⁶⁴" in result["guarantee"] and "negative" in result["note"]
        answer = await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results.csv")
        (row,) = csv.DictReader(io.StringIO(answer.text))
        assert float(row["estimate"]) == result["result"]["estimate"]
        assert [float(row["low"]), float(row["high"])] == result["result"]["interval"]

    run_trio(tmp_path, walk)


def test_a_spent_budget_withholds_the_result(tmp_path):
    async def walk():
        trio = Trio(tmp_path)
        object.__setattr__(trio.analyzer_config, "budget", "3")  # one release of ε = 2
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await trio.results(task)
            await trio.upload(task, [1] * USERS)
            for _ in range(200):
                status = (await trio.to_analyzer.get("/status")).json()["tasks"][0]
                if len(status["batches"]) == 2 and status["batches"][1]["problem"]:
                    break
                await asyncio.sleep(0.05)
            assert status["batches"][1] | {"batch": ""} == {
                "number": 2,
                "batch": "",
                "state": "counted",
                "reports": USERS,
                "problem": "BudgetExceeded",
            }
            assert len(status["results"]) == 1

    asyncio.run(walk())


@pytest.mark.parametrize("kind", ["histogram", "summation", "ranges"])
def test_other_protocols_walk_the_same_way(tmp_path, kind):
    values = {"histogram": ["a"] * 12 + ["b"] * 8, "summation": [-1.5] * 20, "ranges": [0.6] * 20}
    planner = pytest.importorskip(f"shuffledp.planning.{kind}")
    plan = {
        "histogram": lambda: planner.plan_histogram(20, 4, ["a", "b"], mse_overhead=4),
        "summation": lambda: planner.plan_real_sum(20, 8, bounds=(-2, 2), mse_overhead=20),
        "ranges": lambda: planner.plan_quantiles(20, 4, (0, 1), bins=4, mse_overhead=4),
    }[kind]().to_dict()

    async def walk():
        from shuffledp.sealed.reading import lines
        from shuffledp.sealed.task import BatchRule, Task

        trio = Trio(tmp_path)
        async with trio.running():
            for top_up in ("none", "full")[: 1 if kind == "ranges" else 2]:
                rule = BatchRule(20, top_up)
                task = Task.create(plan, trio.keys.all()[0].public, f"{kind} {top_up}", rule)
                await trio.register(task)
                await trio.upload(task, values[kind])
                (result,) = await trio.results(task)
                found = lines(result["result"])
                if kind == "histogram":
                    assert [line.label for line in found] == ["a", "b"]
                elif kind == "summation":
                    assert abs(found[0].estimate + 30) < 40
                assert all(line.low <= line.high for line in found)
                assert (await trio.to_analyzer.get("/")).status_code == 200

    asyncio.run(walk())


@pytest.mark.parametrize("kind", ["integers", "summation"])
def test_a_top_up_does_not_shift_the_estimate(tmp_path, kind):
    """Absent users bring noise and no value, not even the stand-in of a muted one."""
    from shuffledp.planning.counting import plan_integer_sum
    from shuffledp.planning.real_sum import plan_real_sum
    from shuffledp.sealed.opening import Tally
    from shuffledp.sealed.task import BatchRule, Task
    from shuffledp.sealed.top_up import noise_only
    from shuffledp.service.analyzer.results import published
    from shuffledp.service.analyzer.store import Received

    key = Trio(tmp_path).keys.all()[0].public
    plan = (
        plan_integer_sum(USERS, 8, 4, mse_overhead=1)
        if kind == "integers"
        else plan_real_sum(USERS, 8, bounds=(-3, 5), mse_overhead=4)
    )
    task = Task.create(plan.to_dict(), key, "shift", BatchRule(USERS, "full"))
    protocol, estimates, covered = task.protocol, [], 0
    for _ in range(150):
        report = protocol.aggregate(np.ones(USERS, np.int64)) + noise_only(protocol, USERS)
        tally = Tally(report.plus, report.minus)
        batch = Received(
            bytes(16), 1, 1, "counted", bytes(32), USERS, 0, 2 * USERS, tally.to_json(), None
        )
        result = published(task, batch, 0.95)["result"]
        estimates.append(result["estimate"])
        covered += result["interval"][0] <= USERS <= result["interval"][1]
    error = np.std(estimates) / len(estimates) ** 0.5
    assert abs(np.mean(estimates) - USERS) < 5 * error + 1e-9
    assert covered > 125
