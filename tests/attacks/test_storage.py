"""What is left of delivered reports, and tokens that are used too often."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import postgres_server as postgres
import pytest
from service_needs import missing
from service_programs import Programs
from service_trio import TRUSTING, USERS, Trio

from shuffledp.service.client.sending import Client
from shuffledp.service.demo import wait_ready
from shuffledp.service.shuffler.arrivals import Arrival, Verdict
from shuffledp.service.shuffler.report_keys import ReportKeys
from shuffledp.service.tokens import ONCE_PREFIX, token_hash
from shuffledp.tasks import parts as parts_module
from shuffledp.tasks.ordering import Rows
from shuffledp.tasks.parts import Sorter
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import ENCAPSULATED_KEY_BYTES, MESSAGE_BYTES, REPORT_HEADER_BYTES


@dataclass
class Place:
    """The stores of a trio, and the folder in which the shuffler's database keeps its files."""

    folder: Path
    stores: dict[str, str]
    files: tuple[Path, ...]

    def found(self, *pieces: bytes) -> list[bytes]:
        """Those of the pieces that are in any of the shuffler's files."""
        contents = [
            file.read_bytes()
            for top in self.files
            for file in ([top] if top.is_file() else top.rglob("*"))
            if file.is_file()
        ]
        return [piece for piece in pieces if any(piece in content for content in contents)]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Path, str]]:
    """PostgreSQL's programs, and the folder of a server whose files are searched."""
    programs = postgres.programs()
    if programs is None:
        missing("PostgreSQL", postgres.HOW)
        return
    with postgres.running(programs) as folder:
        yield programs, folder


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    roles = ("shuffler", "analyzer")
    own = (tmp_path / "shuffler", tmp_path / "shuffler-keys")
    if request.param == "sqlite":
        database = [tmp_path / f"shuffler.db{end}" for end in ("", "-wal", "-shm", ".lock")]
        stores = {role: f"sqlite:{tmp_path}/{role}.db" for role in roles}
        return Place(tmp_path, stores, (*own, *database))
    programs, folder = request.getfixturevalue("server")
    stores = {role: postgres.new_database(programs, folder) for role in roles}
    return Place(tmp_path, stores, (*own, Path(folder, "data")))


def traces(bodies: Iterable[bytes]) -> list[bytes]:
    """The encapsulated keys of the first message of each report."""
    return [
        body[REPORT_HEADER_BYTES : REPORT_HEADER_BYTES + ENCAPSULATED_KEY_BYTES] for body in bodies
    ]


def secrets(trio: Trio) -> list[bytes]:
    return [file.read_bytes() for file in (trio.folder / "shuffler-keys").glob("*.key")]


@pytest.mark.attack("delivered reports in the store's log and free pages")
def test_nothing_readable_is_left_of_delivered_reports(place: Place) -> None:
    """Twin: before the delivery the stored bytes are in the files, and the key opens them."""

    async def walk() -> None:
        async with Trio(place.folder, place.stores).running() as trio:
            task = trio.task(batch={"top_up": "full"}, order="uniform")
            await trio.register(task)
            bodies = await trio.upload(task, [1] * (USERS - 1))
            rows = await trio.shuffler.database.rows("SELECT name, messages FROM reports")
            stored = [messages for _, messages in rows]
            (secret,) = secrets(trio)
            key = trio.shuffler.report_keys.key(task.id, 1)
            opened = {key.decrypt(messages, name) for name, messages in rows}
            assert opened == {body[REPORT_HEADER_BYTES:] for body in bodies}
            found = place.found(*(text[:64] for text in stored))
            assert len(found) > USERS / 2  # PostgreSQL's log has headers in between
            assert place.found(secret) == [secret]
            assert place.found(*traces(bodies)) == []
            bodies += await trio.upload(task, [1])
            await trio.results(task)
            assert (await trio.deleted(task))["batches"][0]["state"] == "deleted"
            assert place.found(secret, *traces(bodies)) == [] and secrets(trio) == []
        assert place.found(secret, *traces(bodies)) == []

    asyncio.run(walk())


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[tuple[Path, Path]]:
    """(where it is mounted, its raw image) of a small ext4 disk."""
    image, place = folder / "disk.img", folder / "disk"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place, image
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.attack("delivered reports in the raw blocks of a disk")
def test_the_raw_disk_holds_nothing_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Store, spool and keys on one disk, where the batch is also sorted, in many runs: after the
    delivery no message and no key of the batch is in any block, used or free. Twins: before, the
    key is there, and the runs are."""
    runs: list[bytes] = []

    class FewRows(Sorter):
        """Sorts with memory for few messages."""

        def __init__(self, folder: Path, _: int, order_secret: bytes | None = None) -> None:
            super().__init__(folder, 4 * 16 * MESSAGE_BYTES, order_secret)

        def add(self, data: bytes) -> None:
            for start in range(0, len(data), 16 * MESSAGE_BYTES):
                super().add(data[start : start + 16 * MESSAGE_BYTES])

        def _spill(self, pieces: Iterator[Rows]) -> Path:
            path = super()._spill(pieces)
            assert path.is_relative_to(tmp_path / "disk")
            runs.append(path.read_bytes())
            return path

    monkeypatch.setattr(parts_module, "SPILL_ROWS", 16)
    monkeypatch.setattr("shuffledp.service.shuffler.delivery.Sorter", FewRows)
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        missing("a disk to mount", "run as root, with e2fsprogs")

    async def walk(place: Path, image: Path) -> None:
        def found(*pieces: bytes) -> list[bytes]:
            subprocess.run(["sync", "-f", str(place)], check=True)
            raw = image.read_bytes()
            return [piece for piece in pieces if piece in raw]

        stores = {"shuffler": f"sqlite:{place}/shuffler.db", "analyzer": f"sqlite:{tmp_path}/a.db"}
        trio = Trio(tmp_path, stores)
        trio.shuffler_config = replace(trio.shuffler_config, spool=f"{place}/spool", memory_mb=1)
        async with trio.running():
            task = trio.task(batch={"top_up": "full"})
            await trio.register(task)
            bodies = await trio.upload(task, [1] * (USERS - 1))
            key = trio.shuffler.report_keys.key(task.id, 1)
            assert found(key.secret) == [key.secret]
            bodies += await trio.upload(task, [1])
            await trio.results(task)
            assert (await trio.deleted(task))["batches"][0]["state"] == "deleted"
            ((folder,),) = await trio.shuffler.database.rows("SELECT folder FROM batches")
            assert folder.startswith(key.batch_id.hex())
            gone = (key.secret, key.parts_secret(folder), key.order_secret, *traces(bodies))
            assert found(*gone) == []
        assert found(*gone) == []
        assert len(runs) > 5 and not any(one in run for run in runs for one in gone)
        assert not list(place.rglob("run-*"))

    with disk(tmp_path) as (place, image):
        asyncio.run(walk(place, image))


@pytest.mark.attack("left-overs under the key of a delivered batch")
def test_reports_that_wait_have_a_key_of_their_own(place: Place) -> None:
    """Reports beyond a batch, many in one commit, belong to later batches and their keys."""

    async def walk() -> None:
        async with Trio(place.folder, place.stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * (2 * USERS + 7))
            await trio.results(task, 2)
            for _ in range(1200):
                if len(secrets(trio)) == 1:
                    break
                await asyncio.sleep(0.05)
            assert len(secrets(trio)) == 1 and (await trio.status(task))["have"] == 7
            await trio.upload(task, [1] * (USERS - 7))
            assert [one["reports"] for one in await trio.results(task, 3)] == [USERS] * 3

    asyncio.run(walk())


@pytest.mark.attack("a crash between destroying a key and recording it")
def test_a_crash_while_scrubbing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ReportKeys.destroy

    def crash(self: ReportKeys, task: bytes, number: int, reason: str = "delivered") -> None:
        real(self, task, number, reason)
        raise RuntimeError("crash")

    async def first() -> Task:
        async with Trio(place.folder, place.stores).running() as trio:
            task = trio.task()
            await trio.register(task)
            await trio.upload(task, [1] * (USERS + 3))
            await trio.results(task)
            for _ in range(1200):
                batches = (await trio.status(task))["batches"]
                if batches[0]["state"] == "delivered":
                    break
                await asyncio.sleep(0.05)
            assert batches[0]["state"] == "delivered"
            return task

    async def second(task: Task) -> None:
        async with Trio(place.folder, place.stores).running() as trio:
            assert (await trio.deleted(task))["batches"][0]["state"] == "deleted"
            assert (await trio.status(task))["have"] == 3
            await trio.upload(task, [1] * (USERS - 3))
            assert len(await trio.results(task, 2)) == 2

    with monkeypatch.context() as patched:
        patched.setattr(ReportKeys, "destroy", crash)
        task = asyncio.run(first())
    asyncio.run(second(task))


@pytest.mark.attack("files that others on the machine can read")
def test_state_is_private_whatever_the_umask(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    programs, task = Programs(trio), trio.task()
    before = set(tmp_path.rglob("*"))

    def careless() -> None:
        os.umask(0)

    try:
        for role in programs.ports:
            programs.start(role, before=careless)
        for url in programs.urls.values():
            wait_ready(url)
        programs.register(task)
        for user, token in enumerate(programs.enrol(USERS + 2)):
            box = tmp_path / "boxes" / str(user)
            with Client(task, programs.urls["shuffler"], token, box, policy=TRUSTING) as client:
                client.send(1)
        programs.results(task)
        made = [path for path in set(tmp_path.rglob("*")) - before if path.suffix != ".log"]
        made = [path for path in made if path.exists() and path != tmp_path / "boxes"]
        open_to_others = [path for path in made if path.stat().st_mode & 0o077]
        assert not open_to_others and tmp_path / "shuffler.db-wal" in made
    finally:
        programs.stop()


# tokens


@pytest.mark.attack("one token, many reports of a repeat task")
def test_repeat_tasks_count_tokens_per_batch(place: Place, scale: int) -> None:
    async def walk() -> None:
        async with Trio(place.folder, place.stores).running() as trio:
            task = trio.task(repeat=True)
            await trio.register(task)
            (once,) = await trio.enrol(1, ONCE_PREFIX)
            greedy = await trio.enrol(2)

            async def send(token: str) -> int:
                return (await trio.post(task, encrypt_report(task, 1), token)).status_code

            assert [await send(once) for _ in range(5)] == [201, 409, 409, 409, 409]
            together = await asyncio.gather(*(send(greedy[n % 2]) for n in range(19 * scale)))
            assert sorted(together)[:2] == [201, 201] and set(together[2:]) <= {201, 409}
            assert together.count(201) == 2 and (await trio.status(task))["have"] == 3
            await trio.upload(task, [1] * (USERS - 3))
            await trio.results(task)
            assert await send(once) == 409
            # twin: in the next batch an honest client may answer again
            assert [await send(token) for token in greedy] == [201, 201]
            refused = await trio.post(task, encrypt_report(task, 1), greedy[0])
            assert refused.status_code == 409 and "next" in refused.json()["detail"]

    asyncio.run(walk())


@pytest.mark.attack("one token over several batches in one commit")
def test_a_commit_that_fills_several_batches(tmp_path: Path) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            task = trio.task(repeat=True)
            await trio.register(task)
            tokens = await trio.enrol(USERS - 1)
            (greedy,) = await trio.enrol()
            senders = [*tokens, greedy, greedy, *tokens, greedy, greedy]
            arrivals = [
                Arrival(
                    task=1,
                    report=number.to_bytes(16, "big"),
                    token=token_hash(token),
                    scope=None,
                    messages=b"m",
                )
                for number, token in enumerate(senders)
            ]
            verdicts = await trio.shuffler.accepting.accept_all(lambda: arrivals)
            assert verdicts == [Verdict.ACCEPTED] * (2 * USERS + 1) + [Verdict.TOKEN_USED]

    asyncio.run(walk())
