"""A store that goes back in time because an older dump takes its place."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from older_stores import answers, pg, psql, served, swapped
from service_replicas import replicas
from service_trio import OPERATOR, USERS, Trio, as_collector, bearing

from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.store import OLDER
from shuffledp.service.shuffler.watch import BEHIND
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task


def stores_of(folder: Path, url: str) -> dict[str, str]:
    """The stores of a trio whose shuffler uses this database."""
    return {"shuffler": url, "analyzer": f"sqlite:{folder}/analyzer.db"}


async def two_tasks(trio: Trio, reports: int = 0) -> tuple[Task, Task]:
    """Two registered tasks, each with some reports."""
    tasks = trio.task(), trio.task("another")
    for task in tasks:
        await trio.register(task)
        if reports:
            await trio.upload(task, [1] * reports)
    return tasks


@pytest.mark.parametrize("loss", ["renamed", "restored over it"])
def test_an_older_database_is_noticed_while_running(
    tmp_path: Path, postgres_database: Callable[[], str], loss: str
) -> None:
    """Five reports are in the copy, nine were acknowledged: the task stops, the status says why,
    no token answers twice. A task of which nothing was lost goes on."""
    url, copy = postgres_database(), postgres_database()
    stores = stores_of(tmp_path, url)
    dump = tmp_path / "dump"

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task, whole = await two_tasks(trio, 5)
            (once,) = await trio.enrol(1, ONCE_PREFIX)
            bodies, tokens = [encrypt_report(task, 1) for _ in range(4)], await trio.enrol(4)
            await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
            codes = await answers(trio, task, bodies, tokens)
            assert codes == [201] * 4
            assert (await trio.post(task, encrypt_report(task, 1), once)).status_code == 201
            if loss == "renamed":
                await asyncio.to_thread(pg, "pg_restore", f"--dbname={copy}", str(dump))
                await asyncio.to_thread(swapped, url, copy)
            else:
                await asyncio.to_thread(
                    pg, "pg_restore", "--clean", "--if-exists", f"--dbname={url}", str(dump)
                )
            again = [encrypt_report(task, 0) for _ in tokens]
            codes = await answers(trio, task, again, tokens)
            assert codes == [410] * 4
            status = await trio.status(task)
            assert (status["state"], status["reason"]) == ("closed", BEHIND)
            assert (await trio.to_shuffler.get("/metrics", headers=bearing(OPERATOR))).text.count(
                "shuffledp_shuffler_stopped_tasks 1.0"
            )
            fresh = await trio.enrol(2)
            codes = await answers(trio, whole, [encrypt_report(whole, 1) for _ in fresh], fresh)
            assert codes == [201] * 2
            # a token for one report in all may have been used where nobody knows
            (code,) = await answers(trio, whole, [encrypt_report(whole, 1)], [once])
            assert code == 403

    asyncio.run(walk())


def test_a_replica_that_knew_less_does_not_hide_the_loss(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """Two machines without a common folder: the one that acknowledged nothing is the first to use
    the older database, and stores more than was lost. The other one still sees the loss."""
    url, copy = postgres_database(), postgres_database()
    stores = stores_of(tmp_path, url)
    dump = tmp_path / "dump"

    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * 2)
            await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
            await trio.upload(task, [1] * 3)
        await asyncio.to_thread(pg, "pg_restore", f"--dbname={copy}", str(dump))
        await asyncio.to_thread(swapped, url, copy)
        elsewhere = Trio(tmp_path, stores, memory=f"{tmp_path}/elsewhere")
        async with elsewhere.running():
            await elsewhere.upload(task, [1] * 8)  # the position is beyond the lost one
        async with trio.running():
            assert (await trio.status(task))["reason"] == BEHIND

    asyncio.run(walk())


TABLES = (
    "batches, epochs, filling, health, histories, replicas, reports, store, tasks, tokens, used"
)


@pytest.mark.parametrize("how", ["tables made again", "rows alone"])
def test_a_dump_restored_in_one_step_is_noticed_by_the_next_statement(
    tmp_path: Path, postgres_database: Callable[[], str], how: str
) -> None:
    """No session breaks. One process acknowledged what the dump lacks; neither it nor the other
    one, which knows nothing of that, takes the same tokens again or any other report."""
    url, dump = postgres_database(), tmp_path / "dump"
    stores = stores_of(tmp_path, url)

    def restore() -> None:
        words = ["pg_restore", "--clean", "--if-exists", "--single-transaction"]
        words += [f"--dbname={url}", str(dump)]
        if how == "rows alone":
            text = Path(f"{dump}.sql").read_text("utf-8")
            Path(f"{dump}.sql").write_text(f"TRUNCATE {TABLES};\n{text}", "utf-8")
            words = ["psql", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", f"{dump}.sql"]
            words += ["-o", os.devnull, url]
        for tries_left in (4, 3, 2, 1, 0):
            try:
                return pg(*words)
            except subprocess.CalledProcessError:  # it and a server waited for each other's locks
                if not tries_left:
                    raise

    async def walk() -> None:
        async with replicas(Trio(tmp_path, stores), 2) as found:
            trio = found.trio
            task, whole = await two_tasks(trio)
            tokens, others = await trio.enrol(12), await trio.enrol(3)
            assert await served(found, 1, task, tokens[:5], 1) == [201] * 5
            assert await served(found, 1, whole, others[:1], 1) == [201]
            if how == "rows alone":
                kept = [f"--table={name}" for name in TABLES.split(", ")]
                words = ("--data-only", f"--file={dump}.sql", *kept)
                await asyncio.to_thread(pg, "pg_dump", *words, url)
            else:
                await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
            assert await served(found, 0, task, tokens[5:9], 1) == [201] * 4
            await asyncio.to_thread(restore)
            assert await served(found, 1, task, tokens[5:9], 0) == [410] * 4
            assert await served(found, 0, task, tokens[9:], 1) == [410] * 3
            status = await trio.status(task)
            assert (status["state"], status["reason"], status["have"]) == ("closed", BEHIND, 5)
            assert await served(found, 1, whole, others[1:2], 1) == [201]  # lost nothing
            assert await served(found, 0, whole, others[2:], 1) == [201]

    asyncio.run(walk())


def test_a_dump_that_is_being_restored_takes_no_reports(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """Table by table: the rows of the tokens that were used come last, and their key after them."""
    url = postgres_database()
    stores = stores_of(tmp_path, url)

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * 5)
            (token,) = await trio.enrol(1)
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
            sql = f"ALTER TABLE used DROP CONSTRAINT used_pkey; {end} pg_backend_pid()"
            await asyncio.to_thread(psql, url, f"{sql} AND datname = current_database()")
            for _ in range(12):  # more than there were sessions
                answer = await trio.post(task, encrypt_report(task, 1), token)
                assert answer.status_code == 503
            await asyncio.to_thread(psql, url, "ALTER TABLE used ADD PRIMARY KEY (task, name)")
            assert await answers(trio, task, [encrypt_report(task, 1)], [token]) == [201]

    asyncio.run(walk())


def test_two_histories_that_reached_the_same_epoch_are_told_apart(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """A failover loses nothing and raises the epoch to 2; then a dump from before it takes the
    store's place, which raises the dump's epoch to 2. A process on another machine stores more in
    it than was lost."""
    url, same, older = (postgres_database() for _ in range(3))
    stores = stores_of(tmp_path, url)
    dump, name = tmp_path / "dump", urlsplit(url).path.strip("/")
    other = url.replace(f"/{name}", "/postgres")

    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        async with trio.running():
            task, whole = await two_tasks(trio, 2)
        await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
        for copy in (same, older):
            await asyncio.to_thread(pg, "pg_restore", f"--dbname={copy}", str(dump))
        await asyncio.to_thread(swapped, url, same)
        async with trio.running():
            await trio.upload(task, [1] * 3)
            assert await trio.shuffler.database.rows("SELECT epoch FROM store") == [(2,)]
        await asyncio.to_thread(psql, other, f"ALTER DATABASE {name}_new RENAME TO {name}_first")
        await asyncio.to_thread(swapped, url, older)
        elsewhere = Trio(tmp_path, stores, memory=f"{tmp_path}/elsewhere")
        async with elsewhere.running():
            await elsewhere.upload(task, [1] * 8)
            assert await elsewhere.shuffler.database.rows("SELECT epoch FROM store") == [(2,)]
        async with trio.running():
            assert (await trio.status(task))["reason"] == BEHIND
            assert (await trio.status(whole))["state"] == "open"  # no further than in the dump

    asyncio.run(walk())


@pytest.mark.parametrize("memory", ["shared", "of another machine"])
def test_an_older_database_after_the_process_that_delivered_has_ended(
    tmp_path: Path, postgres_database: Callable[[], str], memory: str
) -> None:
    """One process fills and delivers a batch and ends; the other one meets the older database. It
    reads what the first remembered; without that, the batch's key was destroyed. A token that
    counts once in all tasks and was counted in that batch answers no other task."""
    url, copy = postgres_database(), postgres_database()
    stores = stores_of(tmp_path, url)
    dump = tmp_path / "dump"

    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        async with trio.running():
            task, other = await two_tasks(trio)
            (once,) = await trio.enrol(1, ONCE_PREFIX)
            tokens = await trio.enrol(USERS + 2)
            await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
            where = trio if memory == "shared" else Trio(tmp_path, stores, memory=f"{tmp_path}/2")
            first = Shuffler(where.shuffler_config, trio.analyzer_transport, trio.clock)
            await first.start()
            try:
                client = httpx2.AsyncClient(
                    transport=httpx2.ASGITransport(first.app()), base_url="http://shuffler"
                )
                async with client:
                    codes = {
                        (
                            await client.post(
                                f"/tasks/{one.id.hex()}/reports",
                                content=encrypt_report(one, 1),
                                headers=bearing(token),
                            )
                        ).status_code
                        for one, token in [
                            *((task, token) for token in [*tokens[: USERS - 1], once]),
                            *((other, token) for token in tokens[USERS:]),
                        ]
                    }
                assert codes == {201}
                await trio.deleted(task)
            finally:
                await first.stop()
            await asyncio.to_thread(pg, "pg_restore", f"--dbname={copy}", str(dump))
            await asyncio.to_thread(swapped, url, copy)
            if memory == "shared":
                again = [encrypt_report(other, 0) for _ in tokens[USERS:]]
                assert await answers(trio, other, again, tokens[USERS:]) == [410] * 2
                assert (await trio.status(other))["reason"] == BEHIND
            else:
                assert await answers(trio, other, [encrypt_report(other, 0)], [once]) == [403]
            status = await trio.status(task)
            assert status["state"] == "closed"
            # with a shared memory, what is noticed first decides
            assert status["reason"] in ((BEHIND, OLDER) if memory == "shared" else (OLDER,))

    asyncio.run(walk())


def test_a_lost_task_is_refused_by_processes_that_never_knew_it(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    url, dump = postgres_database(), tmp_path / "dump"
    stores = stores_of(tmp_path, url)

    async def walk() -> None:
        async with replicas(Trio(tmp_path, stores), 2) as found:
            trio = found.trio
            await trio.register(trio.task())
            lost, tokens = trio.task("lost"), await trio.enrol(1)
            await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
            await trio.register(lost)
            assert await served(found, 0, lost, tokens, 1) == [201]
            words = ("--clean", "--if-exists", "--single-transaction")
            await asyncio.to_thread(pg, "pg_restore", *words, f"--dbname={url}", str(dump))
            for server in found.servers:
                await server.watch.compare_now()
                await server.tasks.refresh()
            for client in found.clients:
                answer = await client.put(
                    f"/tasks/{lost.id.hex()}",
                    content=lost.canonical(),
                    headers=as_collector(lost.id),
                )
                assert answer.status_code == 409 and "acknowledged" in answer.json()["detail"]

    asyncio.run(walk())


def test_tasks_that_the_store_has_lost_are_counted_once(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """A task was registered after the dump. Its tokens for one report in all were perhaps used, and
    answer no other task; those that are enrolled afterwards do, also after further sessions."""
    url, copy = postgres_database(), postgres_database()
    stores = stores_of(tmp_path, url)
    dump = tmp_path / "dump"

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task, lost = trio.task(), trio.task("lost")
            await trio.register(task)
            (spent,) = await trio.enrol(1, ONCE_PREFIX)
            await asyncio.to_thread(pg, "pg_dump", "-Fc", f"--file={dump}", url)
            await trio.register(lost)
            assert (await trio.post(lost, encrypt_report(lost, 1), spent)).status_code == 201
            await asyncio.to_thread(pg, "pg_restore", f"--dbname={copy}", str(dump))
            await asyncio.to_thread(swapped, url, copy)
            assert await answers(trio, task, [encrypt_report(task, 1)], [spent]) == [403]
            (fresh,) = await trio.enrol(1, ONCE_PREFIX)
            await trio.shuffler.watch.compare_now()
            assert await answers(trio, task, [encrypt_report(task, 1)], [fresh]) == [201]

    asyncio.run(walk())
