"""The shuffler: who may upload what, when a batch leaves, what is left of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_states import until
from service_trio import COLLECTOR, OPERATOR, USERS, Trio, bearing, known_report, sha

from shuffledp.service.shuffler.arrivals import Arrival, Verdict
from shuffledp.service.tokens import ONCE_PREFIX, new_token
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES

Walk = Callable[[Trio], Awaitable[None]]


def walk_with(tmp_path: Path, stores: dict[str, str] | None, walk: Walk, **config: Any) -> None:
    async def run() -> None:
        async with Trio(tmp_path, stores, **config).running() as trio:
            await walk(trio)

    asyncio.run(run())


def test_a_short_batch_is_never_released(tmp_path: Path, stores: dict[str, str]) -> None:
    """n − 1 reports wait, for good; the n-th releases; left-overs are carried over."""

    async def walk(trio: Trio) -> None:
        task = trio.task()
        await trio.register(task)
        await trio.upload(task, [1] * (USERS - 1))
        await asyncio.sleep(0.3)
        status = await trio.status(task)
        assert status["progress"] == f"{USERS - 1} of {USERS}" and not status["batches"]
        assert not (await trio.to_analyzer.get(f"/tasks/{task.id.hex()}/results")).json()["results"]
        await trio.upload(task, [1] * 5)
        assert len(await trio.results(task)) == 1
        status = await trio.status(task)
        assert status["progress"] == f"4 of {USERS}"
        await trio.upload(task, [0] * (USERS - 4))
        results = await trio.results(task, 2)
        assert [result["reports"] for result in results] == [USERS, USERS]

    walk_with(tmp_path, stores, walk)


def test_left_overs_survive_a_restart(tmp_path: Path, stores: dict[str, str]) -> None:
    async def first() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * (USERS + 7))
            await trio.results(task)

    async def second() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            assert (await trio.status(task))["have"] == 7
            await trio.upload(task, [1] * (USERS - 7))
            assert len(await trio.results(task, 2)) == 2

    asyncio.run(first())
    asyncio.run(second())


def test_bodies_are_gone_after_delivery(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk(trio: Trio) -> None:
        task = trio.task()
        await trio.register(task)
        bodies = await trio.upload(task, [1] * USERS)
        await trio.results(task)
        await trio.deleted(task)
        database = trio.shuffler.database
        assert await database.rows("SELECT COUNT(*) FROM reports") == [(0,)]
        assert list((tmp_path / "shuffler").iterdir()) == []
        assert list((tmp_path / "shuffler-keys").glob("*.key")) == []
        one = bodies[0][-MESSAGE_BYTES:]
        for file in tmp_path.rglob("*"):  # the shuffler's files only
            if file.is_file() and file.name.startswith("shuffler.db"):
                assert one not in file.read_bytes()

    walk_with(tmp_path, stores, walk)


@pytest.mark.parametrize("top_up", ["missing", "full"])
@pytest.mark.parametrize(("order", "cell"), [("canonical", "bounded"), ("uniform", "paper")])
def test_noise_top_up_releases_after_the_wait(
    tmp_path: Path, stores: dict[str, str], top_up: str, order: str, cell: str
) -> None:
    async def walk(trio: Trio) -> None:
        rule = {"top_up": top_up, "at_least": 8, "wait_seconds": 1000}
        task = trio.task(batch=rule, order=order, cell=cell)
        await trio.register(task)
        await trio.upload(task, [1] * 4)
        trio.seconds_ahead = 1001
        await trio.shuffler.delivery.close_due()
        assert not (await trio.status(task))["batches"]  # fewer than at_least never leave
        await trio.upload(task, [1] * 4)
        await trio.shuffler.delivery.close_due()
        (result,) = await trio.results(task)
        assert result["reports"] == 8
        assert result["noise_shares"] == (USERS if top_up == "missing" else USERS + 8)
        assert abs(result["anomaly"]) < 8
        assert abs(result["result"]["estimate"] - 8) < 30

    walk_with(tmp_path, stores, walk)


def test_a_full_top_up_is_added_to_full_batches_too(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk(trio: Trio) -> None:
        task = trio.task(batch={"top_up": "full"})
        await trio.register(task)
        await trio.upload(task, [0] * USERS)
        (result,) = await trio.results(task)
        assert result["noise_shares"] == 2 * USERS and result["reports"] == USERS

    walk_with(tmp_path, stores, walk)


def test_duplicates_and_tokens(tmp_path: Path, stores: dict[str, str]) -> None:
    """A retry is a duplicate; a second report of a token is refused; strangers are refused."""

    async def walk(trio: Trio) -> None:
        task, other = trio.task(), trio.task("other")
        await trio.register(task)
        await trio.register(other)
        each, second = await trio.enrol(2)
        (once,) = await trio.enrol(1, ONCE_PREFIX)
        body = encrypt_report(task, 1)
        statuses = [(await trio.post(task, body, each)).status_code for _ in range(3)]
        assert statuses == [201, 200, 200]
        assert (await trio.post(task, body, second)).status_code == 200  # same report id
        again = await trio.post(task, encrypt_report(task, 0), each)
        assert again.status_code == 409 and again.json()["type"].endswith("token-used")
        assert (await trio.post(other, encrypt_report(other, 0), each)).status_code == 201
        assert (await trio.post(task, encrypt_report(task, 0), once)).status_code == 201
        spent = await trio.post(other, encrypt_report(other, 0), once)
        assert spent.status_code == 409
        stranger = await trio.post(task, encrypt_report(task, 0), new_token())
        assert stranger.status_code == 403
        assert (await trio.status(task))["have"] == 2

    walk_with(tmp_path, stores, walk)


def test_one_commit_judges_what_arrives_together(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk(trio: Trio) -> None:
        await trio.register(trio.task())
        (token,) = await trio.enrol()
        hashed = bytes.fromhex(sha(token))

        def arrival(report: bytes, token: bytes) -> Arrival:
            return Arrival(task=1, report=report * 16, token=token, scope=1, messages=b"x")

        first = arrival(b"a", hashed)
        together = [first, first, arrival(b"b", hashed), arrival(b"c", bytes(32))]
        verdicts = await trio.shuffler.accepting.accept_all(lambda: together)
        assert verdicts == [
            Verdict.ACCEPTED,
            Verdict.DUPLICATE,
            Verdict.TOKEN_USED,
            Verdict.UNKNOWN_TOKEN,
        ]
        state = await trio.shuffler.store.filling(1)
        assert state is not None and state.reports == 1

    walk_with(tmp_path, stores, walk)


def test_tokens_are_stored_as_hashes(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk(trio: Trio) -> None:
        (token,) = await trio.enrol()
        rows = await trio.shuffler.database.rows("SELECT token FROM tokens")
        assert [row[0].hex() for row in rows] == [sha(token)]

    walk_with(tmp_path, stores, walk)


def test_only_those_who_may(tmp_path: Path) -> None:
    """Tasks by the collector, enrolment by the operator, uploads by the enrolled."""

    async def walk(trio: Trio) -> None:
        task = trio.task()
        path = f"/tasks/{task.id.hex()}"
        for server in (trio.to_shuffler, trio.to_analyzer):
            for headers, status in (({}, 401), (bearing("x"), 403), (bearing(OPERATOR), 403)):
                answer = await server.put(path, content=task.canonical(), headers=headers)
                assert answer.status_code == status
                assert answer.headers["content-type"] == "application/problem+json"
        enrol = {"sha256": [sha("t")]}
        for headers, status in (({}, 401), (bearing(COLLECTOR), 403), (bearing(OPERATOR), 201)):
            answer = await trio.to_shuffler.post("/tokens", json=enrol, headers=headers)
            assert answer.status_code == status
        await trio.register(task)
        close = await trio.to_shuffler.post(f"{path}/close", headers=bearing(OPERATOR))
        assert close.status_code == 403
        answer = await trio.to_shuffler.post(f"{path}/reports", content=encrypt_report(task, 1))
        assert answer.status_code == 401

    walk_with(tmp_path, None, walk)


def damaged(task: Task, other: Task) -> list[tuple[bytes, int, str]]:
    """Uploads that are not what they should be, with the reason each is refused for."""
    good = encrypt_report(task, 1)
    return [
        (b"", 413, "size"),
        (good[:-1], 413, "size"),
        (good + b"x", 413, "size"),
        (good * 2, 413, "size"),
        (b"XXXX" + good[4:], 400, "malformed"),
        (good[:4] + b"\x02" + good[5:], 400, "malformed"),
        (good[:53] + b"\xff\xff" + good[55:], 422, "wrong-key"),
        (good[:55] + b"\x00\x01" + good[57:], 400, "malformed"),
        (good[:5] + other.id + good[37:], 422, "wrong-task"),
    ]


def test_damaged_uploads_are_refused_with_a_reason(tmp_path: Path) -> None:
    async def walk(trio: Trio) -> None:
        task, other = trio.task(), trio.task("other")
        await trio.register(task)
        await trio.register(other)
        (token,) = await trio.enrol()
        for body, status, code in damaged(task, other):
            answer = await trio.post(task, body, token)
            assert (answer.status_code, answer.json()["type"].split(":")[-1]) == (status, code)
            if code == "size":
                assert answer.json()["need"] == task.report_bytes
        unknown = await trio.to_shuffler.post(f"/tasks/{bytes(32).hex()}/reports", content=b"")
        assert unknown.status_code == 404
        reasons = (await trio.status(task))["rejected"]
        assert reasons == {"size": 4, "malformed": 3, "wrong-key": 1, "wrong-task": 1}
        assert (await trio.post(task, encrypt_report(task, 1), token)).status_code == 201

    walk_with(tmp_path, None, walk)


def test_too_many_at_once_must_retry_later(tmp_path: Path) -> None:
    async def walk(trio: Trio) -> None:
        task = trio.task()
        await trio.register(task)
        tokens = await trio.enrol(12)
        bodies = [known_report(task, 1)[0] for _ in tokens]
        free, accept_all = asyncio.Event(), trio.shuffler.accepting.accept_all

        async def slow(take: Callable[[], list[Arrival]]) -> list[Verdict | Exception]:
            await free.wait()  # the disk is busy
            return await accept_all(take)

        trio.shuffler.accepting.accept_all = slow  # type: ignore[method-assign]
        posts = [
            asyncio.create_task(trio.post(task, body, token))
            for body, token in zip(bodies, tokens, strict=True)
        ]
        await until(lambda: sum(post.done() for post in posts) >= 4)
        free.set()
        answers = await asyncio.gather(*posts)
        codes = [answer.status_code for answer in answers]
        assert set(codes) == {201, 429} and codes.count(429) >= 4
        told = next(answer for answer in answers if answer.status_code == 429)
        assert told.headers["retry-after"] == "1" and told.json()["retry_after"] == 1
        again = [
            await trio.post(task, body, token) for body, token in zip(bodies, tokens, strict=True)
        ]
        assert {answer.status_code for answer in again} == {200, 201}
        assert (await trio.status(task))["have"] == 12

    walk_with(tmp_path, None, walk, queue=4)


def test_closed_tasks_and_retired_keys_take_nothing(tmp_path: Path) -> None:
    """Key states change without a restart."""

    async def walk(trio: Trio) -> None:
        task = trio.task()
        await trio.register(task)
        tokens = await trio.enrol(3)
        assert (await trio.post(task, encrypt_report(task, 1), tokens[0])).status_code == 201
        old = trio.keys.all()[0]
        trio.keys.new()
        follower = trio.task("follower")
        assert follower.key.key_id == old.key_id + 1
        await trio.register(follower)
        trio.keys.retire(old.key_id)
        await trio.shuffler.analyzer_keys.learn()
        refused = await trio.post(task, encrypt_report(task, 1), tokens[1])
        assert refused.status_code == 410 and refused.json()["type"].endswith("key-retired")
        taken = await trio.post(follower, encrypt_report(follower, 1), tokens[1])
        assert taken.status_code == 201
        closed = await trio.to_shuffler.post(
            f"/tasks/{follower.id.hex()}/close", headers=bearing(COLLECTOR)
        )
        assert closed.status_code == 200
        late = await trio.post(follower, encrypt_report(follower, 1), tokens[2])
        assert late.status_code == 410

    walk_with(tmp_path, None, walk)


def test_a_folder_of_keys_that_is_away_retires_no_key(tmp_path: Path) -> None:
    """Devices take 410 as final, so a volume that is not mounted must not look like no keys."""

    async def walk(trio: Trio) -> None:
        task = trio.task()
        await trio.register(task)
        (token,) = await trio.enrol(1)
        folder = trio.keys.path
        folder.rename(folder.with_name("away"))
        assert (await trio.to_analyzer.get("/keys")).status_code == 503
        await trio.shuffler.analyzer_keys.learn()
        assert (await trio.post(task, encrypt_report(task, 1), token)).status_code == 201
        folder.with_name("away").rename(folder)

    walk_with(tmp_path, None, walk)


def test_the_analyzer_is_away_for_an_hour(tmp_path: Path) -> None:
    """Pauses grow to the configured longest one; the batch waits and arrives in the end."""
    passed, tries = 0, 0

    class Away(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            nonlocal tries
            if passed < 3600 and request.method == "PUT":  # it said its keys before
                tries += 1
                raise httpx2.ConnectError("away")
            return await trio.analyzer_transport.handle_async_request(request)

    async def walk() -> None:
        nonlocal passed
        async with trio.analyzer_running(), trio.shuffler_running(Away()):
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * (USERS + 3))
            delivery = trio.shuffler.delivery
            assert {delivery.pause(0) for _ in range(50)} <= {0, 1}
            assert all(30 <= delivery.pause(many) <= 60 for many in range(6, 20))
            await until(lambda: tries)
            while passed < 3660:
                passed += 20
                trio.shuffler.database.now = f"(unixepoch() + {passed})"
                delivery.batch_closed.set()
                await until(lambda: not delivery.batch_closed.is_set())
                if passed == 20:
                    status = await trio.status(task)
                    assert status["batches"][0]["problem"] == "ConnectError"
            assert len(await trio.results(task)) == 1
            assert (await trio.status(task))["have"] == 3
        assert 10 < tries < 150

    trio = Trio(tmp_path, retry_seconds=60)
    asyncio.run(walk())
