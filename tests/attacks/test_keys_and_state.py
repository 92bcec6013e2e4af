"""Lost ledgers and replay memories, many small batches, keys that are retired or destroyed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from service_deliveries import batch_of, deliver, made_reports
from service_states import settled, waiting_with_reason
from service_trio import OPERATOR, USERS, Trio, bearing

from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.ordering import ordered
from shuffledp.tasks.replays import first_seen
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import MESSAGE_BYTES


async def deliver_honest(trio: Trio, task: Task) -> bytes:
    """Delivers a fresh batch of honest reports; gives its id."""
    messages, _, _ = made_reports(task)
    batch, body = batch_of(task, b"".join(messages))
    assert (await deliver(trio, batch, body)).status_code == 201
    return batch


@pytest.mark.attack("a lost or older ledger starts a new budget")
@pytest.mark.parametrize("loss", ["missing", "older"])
def test_a_lost_ledger_stops_publishing_until_it_is_restored(tmp_path: Path, loss: str) -> None:
    async def run() -> None:
        ledger, older = tmp_path / "ledger.json", tmp_path / "older.json"
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await deliver_honest(trio, task)
            await trio.results(task)
            shutil.copy(ledger, older)
            await deliver_honest(trio, task)
            await trio.results(task, 2)
        ledger.unlink()
        if loss == "older":
            shutil.copy(older, ledger)
        async with trio.running():  # after a restart, as after any loss
            await deliver_honest(trio, task)
            waiting = await waiting_with_reason(trio, task)
            assert waiting["state"] == "counted" and "restore-ledger" in waiting["problem"]
            assert len(await trio.results(task)) == 2
            assert ledger.exists() == (loss == "older")
            from service_trio import ANALYZER_OPERATOR

            for token, code in ((OPERATOR, 403), (ANALYZER_OPERATOR, 200)):
                answer = await trio.to_analyzer.post("/ledger/restore", headers=bearing(token))
                assert answer.status_code == code
            assert answer.json() == {"lines": 2 if loss == "missing" else 1}
            await trio.results(task, 3)  # the twin: with all its lines, the ledger is used again
            entries = json.loads(ledger.read_text())["entries"]
            assert len({entry["what"] for entry in entries}) == len(entries) == 3

    asyncio.run(run())


@pytest.mark.attack("lost replay memory counts reports again")
@pytest.mark.parametrize("loss", ["folder", "file"])
def test_lost_replay_memory_stops_counting(tmp_path: Path, loss: str) -> None:
    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            messages, _, _ = made_reports(task)
            batch, body = batch_of(task, b"".join(messages))
            assert (await deliver(trio, batch, body)).status_code == 201
            await trio.results(task)
            await deliver_honest(trio, task)
            await trio.results(task, 2)
        (memory,) = (tmp_path / "analyzer").glob("seen-*")
        kept = tmp_path / "kept"
        shutil.copytree(memory, kept)
        if loss == "folder":
            shutil.rmtree(memory)
        else:
            next(iter(memory.glob("*.enc"))).unlink()
        async with trio.running():
            again, body = batch_of(task, b"".join(messages))  # the first batch, under another id
            assert (await deliver(trio, again, body)).status_code == 201
            waiting = await waiting_with_reason(trio, task)
            assert waiting["state"] == "received" and "replay memory" in waiting["problem"]
            shutil.rmtree(memory, ignore_errors=True)
            shutil.copytree(kept, memory)  # the twin: brought back, it does its work
            found = await settled(trio, task, 3)
            assert found[-1]["state"] == "held" and "copies" in found[-1]["reason"]
            await deliver_honest(trio, task)
            assert (await settled(trio, task, 4))[-1]["state"] == "published"

    asyncio.run(run())


@contextmanager
def few_descriptors(more: int) -> Iterator[None]:
    """Lets this process open only so many files beyond those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + more, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.attack("many small batches exhaust the analyzer's descriptors")
def test_many_small_batches_stay_in_a_few_files(
    tmp_path: Path, scale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without waiting for the disk, which is not what this is about."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    from shuffledp.tasks.replays import ReplayMemory

    batches, size = 10_000 if scale > 1 else 300, 5
    random = np.random.default_rng(13)
    folder, kept = tmp_path / "seen", {}
    folder.mkdir()
    with few_descriptors(100):
        for number in range(batches):
            rows = random.integers(0, 256, (size, MESSAGE_BYTES), np.uint8)
            if number in (0, batches // 2):
                kept[number] = rows
            if number == batches - 1:  # copies of one early and one late message
                rows[0], rows[1] = kept[0][2], kept[batches // 2][3]
            rows = ordered(rows)
            memory = ReplayMemory(folder)
            memory.add(memory.waiting())
            assert memory.batches == number
            pages = list(
                first_seen([rows[:4], rows[4:]], memory.files(), memory.run_of(f"{number:032x}"))
            )
            replayed = sum(copies for _, copies in pages)
            assert replayed == (2 if number == batches - 1 else 0)
    assert len(list(folder.iterdir())) <= 60


@pytest.mark.attack("a crash while replay memory is merged")
@pytest.mark.parametrize("stop_at", ["merge", "index", "delete"])
def test_replay_memory_survives_a_crash_at_any_step(
    tmp_path: Path, stop_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shuffledp.tasks.replays as module

    def add_run(number: int) -> bytes:
        entries = np.sort(np.frombuffer(os.urandom(16 * 10), "S16"))
        module.ReplayMemory(tmp_path).run_of(f"{number:032x}").write_bytes(entries.tobytes())
        return entries.tobytes()

    class Crash(Exception):
        pass

    def crash(*_: object, **__: object) -> None:
        raise Crash

    written = [add_run(0)]
    for number in range(module.MERGED_RUNS - 1):
        memory = module.ReplayMemory(tmp_path)
        memory.add(memory.waiting())
        written.append(add_run(number + 1))
    with monkeypatch.context() as broken, pytest.raises(Crash):
        name = {"merge": "sync", "index": "write_whole"}.get(stop_at)
        if name:
            broken.setattr(module, name, crash)
        else:
            broken.setattr(module.ReplayMemory, "_delete", crash)
        memory = object.__new__(module.ReplayMemory)
        with monkeypatch.context() as reading:
            reading.setattr(module.ReplayMemory, "_delete", lambda *_: None)
            memory.__init__(tmp_path)  # type: ignore[misc]
            names = memory.waiting()
        memory.add(names)
    after = module.ReplayMemory(tmp_path)
    after.add(after.waiting())
    assert after.batches == module.MERGED_RUNS and after.waiting() == []
    found = b"".join(file.read_bytes() for file in after.files())
    both = [np.sort(np.frombuffer(data, "S16")) for data in (found, b"".join(written))]
    assert both[0].tobytes() == both[1].tobytes()


@pytest.mark.attack("a destroyed or retired key stays readable on the disk")
def test_destroyed_keys_are_overwritten_before_they_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = KeyFolder(tmp_path / "keys")
    key = folder.new()
    file = tmp_path / "keys" / "key-1.json"
    os.link(file, tmp_path / "old blocks")  # the same bytes on the disk, whatever becomes of names
    folder.retire(1)
    assert key.secret.hex() not in (tmp_path / "old blocks").read_text()
    size, durable = file.stat().st_size, []
    sync = os.fsync

    def note(handle: int) -> None:
        sync(handle)
        if file.exists() and os.path.samestat(os.fstat(handle), file.stat()):
            durable.append(file.read_bytes())

    monkeypatch.setattr(os, "fsync", note)
    folder.destroy(1)
    assert durable == [bytes(size)]  # in place, whole, and before the file lost its name
    assert folder.destroyed(1) and folder.new().key_id == 2  # the twin: a new key works
    assert not folder.destroyed(2) and folder.all()[0].public == folder.all()[0].public


@pytest.mark.attack("a batch for a destroyed key is retried forever")
def test_a_batch_for_a_destroyed_key_is_held(tmp_path: Path) -> None:
    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            tokens = len(await trio.upload(task, [1] * (USERS - 1)))
            assert tokens == USERS - 1
            trio.keys.destroy(1)
            await trio.upload(task, [1])
            (found,) = await settled(trio, task)
            assert found["state"] == "held" and "destroyed" in found["reason"]
            status = await trio.deleted(task)  # the shuffler is done with it
            assert status["batches"][0]["state"] == "deleted"
            assert list((tmp_path / "analyzer").glob("*.messages")) == []

    asyncio.run(run())


@pytest.mark.attack("a key folder that is away for a while loses batches")
def test_a_missing_key_file_holds_nothing_for_good(tmp_path: Path) -> None:
    """Only a key that was destroyed on purpose makes a batch held; a lost file may come back."""

    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            (tmp_path / "keys").rename(tmp_path / "away")
            messages, _, _ = made_reports(task)
            batch, body = batch_of(task, b"".join(messages))
            assert (await deliver(trio, batch, body)).status_code == 503
            (tmp_path / "away").rename(tmp_path / "keys")
            assert (await deliver(trio, batch, body)).status_code == 201
            assert (await settled(trio, task))[0]["state"] == "published"

    asyncio.run(run())


@pytest.mark.attack("reports under a retired key wait forever")
def test_waiting_reports_are_discarded_with_a_reason(tmp_path: Path) -> None:
    from shuffledp.service.shuffler.report_keys import FolderKeys

    async def run() -> None:
        trio = Trio(tmp_path)
        async with trio.running():
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * 7)
            trio.keys.retire(1)
        keys = FolderKeys(trio.shuffler_config.report_keys_folder)  # as `shuffler discard` does
        keys.open_alone()
        keys.destroy(task.id, 1, "discarded: the key was retired")
        keys.close()
        async with trio.running():
            status = await trio.status(task)
            assert status["have"] == 0 and status["batches"][0]["state"] == "discarded"
            rows = await trio.shuffler.database.rows("SELECT COUNT(*) FROM reports")
            assert rows[0][0] == 0
            trio.keys.new()  # the twin: a task that follows works
            after = trio.task("the task that follows")
            await trio.register(after)
            await trio.upload(after, [1] * USERS)
            await trio.results(after)

    asyncio.run(run())
