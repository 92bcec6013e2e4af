"""Full disks, jumping clocks, garbage: nothing acknowledged is lost, nothing short leaves."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import time

import httpx
import pytest
from service_trio import COLLECTOR, OPERATOR, USERS, Trio, bearing, known_report, sha
from test_kills import Programs

from shuffledp.sealed.errors import StorageUnavailable
from shuffledp.sealed.tokens import EACH, new_token
from shuffledp.sealed.wire import BATCH_HEADER
from shuffledp.service.client.sending import encrypt_report
from shuffledp.service.demo import wait_ready
from shuffledp.service.storage.sqlite import SqliteDatabase

FUZZED = 10_000


FULL = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF (SELECT COUNT(*) FROM reports) >= 5 THEN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
    END IF; RETURN NULL; END $$
"""


async def fill(database):
    """Leaves room for a few reports: SQLite by its own limit; PostgreSQL by raising, inside the
    server, the error that a full disk gives."""
    if isinstance(database, SqliteDatabase):
        ((pages,),) = await database.rows("PRAGMA page_count")
        await database.rows(f"PRAGMA max_page_count={pages + 3}")
    else:
        await database.rows(FULL)
        await database.rows(
            "CREATE TRIGGER full_disk AFTER INSERT ON reports EXECUTE FUNCTION full_disk()"
        )


async def make_room(database):
    if isinstance(database, SqliteDatabase):
        await database.rows("PRAGMA max_page_count=1000000")
    else:
        await database.rows("DROP TRIGGER full_disk ON reports")


def test_a_full_store_acknowledges_nothing_and_recovers(tmp_path, stores):
    """The store says that it is full; the same bytes are taken once there is room."""

    async def walk():
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            tokens = await trio.enrol(USERS)
            bodies = [known_report(task, 1) for _ in tokens]
            await fill(trio.shuffler.database)
            answers = [
                await trio.post(task, body, token)
                for (body, _, _), token in zip(bodies, tokens, strict=True)
            ]
            codes = [answer.status_code for answer in answers]
            assert set(codes) == {201, 503}
            full = next(answer for answer in answers if answer.status_code == 503)
            assert full.json()["retry_after"] == 5 and "type" in full.json()
            await make_room(trio.shuffler.database)
            for (body, _, _), token, code in zip(bodies, tokens, codes, strict=True):
                again = (await trio.post(task, body, token)).status_code
                assert again == (200 if code == 201 else 201)
            await trio.results(task)
            (batch,) = await trio.analyzer.store.batches()
            tally = json.loads(batch.tally)
            assert tally["plus"] == [sum(plus for _, plus, _ in bodies)]

    asyncio.run(walk())


def test_a_disk_that_takes_no_more(tmp_path):
    """The operating system refuses to write: 503, no acknowledgement lost after a restart."""
    trio = Trio(tmp_path)
    task = trio.task(users=400)
    programs = Programs(trio)
    tokens = [new_token(EACH) for _ in range(300)]
    made = [known_report(task, 1)[0] for _ in tokens]
    limit = 300_000

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    url = programs.urls["shuffler"]
    try:
        programs.start("shuffler", preexec_fn=small_disk)
        wait_ready(url)
        httpx.put(
            f"{url}/tasks/{task.id.hex()}", content=task.canonical(), headers=bearing(COLLECTOR)
        ).raise_for_status()
        httpx.post(
            f"{url}/tokens",
            json={"sha256": [sha(token) for token in tokens]},
            headers=bearing(OPERATOR),
        ).raise_for_status()
        path = f"{url}/tasks/{task.id.hex()}/reports"
        with httpx.Client() as client:
            codes = [
                client.post(path, content=body, headers=bearing(token)).status_code
                for body, token in zip(made, tokens, strict=True)
            ]
        assert set(codes) == {201, 503}
        programs.kill("shuffler")
        programs.start("shuffler")
        wait_ready(url)
        status = httpx.get(f"{url}/status").json()["tasks"][0]
        assert status["have"] == codes.count(201)
        with httpx.Client() as client:
            again = [
                client.post(path, content=body, headers=bearing(token)).status_code
                for body, token in zip(made, tokens, strict=True)
            ]
        assert again == [200 if code == 201 else 201 for code in codes]
    finally:
        programs.stop()


def test_a_database_that_goes_away_comes_back(tmp_path, stores):
    """The connection is cut (PostgreSQL) or the file is busy: 503 first, then on as before."""

    async def walk():
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            tokens = await trio.enrol(3)
            if stores["shuffler"].startswith("sqlite"):
                database = trio.shuffler.database
                await database.rows("PRAGMA query_only=1")
                with pytest.raises(StorageUnavailable):
                    await database.rows("DELETE FROM tokens")
                await database._call(lambda: database._connection.execute("PRAGMA query_only=0"))
            else:
                trio.shuffler.database._connection.terminate()
            codes = []
            for token in tokens:
                codes.append((await trio.post(task, encrypt_report(task, 1), token)).status_code)
            assert codes[-1] == 201 and set(codes) <= {201, 503}
            assert (await trio.to_shuffler.get("/readyz")).status_code == 200

    asyncio.run(walk())


@pytest.mark.parametrize("outcome", ["done", "undone"])
@pytest.mark.parametrize("step", ["accept", "seal"])
def test_a_commit_whose_outcome_was_not_heard(tmp_path, stores, step, outcome, monkeypatch):
    """The connection breaks at the commit, which took effect or did not: the retry goes on from
    what the database says; nothing is lost, nothing overlaps."""

    async def walk():
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            store, database = trio.shuffler.store, trio.shuffler.database
            real, broken = database.run, []

            async def deaf(work):
                breaks = []

                async def watched(transaction):
                    before = len(store._sealed), store._next.get(1, 0)
                    result = await work(transaction)
                    after = len(store._sealed), store._next.get(1, 0)
                    if not broken and (
                        after[0] > before[0] if step == "seal" else after[1] > before[1] > 3
                    ):
                        broken.append(1)
                        breaks.append(1)
                        if outcome == "undone":
                            raise StorageUnavailable("not heard")
                    return result

                result = await real(watched)
                if breaks:
                    database.failures += 1
                    raise StorageUnavailable("not heard")
                return result

            monkeypatch.setattr(database, "run", deaf)
            made = [known_report(task, 1) for _ in range(2 * USERS)]
            tokens = await trio.enrol(len(made))
            for (body, _, _), token in zip(made, tokens, strict=True):
                answer = await trio.post(task, body, token)
                if answer.status_code == 503:
                    answer = await trio.post(task, body, token)
                assert answer.status_code in (200, 201), answer.text
            await trio.results(task, 2)
            assert broken
            tallies = [json.loads(batch.tally) for batch in await trio.analyzer.store.batches()]
            assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
            assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)

    asyncio.run(walk())


@pytest.mark.parametrize("jump", [-(10**9), 10**9])
def test_clock_jumps_release_nothing_short(tmp_path, monkeypatch, jump):
    """Without a top-up no clock matters; with one, an early release still has all its noise."""
    real = time.time

    async def walk():
        async with Trio(tmp_path).running() as trio:
            plain = trio.task("plain")
            topped = trio.task(
                "topped", batch={"top_up": "missing", "at_least": 3, "wait_seconds": 1000}
            )
            for task in (plain, topped):
                await trio.register(task)
                await trio.upload(task, [1] * 5)
            monkeypatch.setattr(time, "time", lambda: real() + jump)
            await asyncio.sleep(1.5)
            assert not (await trio.status(plain))["batches"]
            if jump > 0:
                (result,) = await trio.results(topped)
                assert result["reports"] == 5 and result["noise_shares"] == USERS
            else:
                assert not (await trio.status(topped))["batches"]

    asyncio.run(walk())


def fuzzed_request(task, good: bytes, token: str):
    """A request with something wrong in body, length, token, path or delivery."""
    body = bytearray(good)
    for _ in range(random.choice([0, 1, 3, 50])):
        body[random.randrange(len(body))] = random.randrange(256)
    cut = random.choice([None, None, 0, 1, 58, 59, 60, len(body) - 1])
    body = bytes(body[:cut]) + random.choice([b"", b"", b"x", os.urandom(100)])
    length = random.choice(
        [
            str(len(body)),
            str(task.report_bytes),
            "-1",
            "",
            "1e3",
            "9" * 5000,
            "٣",
            "0x10",
            str(2**63),
        ]
    )
    auth = random.choice(
        [
            f"Bearer {token}",
            "Bearer ",
            "Basic eA==",
            "",
            "Bearer \x00\xff",
            f"bearer  {token}",
            "Bearer " + "é" * 3000,
        ]
    )
    path = random.choice(
        [f"/tasks/{task.id.hex()}/reports"] * 6
        + [
            "/tasks//reports",
            f"/tasks/{task.id.hex()[:-1]}/reports",
            "/tasks/../reports",
            f"/tasks/{os.urandom(32).hex()}/reports",
        ]
    )
    headers = [(b"content-length", length.encode()), (b"authorization", auth.encode("utf-8"))]
    random.shuffle(headers)
    return path, headers[: random.choice([2, 2, 2, 1])], body


async def call(app, path, headers, body) -> int:
    """One request straight into the application, in pieces, sometimes broken off."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "client": ("203.0.113.9", 1),
        "server": ("s", 80),
        "root_path": "",
    }
    middle = random.randrange(len(body) + 1)
    events = [
        {"type": "http.request", "body": body[:middle], "more_body": True},
        {"type": "http.request", "body": body[middle:], "more_body": False},
    ]
    if random.random() < 0.05:
        events[1] = {"type": "http.disconnect"}
    statuses: list[int] = []

    async def receive():
        return events.pop(0) if events else {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    return statuses[0]


def test_ten_thousand_fuzzed_uploads_without_a_500(tmp_path):
    async def walk():
        async with Trio(tmp_path).running() as trio:
            task = trio.task(users=USERS)
            await trio.register(task)
            (token,) = await trio.enrol()
            good = encrypt_report(task, 1)
            app = trio.shuffler_transport.app
            counts: dict[int, int] = {}
            for start in range(0, FUZZED, 100):
                found = await asyncio.gather(
                    *(call(app, *fuzzed_request(task, good, token)) for _ in range(100))
                )
                for status in found:
                    counts[status] = counts.get(status, 0) + 1
                assert max(counts) < 500, (start, counts)
            # a wrong token shows as 403 only until the good report is stored; others test that
            assert {400, 401, 404, 411, 413} <= counts.keys()
            assert (await trio.status(task))["have"] <= 1
            assert (await trio.to_shuffler.get("/readyz")).status_code == 200

    asyncio.run(walk())


def test_fuzzed_deliveries_without_a_500(tmp_path):
    from test_analyzer import batch_of, deliver, made_reports

    async def walk():
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            messages, _, _ = made_reports(task)
            for _ in range(300):
                batch, body = batch_of(task, b"".join(messages))
                damaged = bytearray(body)
                for _ in range(random.choice([1, 2, 5])):
                    damaged[random.randrange(BATCH_HEADER)] = random.randrange(256)
                damaged = bytes(damaged[: random.choice([None, 70, 10, len(body) - 5])])
                answer = await deliver(trio, batch, damaged)
                assert answer.status_code < 500, answer.text
                assert answer.status_code != 201 or damaged == body

    asyncio.run(walk())
