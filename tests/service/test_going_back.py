"""A store that goes back in time is noticed, while the shuffler runs and at its next start."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import postgres_server as postgres
import pytest
from older_stores import answers, psql, served
from service_replicas import replicas
from service_trio import USERS, Trio, as_collector

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.repeating import every
from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.arrivals import Verdict
from shuffledp.service.shuffler.filling import Filling
from shuffledp.service.shuffler.watch import BEHIND, Seen, Watch, read_seen
from shuffledp.service.store.private import lock_file
from shuffledp.service.tokens import ONCE_PREFIX
from shuffledp.tasks.log import Head
from shuffledp.tasks.reports import encrypt_report


def test_a_lagging_standby_that_is_promoted_is_noticed(
    tmp_path: Path, postgres_server: postgres.Server
) -> None:
    """The primary fails with four acknowledged reports that its standby has not received; the
    standby takes over at the same address while the shuffler runs."""

    async def walk() -> None:
        url = postgres_server.new_database()
        stores = {"shuffler": url, "analyzer": f"sqlite:{tmp_path}/analyzer.db"}
        async with Trio(tmp_path, stores).running() as trio:
            task, whole = trio.task(), trio.task("whole")
            for one in (task, whole):
                await trio.register(one)
                await trio.upload(one, [1] * 5)
            bodies, tokens = [encrypt_report(task, 1) for _ in range(4)], await trio.enrol(4)
            await asyncio.to_thread(postgres_server.copy_standby)
            assert await answers(trio, task, bodies, tokens) == [201] * 4
            await asyncio.to_thread(postgres_server.promote_standby)
            again = [encrypt_report(task, 0) for _ in tokens]
            assert await answers(trio, task, again, tokens) == [410] * 4
            status = await trio.status(task)
            assert (status["state"], status["reason"]) == ("closed", BEHIND)
            fresh = await trio.enrol(2)
            codes = await answers(trio, whole, [encrypt_report(whole, 1) for _ in fresh], fresh)
            assert codes == [201] * 2

    asyncio.run(walk())


def test_a_database_from_before_a_known_epoch_is_refused(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """The old primary comes back after a failover."""
    stores = {"shuffler": postgres_database(), "analyzer": f"sqlite:{tmp_path}/analyzer.db"}

    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        async with trio.running():
            await trio.shuffler.database.rows("UPDATE store SET history = 'another'")
        async with trio.running():
            rows = await trio.shuffler.database.rows("SELECT epoch FROM store")
            assert rows == [(2,)]
            await trio.shuffler.database.rows("UPDATE store SET epoch = 1")
        with pytest.raises(Exception, match="older than one that was used before"):
            async with trio.running():
                pass

    asyncio.run(walk())


def test_nothing_is_wrong_after_restarts(tmp_path: Path, stores: dict[str, str]) -> None:
    """The twin: kills, restarts and full batches never look like going back."""

    async def walk() -> None:
        for _ in range(3):
            async with Trio(tmp_path, stores).running() as trio:
                task = trio.task()
                await trio.register(task)
                await trio.upload(task, [1] * (USERS // 2 + 3))
                status = await trio.status(task)
                assert (status["state"], status["reason"]) == ("open", "")
        files = list((tmp_path / "shuffler-signing.json.seen").glob("*.seen"))
        assert len(files) == 1  # those of earlier processes are folded into it
        seen = read_seen(files[0].read_bytes())
        assert list(seen.positions.values()) == [2 << 32 | 19]

    asyncio.run(walk())


def test_a_task_that_the_store_has_lost_is_not_registered_again(tmp_path: Path) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * 3)
        for file in tmp_path.glob("shuffler.db*"):
            file.unlink()
        (tmp_path / "shuffler-keys" / "store").unlink()
        async with trio.running():
            answer = await trio.to_shuffler.put(
                f"/tasks/{task.id.hex()}", content=task.canonical(), headers=as_collector(task.id)
            )
            assert answer.status_code == 409 and "acknowledged" in answer.json()["detail"]

    asyncio.run(walk())


def test_a_file_that_was_not_written_completely_says_nothing() -> None:
    assert read_seen(b"") == read_seen(b"SDPSEEN1\0") == Seen(0, {})


def test_a_restored_shuffler_never_signs_a_second_history(tmp_path: Path) -> None:
    """The store goes back to before a head was witnessed; the file beside the signing key does not.
    An analyzer that shows another log from there on is refused."""

    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            await trio.register(trio.task("first"))
        backup = (tmp_path / "shuffler.db").read_bytes()
        old_log = (tmp_path / "analyzer.db").read_bytes()
        async with trio.running():
            await trio.register(trio.task("second"))
            signed = (await trio.to_shuffler.get("/log/head")).json()
            assert signed["size"] == 2
        for name, data in (("shuffler.db", backup), ("analyzer.db", old_log)):
            for file in tmp_path.glob(f"{name}*"):
                file.unlink()
            (tmp_path / name).write_bytes(data)
        async with trio.running():
            head = (await trio.to_shuffler.get("/log/head")).json()
            assert head == signed  # not the older one of the store
            other = trio.task("another second")
            path = f"/tasks/{other.id.hex()}"
            for server, code in ((trio.to_analyzer, 201), (trio.to_shuffler, 409)):
                answer = await server.put(
                    path, content=other.canonical(), headers=as_collector(other.id)
                )
                assert answer.status_code == code
            assert answer.json()["type"].endswith("log-forked")
        kept = json.loads((tmp_path / "shuffler-signing.json.seen/head.json").read_text())
        assert kept["size"] == 2
        assert isinstance(trio.shuffler, Shuffler)

    asyncio.run(walk())


def test_the_memory_of_a_process_that_ends_meanwhile_is_kept(tmp_path: Path) -> None:
    """Processes replace each other: the one that starts has not read what the other one remembers
    when that one ends."""

    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1])
            memory = tmp_path / "memory"
            old, ended, new = (
                Watch(memory, trio.shuffler.database, trio.shuffler.tasks) for _ in range(3)
            )
            old.open()
            await trio.shuffler.database.run(old.compare)
            ended.open()
            ended.close()
            new.open()
            entry = trio.shuffler.tasks.find(task.id.hex())
            old.reached(entry, Filling(7, 7))
            old.close()
            await trio.shuffler.database.run(new.compare)
            new.close()
            seen = [read_seen(file.read_bytes()) for file in memory.glob("*.seen")]
            assert len(seen) == 2  # that of `ended` was folded into the one of `new`
            assert Filling(7, 7).position in [p for one in seen for p in one.positions.values()]

    asyncio.run(walk())


def test_a_retry_is_acknowledged_by_a_process_that_remembers_it(tmp_path: Path) -> None:
    """The report was stored by a process that was killed before it remembered how far it was."""

    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            (token,) = await trio.enrol(1)
            body = encrypt_report(task, 1)
            assert (await trio.post(task, body, token)).status_code == 201
            watch, entry = trio.shuffler.watch, trio.shuffler.tasks.find(task.id.hex())
            watch._positions.clear()
            assert (await trio.post(task, body, token)).status_code == 200
            assert watch.position(entry) == Filling(1, 1).position

    asyncio.run(walk())


def test_one_time_tokens_after_a_delivered_batch_was_lost(tmp_path: Path) -> None:
    """The store goes back to before a batch was full that was delivered since. A token that counts
    once in all tasks may have been spent in it, and answers no other task; tokens that are enrolled
    afterwards do."""

    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task, other = trio.task(), trio.task("other")
            for one in (task, other):
                await trio.register(one)
            (spent,) = await trio.enrol(1, ONCE_PREFIX)
            await trio.upload(task, [1] * (USERS - 1))
        backup = (tmp_path / "shuffler.db").read_bytes()
        async with trio.running():
            assert (await trio.post(task, encrypt_report(task, 1), spent)).status_code == 201
            await trio.deleted(task)
        for file in tmp_path.glob("shuffler.db*"):
            file.unlink()
        (tmp_path / "shuffler.db").write_bytes(backup)
        async with trio.running():
            assert (await trio.status(task))["state"] == "closed"
            again = await trio.post(other, encrypt_report(other, 1), spent)
            assert again.status_code == 403
            (fresh,) = await trio.enrol(1, ONCE_PREFIX)
            assert (await trio.post(other, encrypt_report(other, 1), fresh)).status_code == 201

    asyncio.run(walk())


@pytest.mark.parametrize("change", ["changes = 1", "changes = 3, epoch = epoch + 1"])
def test_a_task_that_the_store_has_lost_is_forgotten(tmp_path: Path, change: str) -> None:
    """Its number may be another task's by now. The second store was changed after it went back, so
    its changes are as many as before."""

    async def walk() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            first, second = trio.task("first"), trio.task("second")
            for one in (first, second):
                await trio.register(one)
            database, tasks = trio.shuffler.database, trio.shuffler.tasks
            await tasks.refresh()
            await database.rows("DELETE FROM tasks WHERE id = $1", second.id)
            await database.rows(f"UPDATE store SET {change}")
            await tasks.refresh()
            assert list(tasks.by_id) == [first.id]
            assert (await trio.post(second, b"", "x")).status_code == 404

    asyncio.run(walk())


def test_keys_in_memory_are_asked_for_again_in_a_new_session(tmp_path: Path) -> None:
    """Another process may have destroyed one, and the store may not know it any more."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            keys, database = trio.shuffler.report_keys, trio.shuffler.database
            keys.key(bytes(32), 1)
            assert keys.known(bytes(32), 1) is not None and database.on_session is not None
            await database.run(trio.shuffler._new_session)
            assert keys.known(bytes(32), 1) is None
            assert database.on_session == trio.shuffler._new_session

    asyncio.run(walk())


def test_batch_keys_are_asked_for_outside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that keeps keys may take long. Batches that are over are not asked for."""
    asked: list[tuple[int, bool]] = []

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await trio.deleted(task)

            def ended(_: bytes, number: int) -> str:
                asked.append((number, threading.current_thread() is threading.main_thread()))
                return ""

            monkeypatch.setattr(trio.shuffler.report_keys, "ended", ended)
            await trio.shuffler.store.reconcile(trio.shuffler.tasks.find(task.id.hex()))
            assert asked == [(2, False)]

    asyncio.run(walk())


def test_a_task_that_cannot_close_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch could not leave early; the next task's does."""

    async def walk() -> None:
        trio = Trio(tmp_path)
        rule = {"top_up": "full", "at_least": 1, "wait_seconds": 60}
        async with trio.running():
            first, second = trio.task("first", batch=rule), trio.task("second", batch=rule)
            for one in (first, second):
                await trio.register(one)
                await trio.upload(one, [1])
            store, real = trio.shuffler.store, trio.shuffler.store.close_early

            async def close_early(entry: RegisteredTask, state: Filling) -> bool:
                if entry.task.id == first.id:
                    raise StorageUnavailable("away")
                return await real(entry, state)

            monkeypatch.setattr(store, "close_early", close_early)
            trio.seconds_ahead = 3600
            await trio.shuffler.delivery.close_due()
            states = {number: state.number for number, state in (await store.all_filling()).items()}
            assert states == {1: 1, 2: 2}

    asyncio.run(walk())


def test_a_disk_that_was_put_back_is_noticed_by_processes_that_knew_nothing(
    tmp_path: Path, postgres_server: postgres.Server
) -> None:
    """A snapshot of PostgreSQL's disk has the same system, timeline and tables. The process that
    acknowledged the rest has ended; the other one ran all the while."""

    async def walk() -> None:
        url = postgres_server.new_database()
        stores = {"shuffler": url, "analyzer": f"sqlite:{tmp_path}/analyzer.db"}
        async with replicas(Trio(tmp_path, stores), 2) as found:
            task = found.trio.task()
            await found.trio.register(task)
            tokens = await found.trio.enrol(7)
            await asyncio.to_thread(postgres_server.copy_disk)
            assert await served(found, 1, task, tokens[:5], 1) == [201] * 5
            await found.servers[1].stop()
            await asyncio.to_thread(postgres_server.put_disk_back)
            assert await served(found, 0, task, tokens, 0) == [410] * 7
            assert (await found.trio.status(task))["reason"] == BEHIND

    asyncio.run(walk())


def test_a_batch_that_is_delivered_meanwhile_ends_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process delivers a batch and destroys its key after this one has read its state: the
    store is not older than that."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * 3)
            store, entry = trio.shuffler.store, trio.shuffler.tasks.find(task.id.hex())
            database = trio.shuffler.database

            async def deliver() -> None:
                await database.rows("UPDATE filling SET number = 2, reports = 0")

            real = store.filling

            async def reads(number: int) -> Filling | None:
                state = await real(number)
                if state is not None and state.number == 1:
                    await deliver()
                    trio.shuffler.report_keys.destroy(task.id, 1)
                return state

            monkeypatch.setattr(store, "filling", reads)
            await store.reconcile(entry)
            status = await trio.status(task)
            assert (status["state"], status["reason"]) == ("open", "")

    asyncio.run(walk())


def test_reports_of_a_session_before_a_failover_are_not_acknowledged(
    tmp_path: Path, postgres_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store commits, and another server takes its place before the position is remembered: it
    is not known whether that one has the reports."""
    stores = {"shuffler": postgres_database(), "analyzer": f"sqlite:{tmp_path}/analyzer.db"}

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            (token,) = await trio.enrol(1)
            accepting, watch = trio.shuffler.accepting, trio.shuffler.watch
            real = accepting._accept

            async def accept(*words: Any) -> list[Verdict]:
                verdicts = await real(*words)
                watch.server = "another"
                return verdicts

            monkeypatch.setattr(accepting, "_accept", accept)
            body = encrypt_report(task, 1)
            assert (await trio.post(task, body, token)).status_code == 503
            monkeypatch.setattr(accepting, "_accept", real)
            assert (await trio.post(task, body, token)).status_code == 200

    asyncio.run(walk())


def test_a_store_that_is_away_or_read_only_for_a_while_ends_nothing(
    tmp_path: Path, postgres_server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby answers before it is promoted, and later the database has another name for a while:
    uploads are told to come back, and no background work ends."""
    monkeypatch.setattr(
        "shuffledp.service.shuffler.app.every",
        lambda seconds, *work: every(min(seconds, 0.05), *work),
    )

    async def walk() -> None:
        url = postgres_server.new_database()
        name = urlsplit(url).path.strip("/")
        other = url.replace(f"/{name}", "/postgres")
        stores = {"shuffler": url, "analyzer": f"sqlite:{tmp_path}/analyzer.db"}
        async with Trio(tmp_path, stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            first, second = await trio.enrol(2)

            async def post(token: str) -> int:
                await asyncio.sleep(0.3)
                return (await trio.post(task, encrypt_report(task, 1), token)).status_code

            await asyncio.to_thread(postgres_server.copy_standby)
            await asyncio.to_thread(postgres_server.start_standby)
            assert await post(first) == 503
            await asyncio.to_thread(postgres_server.promote)
            assert await answers(trio, task, [encrypt_report(task, 1)], [first]) == [201]
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
            for sql in (
                f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
                f"{end}'{name}'",
                f"ALTER DATABASE {name} RENAME TO away",
            ):
                await asyncio.to_thread(psql, other, sql)
            assert await post(second) == 503
            for sql in (
                f"ALTER DATABASE away RENAME TO {name}",
                f"ALTER DATABASE {name} ALLOW_CONNECTIONS true",
            ):
                await asyncio.to_thread(psql, other, sql)
            assert await answers(trio, task, [encrypt_report(task, 1)], [second]) == [201]
            assert not [work for work in trio.shuffler._work if work.done()]
            assert (await trio.to_shuffler.get("/readyz")).status_code == 200

    asyncio.run(walk())


def test_the_event_loop_goes_on_while_another_process_has_the_head(tmp_path: Path) -> None:
    """The witness waits for the file's lock, and nobody else waits for the witness."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            await trio.register(trio.task("first"))
            path = trio.shuffler.witness._file.with_suffix(".lock")
            held = await asyncio.to_thread(lock_file, path, 1)
            assert held is not None
            registering = asyncio.create_task(trio.register(trio.task("second")))
            for _ in range(40):
                started = time.monotonic()
                answer = await trio.to_shuffler.get("/livez")
                assert answer.status_code == 200 and time.monotonic() - started < 5
                await asyncio.sleep(0.02)
            assert not registering.done()
            held.release()
            await registering
            assert (await trio.to_shuffler.get("/log/head")).json()["size"] == 2

    asyncio.run(walk())


def test_no_lock_is_held_while_the_analyzer_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a head that another process kept meanwhile is never replaced by one that was not compared
    with it."""

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            await trio.register(trio.task("first"))
            witness = trio.shuffler.witness
            real, asked = witness._continued, list[int]()

            async def continued(last: Head | None, wanted: Head | None) -> Head:
                head = await real(last, wanted)
                held = lock_file(witness._file.with_suffix(".lock"), 0)
                assert held is not None
                held.release()
                asked.append(last.size if last else 0)
                if len(asked) == 1:  # another process witnesses this head first
                    assert await witness._keep(head, last)
                return head

            monkeypatch.setattr(witness, "_continued", continued)
            await trio.register(trio.task("second"))
            assert asked == [1, 2, 1]  # then the kept head, and the one in the store

    asyncio.run(walk())
