"""Several shuffler processes on one store: whatever reaches whichever of them counts once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import postgres_server as postgres
import pytest
from service_deliveries import stored_tallies
from service_replicas import replicas
from service_trio import COLLECTOR, OPERATOR, USERS, Trio, as_collector, bearing, known_report

from shuffledp.service.errors import ConfigError
from shuffledp.service.shuffler.accepting import Found, judge
from shuffledp.service.shuffler.arrivals import ALL_TASKS, Arrival, Verdict
from shuffledp.service.shuffler.store import LeaseLost
from shuffledp.service.store import open_database
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.reports import encrypt_report


@pytest.fixture
def shared(tmp_path: Path, postgres_database: Callable[[], str]) -> Trio:
    """A trio whose shuffler has a PostgreSQL store."""
    return Trio(
        tmp_path,
        {"shuffler": postgres_database(), "analyzer": f"sqlite:{tmp_path}/analyzer.db"},
    )


def arrival(number: int, token: bytes, scope: int | None = 1, body: bytes = b"m") -> Arrival:
    return Arrival(
        task=1, report=number.to_bytes(16, "big"), token=token, scope=scope, messages=body
    )


def test_judging_needs_no_store() -> None:
    a, b, c = (bytes([one]) * 32 for one in b"abc")
    known = arrival(1, a)
    found = Found({(1, known.report): known.checksum, (1, b): 0}, {a, b, c})
    arrivals = [
        known,
        arrival(1, a, body=b"another"),
        arrival(2, b),
        arrival(3, bytes(32)),
        arrival(4, c),
        arrival(5, c),
        arrival(6, a),
    ]
    verdicts, good = judge(arrivals, found, number=1, room=9)
    assert [one.value for one in verdicts] == [
        "duplicate",
        "report-differs",
        "token-used",
        "token-unknown",
        "accepted",
        "token-used",
        "accepted",
    ]
    assert good == [4, 6]
    verdicts, good = judge(arrivals, found, number=1, room=1)
    assert len(verdicts) == 5 and good == [4]  # the others are judged for the next batch


def test_tokens_that_count_in_every_batch_are_judged_for_their_batch() -> None:
    token = b"t" * 32
    used = {(1, token + (4).to_bytes(4, "big")): 0}
    fourth, _ = judge([arrival(1, token, None)], Found(used, {token}), number=4, room=1)
    fifth, _ = judge([arrival(1, token, None)], Found(used, {token}), number=5, room=1)
    assert (fourth, fifth) == ([Verdict.TOKEN_USED], [Verdict.ACCEPTED])


def test_every_replica_takes_reports_and_batches_have_their_size(shared: Trio) -> None:
    """240 reports over three replicas, each sent to two of them: 12 batches of 20, each report
    counted once. A task that is registered at one replica is known to the others at once."""

    async def walk() -> None:
        async with replicas(shared) as found:
            task = shared.task()
            await shared.register(task)
            made = [known_report(task, one % 2) for one in range(12 * USERS)]
            tokens = await shared.enrol(len(made))

            async def send(at: int) -> list[int]:
                body, _, _ = made[at]
                first, second = random.sample(range(3), 2)
                answers = await asyncio.gather(
                    found.post(first, task, body, tokens[at]),
                    found.post(second, task, body, tokens[at]),
                )
                return sorted(answer.status_code for answer in answers)

            codes = await asyncio.gather(*(send(at) for at in range(len(made))))
            assert all(code == [200, 201] for code in codes), codes
            results = await shared.results(task, 12, seconds=120)
            assert [result["reports"] for result in results] == [USERS] * 12
            tallies = await stored_tallies(shared)
            assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
            assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)
            assert (await shared.status(task))["have"] == 0

    asyncio.run(walk())


def test_a_replica_that_missed_a_whole_batch_goes_on(shared: Trio) -> None:
    """It last looked when the batch was open; the others have filled and delivered it since, and
    its key is destroyed."""

    async def walk() -> None:
        async with replicas(shared, 2) as found:
            task = shared.task()
            await shared.register(task)
            tokens = await shared.enrol(USERS + 1)
            bodies = [encrypt_report(task, 1) for _ in tokens]
            order = [1, *[0] * (USERS - 1), 1]
            for at, body, token in zip(order, bodies, tokens, strict=True):
                if token == tokens[-1]:
                    await shared.deleted(task)
                answer = await found.post(at, task, body, token)
                assert answer.status_code == 201, answer.text
            assert (await shared.status(task))["have"] == 1

    asyncio.run(walk())


@pytest.mark.parametrize("kind", ["each", "once", "repeat"])
def test_a_token_counts_once_wherever_it_is_sent(shared: Trio, kind: str) -> None:
    async def walk() -> None:
        async with replicas(shared) as found:
            task = shared.task(repeat=kind == "repeat")
            other = shared.task("other")
            await shared.register(task)
            await shared.register(other)
            tokens = await shared.enrol(4, *([ONCE_PREFIX] if kind == "once" else []))
            for token in tokens:
                where = [task, other, task] if kind == "once" else [task] * 3
                answers = await asyncio.gather(
                    *(
                        found.post(at, one, encrypt_report(one, 1), token)
                        for at, one in enumerate(where)
                    )
                )
                assert sorted(one.status_code for one in answers) == [201, 409, 409]
            rows = await shared.shuffler.database.rows("SELECT COUNT(*) FROM reports")
            assert rows == [(4,)]

    asyncio.run(walk())


def test_what_one_replica_closes_the_others_refuse(shared: Trio) -> None:
    """Closed, archived and deleted at different replicas; enrolled and looked up at any."""

    async def walk() -> None:
        async with replicas(shared) as found:
            task = shared.task()
            await shared.register(task)
            tokens = await shared.enrol(2)
            body = encrypt_report(task, 1)
            assert (await found.post(1, task, body, tokens[0])).status_code == 201
            path = f"/tasks/{task.id.hex()}"
            closed = await found.clients[2].post(f"{path}/close", headers=bearing(COLLECTOR))
            assert closed.status_code == 200
            refused = [
                await found.post(at, task, encrypt_report(task, 1), tokens[1]) for at in range(3)
            ]
            assert [one.status_code for one in refused] == [410] * 3
            archived = await found.clients[0].post(
                f"{path}/archive", json={"discard": True}, headers=bearing(OPERATOR)
            )
            assert archived.json() == {"task": task.id.hex(), "state": "archived"}
            gone = await found.clients[1].delete(path, headers=bearing(OPERATOR))
            assert gone.status_code == 200
            again = await found.clients[2].put(
                path, content=task.canonical(), headers=as_collector(task.id)
            )
            assert again.status_code == 410
            assert (await found.clients[2].get("/status")).json()["tasks"] == []

    asyncio.run(walk())


def test_two_replicas_close_the_same_batch_at_once(shared: Trio) -> None:
    """A batch that leaves early leaves once, with exactly the reports that it holds, while uploads
    go on."""

    async def walk() -> None:
        async with replicas(shared, 2) as found:
            rule = {"top_up": "missing", "at_least": 5, "wait_seconds": 10**6}
            task = shared.task(batch=rule)
            await shared.register(task)
            await shared.upload(task, [1] * 7)
            entry = found.servers[0].tasks.by_id[task.id]
            state = await found.servers[0].store.filling(entry.number)
            assert state is not None and state.reports == 7
            await found.servers[1].tasks.refresh()
            closed = await asyncio.gather(
                *(server.store.close_early(entry, state) for server in found.servers)
            )
            assert sorted(closed) == [False, True]
            await shared.upload(task, [1] * 3)
            (result,) = await shared.results(task)
            assert (result["reports"], result["noise_shares"]) == (7, USERS)
            status = await shared.status(task)
            assert (status["have"], status["next_batch"]) == (3, 2)

    asyncio.run(walk())


def test_a_lease_that_ran_out_goes_to_another_replica(shared: Trio) -> None:
    """The first one wakes up and can change nothing any more."""

    async def walk() -> None:
        async with replicas(shared, 2) as found:
            first, second = found.servers
            for server in found.servers:
                server.delivery.deliver_next = nothing  # type: ignore[method-assign]
            task = shared.task()
            await shared.register(task)
            await shared.upload(task, [1] * USERS)
            batch = await first.store.lease()
            assert batch is not None and await second.store.lease() is None
            await first.store.renew(batch)
            second.database.now = f"({second.database.now} + 61)"
            taken = await second.store.lease()
            assert taken is not None and taken.number == batch.number
            with pytest.raises(LeaseLost):
                await first.store.renew(batch)
            with pytest.raises(LeaseLost):
                await first.store.delivered(batch)

    async def nothing() -> bool:
        return False

    asyncio.run(walk())


def test_a_replica_that_hangs_is_seen_by_the_others(shared: Trio) -> None:
    async def walk() -> None:
        async with replicas(shared, 2) as found:
            text = (await found.clients[0].get("/metrics", headers=bearing(OPERATOR))).text
            assert "shuffledp_shuffler_replicas 2.0" in text
            await found.servers[0].database.rows(
                "INSERT INTO replicas (name, seen) "
                "VALUES ('hangs', extract(epoch FROM clock_timestamp())::bigint - 60)"
            )
            text = (await found.clients[1].get("/metrics", headers=bearing(OPERATOR))).text
            assert "shuffledp_shuffler_replicas_away 1.0" in text

    asyncio.run(walk())


def test_the_hot_row_is_never_held_between_statements(shared: Trio) -> None:
    """While one replica judges and encrypts, it holds no lock: the store is one statement."""

    async def walk() -> None:
        async with replicas(shared, 1):
            task = shared.task(users=400)
            await shared.register(task)
            database = shared.shuffler.database
            sessions = (
                "SELECT COUNT(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "
                "WHERE relation = 'filling'::regclass AND mode = 'RowExclusiveLock' "
                "AND state = 'idle in transaction'"
            )
            sending = asyncio.create_task(shared.upload(task, [1] * 60))
            while not sending.done():
                ((idle,),) = await database.rows(sessions)
                assert idle == 0
                await asyncio.sleep(0.005)
            await sending

    asyncio.run(walk())


def test_a_store_that_loses_acknowledged_commits_is_refused(postgres_programs: Path) -> None:
    async def walk(url: str) -> None:
        from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA

        with pytest.raises(ConfigError, match="fsync = on"):
            await open_database(url, SHUFFLER_SCHEMA, shared=True)

    with postgres.Server(postgres_programs, "fsync=off") as server:
        asyncio.run(walk(server.new_database()))


def test_several_workers_need_postgres(tmp_path: Path) -> None:
    config = Trio(tmp_path, workers=2).shuffler_config
    (problem,) = config.problems()
    assert "SQLite" in problem and "postgresql" in problem
    assert not Trio(
        tmp_path, {"shuffler": "postgresql://x", "analyzer": "sqlite:a"}, workers=2
    ).shuffler_config.problems()


def test_arrivals_for_one_store_know_both_kinds_of_tokens() -> None:
    """A token for one report in all is spent under task 0, any other under its own task."""
    once = judge([arrival(1, b"o" * 32, ALL_TASKS)], Found({(0, b"o" * 32): 0}, {b"o" * 32}), 1, 9)
    assert once[0] == [Verdict.TOKEN_USED]
    each = judge([arrival(1, b"o" * 32, 1)], Found({(0, b"o" * 32): 0}, {b"o" * 32}), 1, 9)
    assert each[0] == [Verdict.ACCEPTED]
