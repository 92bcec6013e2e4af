"""Full disks, lost connections, jumping clocks: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import TypeVar

import httpx2
import pytest
from service_deliveries import stored_tallies
from service_programs import Programs
from service_trio import OPERATOR, USERS, Trio, bearing, known_report

from shuffledp.service.client.collector import ask
from shuffledp.service.demo import wait_ready
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.store.database import Database, Transaction, Work
from shuffledp.service.store.postgres import PostgresDatabase
from shuffledp.service.store.sqlite import SqliteDatabase
from shuffledp.tasks.reports import encrypt_report

T = TypeVar("T")
FULL = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF (SELECT COUNT(*) FROM reports) >= 5 THEN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
    END IF; RETURN NULL; END $$
"""


async def fill(database: Database) -> None:
    """Leaves room for a few reports: SQLite by its own limit; PostgreSQL by raising, inside the
    server, the error that a full disk gives."""
    if isinstance(database, SqliteDatabase):
        await database._call(lambda: database._connection.execute("VACUUM"))  # no free pages
        ((pages,),) = await database.rows("PRAGMA page_count")
        await database.rows(f"PRAGMA max_page_count={pages + 3}")
    else:
        await database.rows(FULL)
        await database.rows(
            "CREATE TRIGGER full_disk AFTER INSERT ON reports EXECUTE FUNCTION full_disk()"
        )


async def make_room(database: Database) -> None:
    if isinstance(database, SqliteDatabase):
        await database.rows("PRAGMA max_page_count=1000000")
    else:
        await database.rows("DROP TRIGGER full_disk ON reports")


def test_a_full_store_acknowledges_nothing_and_recovers(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    """The store says that it is full; the same bytes are taken once there is room."""

    async def walk() -> None:
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
            (tally,) = await stored_tallies(trio)
            assert tally["plus"] == [sum(plus for _, plus, _ in bodies)]

    asyncio.run(walk())


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """The operating system refuses to write: 503, no acknowledgement lost after a restart."""
    trio = Trio(tmp_path)
    task = trio.task(users=400)
    programs = Programs(trio)
    limit = 300_000

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    url = programs.urls["shuffler"]
    try:
        programs.start("analyzer")
        programs.start("shuffler", before=small_disk)
        for server in programs.urls.values():
            wait_ready(server)
        programs.register(task)
        tokens = programs.enrol(300)
        made = [known_report(task, 1)[0] for _ in tokens]
        path = f"{url}/tasks/{task.id.hex()}/reports"
        with httpx2.Client() as client:
            codes = [
                client.post(path, content=body, headers=bearing(token)).status_code
                for body, token in zip(made, tokens, strict=True)
            ]
        assert set(codes) == {201, 503}
        programs.kill("shuffler")
        programs.start("shuffler")
        wait_ready(url)
        status = ask(url, "/status", OPERATOR, fields=["tasks"])["tasks"][0]
        assert status["have"] == codes.count(201)
        with httpx2.Client() as client:
            again = [
                client.post(path, content=body, headers=bearing(token)).status_code
                for body, token in zip(made, tokens, strict=True)
            ]
        assert again == [200 if code == 201 else 201 for code in codes]
    finally:
        programs.stop()


def test_a_database_that_goes_away_comes_back(tmp_path: Path, stores: dict[str, str]) -> None:
    """The connection is cut (PostgreSQL) or the file is busy: 503 first, then on as before."""

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            tokens = await trio.enrol(3)
            database = trio.shuffler.database
            if isinstance(database, SqliteDatabase):
                await database.rows("PRAGMA query_only=1")
                with pytest.raises(StorageUnavailable):
                    await database.rows("DELETE FROM tokens")
                await database._call(lambda: database._connection.execute("PRAGMA query_only=0"))
            else:
                assert isinstance(database, PostgresDatabase)
                for connection in (*database._idle, *database._busy):
                    connection.terminate()
            codes = []
            for token in tokens:
                codes.append((await trio.post(task, encrypt_report(task, 1), token)).status_code)
            assert codes[-1] == 201 and set(codes) <= {201, 503}
            assert (await trio.to_shuffler.get("/readyz")).status_code == 200

    asyncio.run(walk())


async def _stored(transaction: Transaction) -> tuple[int, int]:
    """How many batches and how many reports there are."""
    counts = [
        await transaction.rows(f"SELECT COUNT(*) FROM {table}") for table in ("batches", "reports")
    ]
    return int(counts[0][0][0]), int(counts[1][0][0])


@pytest.mark.parametrize("outcome", ["done", "undone"])
@pytest.mark.parametrize("step", ["accept", "close"])
def test_a_commit_whose_outcome_was_not_heard(
    tmp_path: Path, stores: dict[str, str], step: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks at the commit, which took effect or did not: the retry goes on from
    what the database says; nothing is lost, nothing overlaps."""

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            database = trio.shuffler.database
            real = database.run
            broken: list[int] = []

            async def deaf(work: Work[T], *, atomic: bool = True) -> T:
                breaks: list[int] = []

                async def watched(transaction: Transaction) -> T:
                    before = await _stored(transaction)
                    result = await work(transaction)
                    after = await _stored(transaction)
                    if not broken and (
                        after[0] > before[0] if step == "close" else after[1] > before[1] > 3
                    ):
                        broken.append(1)
                        breaks.append(1)
                        if outcome == "undone":
                            raise StorageUnavailable("not heard")
                    return result

                result = await real(watched, atomic=True)  # what is undone is undone whole
                if breaks:
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
            tallies = await stored_tallies(trio)
            assert sum(tally["plus"][0] for tally in tallies) == sum(plus for _, plus, _ in made)
            assert all(tally["dropped"]["replayed"] == 0 for tally in tallies)

    asyncio.run(walk())


@pytest.mark.parametrize("jump", [-(10**9), 10**9])
def test_clock_jumps_release_nothing_short(tmp_path: Path, jump: int) -> None:
    """Without a top-up no clock matters; with one, an early release still has all its noise."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            plain = trio.task("plain")
            topped = trio.task(
                "topped", batch={"top_up": "missing", "at_least": 3, "wait_seconds": 1000}
            )
            for task in (plain, topped):
                await trio.register(task)
                await trio.upload(task, [1] * 5)
            trio.seconds_ahead = jump
            await trio.shuffler.delivery.close_due()
            assert not (await trio.status(plain))["batches"]
            if jump > 0:
                (result,) = await trio.results(topped)
                assert result["reports"] == 5 and result["noise_shares"] == USERS
            else:
                assert not (await trio.status(topped))["batches"]

    asyncio.run(walk())
