"""Stores that are copied while they are written, lost, or restored from another time."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

import apsw
import pytest
from service_programs import Programs
from service_trio import USERS, Trio

from shuffledp.cli.main import main
from shuffledp.errors import ParameterError
from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.shuffler.registry import SharedTasks
from shuffledp.service.store.backups import back_up, restore
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task


async def uploaded(trio: Trio, task: Task, count: int) -> None:
    await trio.upload(task, [1] * count)


@pytest.mark.attack("a store restored from before a delivery")
@pytest.mark.parametrize("repeat", [False, True])
def test_delivered_reports_are_not_counted_again_after_a_restore(
    tmp_path: Path, repeat: bool
) -> None:
    """Backup with 15 of 20 reports; their batch is delivered; the backup is restored. The store
    does not know who sent the other 5: they cannot answer again, unless the task takes one answer
    in every batch."""
    store, copy = f"sqlite:{tmp_path}/shuffler.db", tmp_path / "copy.db"

    async def first() -> tuple[Task, Task, str]:
        async with Trio(tmp_path).running() as trio:
            task, next_one = trio.task(repeat=repeat), trio.task("next")
            for one in (task, next_one):
                await trio.register(one)
            (token,) = await trio.enrol()
            await uploaded(trio, task, 15)
            size = await asyncio.to_thread(back_up, store, copy)
            assert size > 0 and copy.stat().st_mode & 0o077 == 0
            with pytest.raises(ConfigError, match="another service"):
                restore(copy, store)
            await uploaded(trio, task, 4)
            assert (await trio.post(task, encrypt_report(task, 1), token)).status_code == 201
            await trio.results(task)
            await trio.deleted(task)
            return task, next_one, token

    async def second(task: Task, next_one: Task, token: str) -> None:
        async with Trio(tmp_path).running() as trio:
            status = await trio.status(task)
            assert status["have"] == 0 and status["next_batch"] == 2
            assert [batch["state"] for batch in status["batches"]] == ["deleted"]
            again = await trio.post(task, encrypt_report(task, 1), token)
            assert again.status_code == (201 if repeat else 410), again.text
            await uploaded(trio, next_one, USERS)
            (result,) = await trio.results(next_one)
            assert result["reports"] == USERS
            if repeat:
                await uploaded(trio, task, USERS - 1)
            assert len(await trio.results(task, 1 + repeat)) == 1 + repeat

    found = asyncio.run(first())
    restore(copy, store)
    asyncio.run(second(*found))


def test_a_task_is_closed_though_the_first_start_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches that show that the copy is too old are dropped only after the task is closed."""
    store, copy = f"sqlite:{tmp_path}/shuffler.db", tmp_path / "copy.db"

    async def first() -> Task:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await uploaded(trio, task, 15)
            await asyncio.to_thread(back_up, store, copy)
            await uploaded(trio, task, 5)
            await trio.results(task)
            await trio.deleted(task)
            return task

    async def start(task: Task) -> int:
        async with Trio(tmp_path).running() as trio:
            (token,) = await trio.enrol()
            return (await trio.post(task, encrypt_report(task, 1), token)).status_code

    async def away(*_: object) -> None:
        raise StorageUnavailable("away")  # in the middle of the transaction

    task = asyncio.run(first())
    restore(copy, store)
    with monkeypatch.context() as patch:
        patch.setattr(SharedTasks, "store_state", away)
        with pytest.raises(StorageUnavailable):
            asyncio.run(start(task))
    assert asyncio.run(start(task)) == 410


def test_a_restore_goes_on_where_nothing_was_delivered(tmp_path: Path) -> None:
    """Twin: what waited when the backup was made still waits, and is counted once."""
    store, copy = f"sqlite:{tmp_path}/shuffler.db", tmp_path / "copy.db"

    async def first() -> Task:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await uploaded(trio, task, 15)
            assert main(["backup", "--store", store, "--output", str(copy)]) == 0
            return task

    async def second(task: Task) -> None:
        async with Trio(tmp_path).running() as trio:
            assert (await trio.status(task))["have"] == 15
            await uploaded(trio, task, 5)
            (result,) = await trio.results(task)
            assert result["reports"] == USERS

    task = asyncio.run(first())
    (tmp_path / "shuffler.db").unlink()
    assert main(["restore", "--store", store, "--backup", str(copy)]) == 0
    asyncio.run(second(task))


@pytest.mark.attack("a whole disk restored from before a delivery")
def test_a_snapshot_with_its_keys_delivers_the_same_batch(tmp_path: Path) -> None:
    """The batch has the same id and digest again: the analyzer takes it once."""
    parts = ("shuffler.db", "shuffler-keys", "shuffler-signing.json.seen")

    async def closed() -> Task:
        """All reports are there, but the analyzer is away."""
        trio = Trio(tmp_path)
        async with trio.analyzer_running():
            async with trio.shuffler_running():
                task = trio.task()
                await trio.register(task)
                await uploaded(trio, task, USERS - 1)
            return task

    task = asyncio.run(closed())
    body = encrypt_report(task, 1)
    for name in parts:
        copying = shutil.copytree if (tmp_path / name).is_dir() else shutil.copy
        copying(tmp_path / name, tmp_path / f"{name}.old")

    async def last() -> int:
        async with Trio(tmp_path).running() as trio:
            (token,) = await trio.enrol()
            assert (await trio.post(task, body, token)).status_code == 201
            await trio.results(task)
            await trio.deleted(task)
            return len(await trio.results(task))

    assert asyncio.run(last()) == 1
    for name in parts[1:]:
        shutil.rmtree(tmp_path / name)
    for file in tmp_path.glob("shuffler.db*"):
        if file.suffix != ".old":
            file.unlink()
    for name in parts:
        (tmp_path / f"{name}.old").rename(tmp_path / name)
    assert asyncio.run(last()) == 1


@pytest.mark.attack("a lost folder of report keys")
def test_lost_keys_stop_the_start_until_somebody_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def first() -> Task:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await uploaded(trio, task, 15)
            return task

    async def again() -> None:
        async with Trio(tmp_path).running() as trio:
            status = await trio.status(task)
            assert status["have"] == 0 and status["batches"][0]["state"] == "discarded"
            await uploaded(trio, task, USERS)
            assert len(await trio.results(task)) == 1

    task = asyncio.run(first())
    shutil.rmtree(tmp_path / "shuffler-keys")
    with pytest.raises(ConfigError, match="are missing in"):
        asyncio.run(again())
    words = ["shuffler", "discard", "--config", str(Programs(Trio(tmp_path)).config)]
    words += ["--task", task.id.hex(), "--batch", "1", "--reason", "the disk is lost"]
    assert main(words) == 0, capsys.readouterr().err
    asyncio.run(again())


@pytest.mark.attack("a backup of a store that is written all the time")
def test_a_hot_backup_ends_and_is_whole(tmp_path: Path, scale: int) -> None:
    store = f"sqlite:{tmp_path}/shuffler.db"

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task(users=200)
            await trio.register(task)
            writing = asyncio.create_task(uploaded(trio, task, 150))
            for number in range(3 * scale):
                copying = asyncio.to_thread(back_up, store, tmp_path / f"{number}.db")
                await asyncio.wait_for(copying, 60)
            await writing
            assert (await trio.status(task))["have"] == 150

    asyncio.run(walk())
    counts = []
    for number in range(3 * scale):
        copy = apsw.Connection(str(tmp_path / f"{number}.db"))
        assert list(copy.execute("PRAGMA integrity_check")) == [("ok",)]
        counts.append(next(iter(copy.execute("SELECT COUNT(*) FROM reports")))[0])
        copy.close()
    assert counts == sorted(counts)


def test_backups_refuse_what_they_cannot_do(tmp_path: Path) -> None:
    for store in ("postgresql://x/y", "mysql:", f"sqlite:{tmp_path}/none.db"):
        with pytest.raises(ParameterError):
            back_up(store, tmp_path / "copy.db")
    (tmp_path / "text.db").write_text("no database" * 1000)
    with pytest.raises(ParameterError, match="could not be made"):
        back_up(f"sqlite:{tmp_path}/text.db", tmp_path / "copy.db")
    with pytest.raises(ParameterError, match="exists"):
        back_up(f"sqlite:{tmp_path}/text.db", tmp_path / "text.db")
    with pytest.raises(ParameterError, match="could not be restored"):
        restore(tmp_path / "text.db", f"sqlite:{tmp_path}/new.db")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new.db.lock", "text.db"]


def test_only_a_store_of_the_same_role_is_restored(tmp_path: Path) -> None:
    """An empty file is a database to SQLite: a backup of it, or one restored, would be nothing."""
    for name in ("shuffler", "analyzer"):
        with contextlib.closing(apsw.Connection(str(tmp_path / f"{name}.db"))) as made:
            made.execute("CREATE TABLE schema_version (role TEXT PRIMARY KEY, version BIGINT)")
            made.execute("INSERT INTO schema_version VALUES (?, 10)", (name,))
    (tmp_path / "empty.db").touch()
    store, before = f"sqlite:{tmp_path}/shuffler.db", (tmp_path / "shuffler.db").read_bytes()
    with pytest.raises(ParameterError, match="not the store of a shuffledp server"):
        back_up(f"sqlite:{tmp_path}/empty.db", tmp_path / "copy.db")
    with pytest.raises(ParameterError, match="not the store of a shuffledp server"):
        restore(tmp_path / "empty.db", store)
    with pytest.raises(ParameterError, match=r"the analyzer's store, and .* is the shuffler's"):
        restore(tmp_path / "analyzer.db", store)
    assert (tmp_path / "shuffler.db").read_bytes() == before
    assert back_up(store, tmp_path / "copy.db") > 0
    for target in (store, f"sqlite:{tmp_path}/new.db", f"sqlite:{tmp_path}/empty.db"):
        restore(tmp_path / "copy.db", target)
