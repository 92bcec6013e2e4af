"""Batches in parts: in order, encrypted while they wait, in a folder or a bucket."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bucket_server import bucket_running, held
from service_deliveries import stored_tallies
from service_replicas import replicas
from service_states import until
from service_trio import USERS, Trio, known_report

from shuffledp.documents.files import write_whole
from shuffledp.service.analyzer import receiving
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.shuffler.delivery import Delivery, NotDelivered
from shuffledp.service.shuffler.store import Batch, LeaseLost
from shuffledp.service.store.private import scratch_folder, sweep_scratch
from shuffledp.service.store.spool import BucketSpool, FolderSpool
from shuffledp.tasks import parts as parts_module
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.ordering import ordered
from shuffledp.tasks.parts import (
    Manifest,
    PartFacts,
    Sorter,
    as_rows,
    check_part,
    open_part,
    part_name,
    seal_part,
)
from shuffledp.tasks.wire import MESSAGE_BYTES, BatchHeader


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of a bucket on an S3 server on this machine."""
    with bucket_running() as uri:
        yield uri


# order


@pytest.mark.parametrize("secret", [None, b"s" * 32])
@pytest.mark.parametrize("kind", ["random", "skewed", "equal"])
def test_parts_are_in_order_whatever_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: bytes | None, kind: str
) -> None:
    """Sorted on disk in many runs, merged in several passes: the same bytes as in memory. Messages
    that were chosen to fall together need no more memory than others."""
    monkeypatch.setattr(parts_module, "SPILL_ROWS", 16)
    monkeypatch.setattr(parts_module, "MOST_MERGED", 3)
    rows = as_rows(os.urandom(700 * MESSAGE_BYTES)).copy()
    if kind == "skewed":
        rows[:600, :20] = 7
    elif kind == "equal":
        rows[:] = rows[0]
    sorter = Sorter(tmp_path, 4 * 50 * MESSAGE_BYTES, secret)
    for start in range(0, 700, 33):
        sorter.add(rows[start : start + 33].tobytes())
    assert len(list(tmp_path.iterdir())) > 9
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not any(row.tobytes() in raw for row in rows[::50])  # what is on disk is encrypted
    found = list(sorter.parts(100))
    assert [len(part) // MESSAGE_BYTES for part in found] == [100] * 7
    assert b"".join(found) == ordered(rows, secret).tobytes()
    assert not list(tmp_path.iterdir())


def test_parts_open_under_their_key_and_place_alone() -> None:
    data, secret, batch = os.urandom(10 * MESSAGE_BYTES), os.urandom(32), os.urandom(16)
    sealed = seal_part(data, secret, batch, 3)
    assert open_part(sealed, secret, batch, 3) == data and data not in sealed
    for other in ((secret, batch, 4), (secret, os.urandom(16), 3), (os.urandom(32), batch, 3)):
        with pytest.raises(TaskError):
            open_part(sealed, *other)
    facts = PartFacts(10, hashlib.sha256(data).digest())
    check_part(data, facts)
    with pytest.raises(TaskError):
        check_part(data[::-1], facts)


def manifest(rows: tuple[int, ...] = (1 << 18, 5)) -> Manifest:
    header = BatchHeader(
        task_id=b"t" * 32, batch_id=b"b" * 16, reports=20, top_up_messages=1, noise_shares=20
    )
    return Manifest(header=header, parts=tuple(PartFacts(one, bytes(32)) for one in rows))


def test_manifests_come_back_and_others_are_refused() -> None:
    text = manifest().to_bytes()
    assert Manifest.from_bytes(text) == manifest()
    assert Manifest.from_bytes(text).digest == hashlib.sha256(text).digest()
    changes = [
        (b'"shuffledp batch 1"', b'"shuffledp batch 2"'),
        (b'"reports":20', b'"reports":-1'),
        (b'"reports":20', b'"reports":20.0'),
        (b'"reports":20', b'"reports":true'),
        (b'"reports":20', b'"reports":4294967296'),
        (b'"message_bytes":52', b'"message_bytes":53'),
        (b"[5,", b"[0,"),
        (b"[5,", b"[262145,"),
        (b"[262144,", b"[262143,"),
        (b'"parts":', b'"parts" :'),
        (b"74" * 32, b"74" * 31),
        (b"{", b"["),
    ]
    for old, new in changes:
        assert old in text
        with pytest.raises(TaskError):
            Manifest.from_bytes(text.replace(old, new, 1))


# delivery


@pytest.mark.parametrize("deliver", ["parts", "manifest"])
def test_a_bucket_holds_nothing_after_the_batch_was_counted(
    tmp_path: Path, bucket: str, deliver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: while the analyzer does not answer, the parts are there, and no message can be read in
    them."""
    away = True
    real = Delivery._deliver

    async def held_up(self: Delivery, *words: object) -> None:
        if away:
            raise NotDelivered("away")
        await real(self, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(Delivery, "_deliver", held_up)

    async def walk() -> None:
        nonlocal away
        trio = Trio(tmp_path)
        trio.shuffler_config = replace(
            trio.shuffler_config,
            spool=bucket,
            signing_key=f"{tmp_path}/signing.json",
            deliver=deliver,
            report_keys=f"{tmp_path}/report_keys",
            gateway_keys=f"{tmp_path}/gateway_keys",
        )
        assert trio.shuffler_config.problems() == []
        if deliver == "manifest":
            trio.analyzer_config = replace(trio.analyzer_config, parts=bucket)
        async with trio.running():
            task = trio.task(batch={"top_up": "full"})
            await trio.register(task)
            made = [known_report(task, 1) for _ in range(USERS)]
            tokens = await trio.enrol(USERS)
            for (body, _, _), token in zip(made, tokens, strict=True):
                assert (await trio.post(task, body, token)).status_code == 201
            await until(lambda: len(held(bucket)) == 2)
            names = held(bucket)
            assert [name.rpartition("/")[2] for name in names] == ["manifest.json", "part-0000000"]
            folder = names[1].partition("run/")[2].rpartition("/")[0]
            sealed = BucketSpool(bucket).read(folder, "part-0000000")
            assert sealed is not None
            messages = [body[-MESSAGE_BYTES:] for body, _, _ in made]
            assert not any(one in sealed for one in messages)
            key = trio.shuffler.report_keys.key(task.id, 1)
            opened = open_part(sealed, key.parts_secret(folder), key.batch_id, 0)
            assert all(one in opened for one in messages) and len(as_rows(opened)) > USERS
            away = False
            (result,) = await trio.results(task)
            assert result["noise_shares"] == 2 * USERS
            await trio.deleted(task)
            assert held(bucket) == []
            assert (await stored_tallies(trio))[0]["dropped"]["unopened"] == 0

    asyncio.run(walk())


async def waits_with_its_top_up(trio: Trio) -> None:
    """Waits until the first batch is held, because a second draw of its top-up would show which
    messages of the first one are noise to an analyzer that has read them."""
    before = (await trio.shuffler.store.batches(1))[0].digest
    for _ in range(1200):
        (waiting,) = await trio.shuffler.store.batches(1)
        if "with a top-up is lost" in waiting.problem:
            break
        await asyncio.sleep(0.05)
    assert "with a top-up is lost" in waiting.problem
    assert waiting.state == "ordered" and before in (None, waiting.digest)


@pytest.mark.parametrize("top_up", ["none", "full"])
def test_parts_on_a_machine_that_is_gone_are_made_again(tmp_path: Path, top_up: str) -> None:
    """The batch was ordered, and half of it was sent, when the spool was lost. It is not ordered
    again with a top-up."""
    sent: list[int] = []

    async def broken(self: Delivery, batch: object, made: Manifest, number: int) -> None:
        sent.append(number)
        raise NotDelivered("broke off")

    async def walk() -> None:
        trio = Trio(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "_send", broken)
            async with trio.running():
                task = trio.task(batch={"top_up": top_up})
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                await until(lambda: sent)
                first = await trio.shuffler.store.batches(1)
        assert first[0].state == "ordered"
        for file in (tmp_path / "shuffler").rglob("*"):
            if file.is_file():
                file.unlink()
        async with trio.running():
            if top_up == "full":
                await waits_with_its_top_up(trio)
                return
            (result,) = await trio.results(task)
            assert result["noise_shares"] == USERS
            second = await trio.shuffler.store.batches(1)
            assert second[0].id == first[0].id and second[0].digest == first[0].digest

    asyncio.run(walk())


def test_a_complete_batch_is_not_ordered_again(tmp_path: Path) -> None:
    """The answer to the last request was lost, and then the spool: the analyzer is asked."""

    async def lost(self: Delivery, batch: object, made: Manifest) -> None:
        await real(self, batch, made)  # type: ignore[arg-type]
        raise NotDelivered("not heard")

    real = Delivery._deliver

    async def walk() -> None:
        trio = Trio(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "_deliver", lost)
            async with trio.running():
                task = trio.task(batch={"top_up": "full"})
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                (result,) = await trio.results(task)
        for file in (tmp_path / "shuffler").rglob("*"):
            if file.is_file():
                file.unlink()
        async with trio.running():
            assert (await trio.deleted(task))["batches"][0]["state"] == "deleted"
            assert await trio.results(task) == [result]

    asyncio.run(walk())


def sharing(folder: Path, bucket: str) -> Trio:
    """A trio whose shuffler and analyzer share a bucket."""
    trio = Trio(folder)
    trio.shuffler_config = replace(
        trio.shuffler_config,
        spool=bucket,
        signing_key=f"{folder}/signing.json",
        deliver="manifest",
        report_keys=f"{folder}/report_keys",
        gateway_keys=f"{folder}/gateway_keys",
    )
    trio.analyzer_config = replace(trio.analyzer_config, parts=bucket)
    return trio


@pytest.mark.parametrize("top_up", ["none", "full"])
def test_a_batch_in_a_bucket_may_be_ordered_again(tmp_path: Path, bucket: str, top_up: str) -> None:
    """The analyzer knows a manifest whose parts are gone; the batch is ordered again, with the same
    manifest, in another folder of the bucket. With a top-up it is not."""
    refused: list[str] = []
    real = Delivery._ask

    async def broken(
        self: Delivery, method: str, path: str, **content: object
    ) -> dict[str, object]:
        for name in held(bucket):
            if name.endswith("part-0000000"):
                folder = name.partition("run/")[2].rpartition("/")[0]
                BucketSpool(bucket).remove(folder)
        refused.append(path)
        return await real(self, method, path, **content)

    async def walk() -> None:
        trio = sharing(tmp_path, bucket)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "_ask", broken)
            async with trio.running():
                task = trio.task(batch={"top_up": top_up})
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                await until(lambda: refused)
        async with trio.running():
            if top_up == "full":
                await waits_with_its_top_up(trio)
                return
            await trio.results(task)
            await trio.deleted(task)
            assert held(bucket) == []

    asyncio.run(walk())


def test_a_key_is_destroyed_though_the_spool_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: the batch is finished when the spool is back."""
    away = True
    real = FolderSpool.remove

    def remove(self: FolderSpool, folder: str) -> None:
        if away:
            raise StorageUnavailable("away")
        real(self, folder)

    monkeypatch.setattr(FolderSpool, "remove", remove)

    async def walk() -> None:
        nonlocal away
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await trio.results(task)
            await until(lambda: trio.shuffler.report_keys.ended(task.id, 1))
            assert trio.shuffler.report_keys.ended(task.id, 1) == "delivered"
            away = False
            await trio.deleted(task)

    asyncio.run(walk())


def test_an_analyzer_that_always_asks_again_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch waits, and its problem is known; meanwhile others are delivered."""
    asked: list[str] = []

    async def again(self: Delivery, method: str, path: str, **content: object) -> dict[str, object]:
        asked.append(path)
        return {"state": "receiving", "missing": [0] * len(asked)}

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task()
            await trio.register(task)
            with monkeypatch.context() as patch:
                patch.setattr(Delivery, "_ask", again)
                await trio.upload(task, [1] * USERS)
                for _ in range(1200):
                    waiting = await trio.shuffler.store.batches(1)
                    if waiting and waiting[0].tries:
                        break
                    await asyncio.sleep(0.05)
            assert waiting and waiting[0].problem == "the analyzer keeps asking for the same parts"
            await trio.results(task)

    asyncio.run(walk())


def test_what_a_killed_process_left_of_sorting_is_removed(tmp_path: Path) -> None:
    """Twin: the folder of a process that still sorts stays."""
    with scratch_folder(tmp_path, "sorting-") as running:
        (tmp_path / "sorting-left").mkdir()
        (tmp_path / "sorting-left" / "run-1").write_bytes(b"x")
        (tmp_path / "other").mkdir()
        sweep_scratch(tmp_path, "sorting-")
        assert running.is_dir() and (tmp_path / "other").is_dir()
        assert not (tmp_path / "sorting-left").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["other"]


def test_a_bucket_is_checked_part_by_part_and_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request checks parts for a limited time; how far it came is durable."""
    written: list[tuple[str, bool]] = []
    real = write_whole

    def write(path: Path, content: bytes, *, durable: bool = False, secret: bool = False) -> None:
        written.append((path.name, durable))
        real(path, content, durable=durable, secret=secret)

    monkeypatch.setattr(receiving, "write_whole", write)
    monkeypatch.setattr(receiving, "CHECK_SECONDS", -1.0)
    monkeypatch.setattr(parts_module, "PART_ROWS", 3)
    secret, data = os.urandom(32), [os.urandom(3 * MESSAGE_BYTES) for _ in range(3)]
    facts = tuple(PartFacts(3, hashlib.sha256(part).digest()) for part in data)
    made = Manifest(header=manifest().header, parts=facts)
    batch, place = made.header.batch_id, f"{made.header.batch_id.hex()}/{'0' * 16}"
    for number, part in enumerate(data):
        name = parts_module.part_name(number)
        FolderSpool(f"{tmp_path}/bucket").write(place, name, seal_part(part, secret, batch, number))
    (tmp_path / "spool").mkdir()
    inbox = receiving.Inbox(AnalyzerConfig(spool=f"{tmp_path}/spool", parts=f"{tmp_path}/bucket"))
    inbox.begin(made, (place, secret))
    assert [inbox.check_shared(made) for _ in range(3)] == [False, False, True]
    assert all(durable for _, durable in written) and ("checked", True) in written


@pytest.mark.parametrize("harm", ["cut short", "nearly empty", "missing"])
@pytest.mark.parametrize("top_up", ["none", "full"])
def test_a_part_that_cannot_be_read_is_made_again(tmp_path: Path, harm: str, top_up: str) -> None:
    """The reports and the key are still there, so the batch is ordered again. With a top-up it is
    not: an analyzer that had read the first one would see which messages are noise."""
    digests: list[bytes] = []
    real = Delivery._send

    async def harmed(self: Delivery, batch: Batch, made: Manifest, number: int) -> None:
        digests.append(made.digest)
        (part,) = (tmp_path / "shuffler" / batch.folder).glob("part-*")
        if len(digests) == 1:
            data = part.read_bytes()
            part.write_bytes(data[: 4 if harm == "nearly empty" else len(data) // 2])
            if harm == "missing":
                part.unlink()
        await real(self, batch, made, number)

    async def walk() -> None:
        trio = Trio(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "_send", harmed)
            async with trio.running():
                task = trio.task(batch={"top_up": top_up})
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                if top_up == "full":
                    await waits_with_its_top_up(trio)
                    return
                (result,) = await trio.results(task)
                assert result["noise_shares"] == USERS
                await trio.deleted(task)
        assert not list((tmp_path / "shuffler").rglob("part-*"))

    asyncio.run(walk())
    assert len(set(digests)) == 1 and (len(digests) == 2 or top_up == "full")


def test_a_part_in_a_bucket_that_cannot_be_read_is_made_again(tmp_path: Path, bucket: str) -> None:
    """The analyzer refuses it, and the shuffler looks whether it is damaged."""
    folders: list[str] = []
    real = Delivery._ask

    async def harmed(
        self: Delivery, method: str, path: str, **content: object
    ) -> dict[str, object]:
        names = [name for name in held(bucket) if name.endswith("part-0000000")]
        folders.append(names[-1].partition("run/")[2].rpartition("/")[0])
        if len(folders) == 1:
            BucketSpool(bucket).write(folders[0], "part-0000000", b"damaged" * 9)
        return await real(self, method, path, **content)

    async def walk() -> None:
        trio = sharing(tmp_path, bucket)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "_ask", harmed)
            async with trio.running():
                task = trio.task()
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                (result,) = await trio.results(task)
                assert result["noise_shares"] == USERS
                await trio.deleted(task)
                (batch,) = await trio.shuffler.store.batches(1)
                assert batch.folder != folders[0]

    asyncio.run(walk())


def test_an_analyzer_that_lost_its_folder_receives_the_batch_again(tmp_path: Path) -> None:
    """It has the manifest in its store, but not in its spool, while parts are on their way."""
    lost: list[Path] = []
    real = Delivery._send

    async def emptied(self: Delivery, batch: Batch, made: Manifest, number: int) -> None:
        if not lost:
            lost.extend(Path(trio.analyzer_config.spool).glob(f"{batch.id.hex()}-*"))
            shutil.rmtree(lost[0])
        await real(self, batch, made, number)

    trio = Trio(tmp_path)

    async def walk() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "_send", emptied)
            async with trio.running():
                task = trio.task()
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                (result,) = await trio.results(task)
                assert result["noise_shares"] == USERS and len(lost) == 1

    asyncio.run(walk())


def test_a_process_that_hangs_in_an_export_changes_nothing_later(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """Its lease runs out while it writes a part; the other process draws another top-up, exports
    the batch and destroys its key. Then the first one continues."""
    stores = {"shuffler": postgres_database(), "analyzer": f"sqlite:{tmp_path}/analyzer.db"}
    exports = tmp_path / "exports"
    hung, wake = threading.Event(), threading.Event()

    def published() -> Manifest:
        (file,) = exports.glob("*/manifest.json")
        manifest = Manifest.from_bytes(file.read_bytes())
        for number, facts in enumerate(manifest.parts):
            check_part((file.parent / part_name(number)).read_bytes(), facts)
        return manifest

    async def walk() -> None:
        trio = Trio(tmp_path, stores, deliver="export", exports=str(exports))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Delivery, "deliver_next", _none)
            async with replicas(trio, 2) as found:
                first, second = found.servers
                rule = {"top_up": "missing", "at_least": 5, "wait_seconds": 10**6}
                task = trio.task(batch=rule)
                await trio.register(task)
                await trio.upload(task, [1] * 7)
                entry = first.tasks.by_id[task.id]
                state = await first.store.filling(entry.number)
                assert state is not None and await first.store.close_early(entry, state)
                await second.tasks.refresh()
                spool = first.delivery._exports
                assert spool is not None
                write = spool.write

                def slow(folder: str, name: str, data: bytes) -> None:
                    hung.set()
                    assert wake.wait(60)
                    write(folder, name, data)

                patch.setattr(spool, "write", slow)
                one = await first.store.lease()
                assert one is not None
                work = asyncio.create_task(first.delivery.advance(one, entry))
                try:
                    assert await asyncio.to_thread(hung.wait, 60)
                    patch.setattr(second.database, "now", f"({second.database.now} + 100)")
                    other = await second.store.lease()
                    assert other is not None and other.number == one.number
                    await second.delivery.advance(other, second.tasks.by_id[task.id])
                    assert other.state == "deleted"
                    before = published()
                finally:
                    wake.set()
                with pytest.raises(LeaseLost):
                    await work
                assert published() == before
                assert [folder.name for folder in exports.iterdir()] == [other.folder]

    asyncio.run(walk())


async def _none(_: Delivery) -> bool:
    return False


def test_an_export_is_published_by_the_process_that_continues_it(tmp_path: Path) -> None:
    """The first one ended between its record in the store and the manifest: the parts that were
    recorded are published, and no others are made."""
    exports = tmp_path / "exports"
    real = FolderSpool.write
    ended: list[str] = []
    parts: list[str] = []

    def ends(self: FolderSpool, folder: str, name: str, data: bytes) -> None:
        parts.extend([folder] if name.startswith("part-") else [])
        if name == "manifest.json" and not ended:
            ended.append(folder)
            raise StorageUnavailable("ended")
        real(self, folder, name, data)

    async def walk() -> None:
        trio = Trio(tmp_path, deliver="export", exports=str(exports))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FolderSpool, "write", ends)
            async with trio.running():
                task = trio.task(batch={"top_up": "full"})
                await trio.register(task)
                await trio.upload(task, [1] * USERS)
                await trio.deleted(task)
        assert [folder.name for folder in exports.iterdir()] == ended == parts

    asyncio.run(walk())


def test_a_process_that_stops_after_a_failure_gives_its_batch_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure was about to be recorded; otherwise the batch would wait for the lease's end."""
    recording = asyncio.Event()

    async def fails(*_: object, **__: object) -> dict[str, object]:
        raise NotDelivered("away")

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            store, real = trio.shuffler.store, trio.shuffler.store.give_back

            async def give_back(batch: Batch, problem: str, pause: int) -> None:
                if problem:
                    recording.set()
                    await asyncio.sleep(60)
                await real(batch, problem, pause)

            monkeypatch.setattr(Delivery, "_ask", fails)
            monkeypatch.setattr(store, "give_back", give_back)
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * USERS)
            await asyncio.wait_for(recording.wait(), 60)
        monkeypatch.undo()
        async with Trio(tmp_path).running() as trio:
            await trio.results(task)

    asyncio.run(walk())
