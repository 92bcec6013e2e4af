"""An issuer whose store is older than the tokens that it gave: nobody gets a second one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from older_stores import pg
from service_issuer import IssuerParty, code
from service_trio import OPERATOR, Trio, bearing, sha

from shuffledp.service.errors import ConfigError, StorageUnavailable
from shuffledp.service.issuer.issued_record import IssuedRecord
from shuffledp.service.store.backups import back_up, restore
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import TokenRequest, task_challenge

FORGOTTEN, MISSING = (410, "tokens-forgotten"), (503, "record-missing")
GIVEN = (200, "")
DAY_SECONDS = 86_400


@dataclass
class Stage:
    """A store of an issuer that is copied and restored, and what people have asked for."""

    folder: Path
    url: str
    fresh: Callable[[], str] | None
    """Makes an empty PostgreSQL database; None: the store is an SQLite file."""
    asked: dict[tuple[bytes, str], bytes] = field(default_factory=dict)

    def party(self) -> IssuerParty:
        self.trio = Trio(self.folder)
        return IssuerParty(self.trio, self.url)

    def copy(self, name: str = "copy") -> None:
        """Copies the store as the runbook says, also while the issuer runs."""
        target = self.folder / name
        if self.fresh is None:
            back_up(self.url, target)
        else:
            pg("pg_dump", "--format=custom", f"--file={target}", self.url)

    def put_back(self, name: str = "copy") -> None:
        """Puts a copy in the store's place."""
        if self.fresh is None:
            restore(self.folder / name, self.url)
        else:
            self.url = self.fresh()
            pg("pg_restore", f"--dbname={self.url}", str(self.folder / name))

    def record(self, task: Task) -> Path:
        """The file whose length is how many tokens of a task were issued."""
        assert task.issuer is not None
        return self.folder / "issuer-keys" / "issued" / task.issuer.key.id.hex()

    async def ask(
        self, party: IssuerParty, task: Task, who: str, again: bool = False
    ) -> tuple[int, str]:
        """What somebody is told who asks for a token, with the same request `again` or with
        another one."""
        assert task.issuer is not None
        request = TokenRequest.make(task.issuer.key, task_challenge(task)).to_bytes()
        if again:
            request = self.asked[task.id, who]
        answer = await party.ask(task, who, request)
        if answer.is_success:
            self.asked[task.id, who] = request
        return told(answer)


def told(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, "" if answer.is_success else code(answer)


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """An empty store of either kind."""
    if request.param == "sqlite":
        return Stage(tmp_path, f"sqlite:{tmp_path}/issuer.db", None)
    fresh = request.getfixturevalue("postgres_database")
    return Stage(tmp_path, fresh(), fresh)


async def registered(party: IssuerParty, *names: str) -> list[Task]:
    tasks = [party.task(name) for name in names]
    for task in tasks:
        assert (await party.put(task)).status_code == 201
    return tasks


async def stopped(party: IssuerParty) -> list[str]:
    """What the status says of each task: why no tokens are given."""
    return [task["stopped"] for task in (await party.client.get("/status")).json()["tasks"]]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The tasks of which the log says that no more tokens are given; forgets them."""
    found = [vars(one)["fields"]["task"] for one in caplog.records if one.msg == "tokens stopped"]
    caplog.clear()
    return found


async def one_more_after_the_copy(stage: Stage) -> tuple[Task, Task, list[str]]:
    """Two tasks; Ada has both tokens when the store is copied, Ben gets one of the first task
    afterwards, Cem has none."""
    async with stage.party().running() as party:
        task, other = await registered(party, "one", "other")
        ada, ben, cem = await party.enrol(3)
        for one in (task, other):
            assert await stage.ask(party, one, ada) == GIVEN
        await asyncio.to_thread(stage.copy)
        assert await stage.ask(party, task, ben) == GIVEN
    return task, other, [ada, ben, cem]


@pytest.mark.attack("an issuer's store restored from before a token was issued")
def test_nobody_gets_a_second_token_from_an_older_store(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Also after another start. The other task goes on, and so do tokens that the copy knows."""
    task, other, (ada, ben, cem) = asyncio.run(one_more_after_the_copy(stage))
    stage.put_back()

    async def walk() -> None:
        async with stage.party().running() as party:
            assert lines(caplog) == [task.id.hex()]
            assert await stage.ask(party, task, ben) == FORGOTTEN
            assert await stage.ask(party, task, ben, again=True) == FORGOTTEN
            assert await stage.ask(party, task, cem) == FORGOTTEN
            assert await stage.ask(party, task, ada) == (409, "token-issued")
            assert await stage.ask(party, task, ada, again=True) == GIVEN
            assert not lines(caplog)  # said once at a start, not at every request
            assert [bool(reason) for reason in await stopped(party)] == [True, False]
            page = (await party.client.get("/")).text
            assert page.count("No more tokens are issued: the store is older than tokens") == 1

    asyncio.run(walk())
    asyncio.run(walk())

    async def goes_on() -> None:
        async with stage.party().running() as party:
            assert await stage.ask(party, other, ben) == GIVEN
            assert await stage.ask(party, other, ben) == (409, "token-issued")

    asyncio.run(goes_on())


def test_without_the_record_there_would_be_a_second_token(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: it is the record that holds the attack off, and nothing else."""
    task, _, (_, ben, _) = asyncio.run(one_more_after_the_copy(stage))
    stage.put_back()
    monkeypatch.setattr(IssuedRecord, "count", lambda *_: 0)

    async def walk() -> None:
        async with stage.party().running() as party:
            assert await stage.ask(party, task, ben) == GIVEN

    asyncio.run(walk())


def test_a_copy_that_knows_all_tokens_goes_on(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Twin: also if enrolments were made since, and if an older copy was tried before."""
    task, _, (_, ben, cem) = asyncio.run(one_more_after_the_copy(stage))

    async def newer() -> None:
        async with stage.party().running() as party:
            await asyncio.to_thread(stage.copy, "newer")
            await party.enrol(2)

    asyncio.run(newer())
    stage.put_back()

    async def told_when(who: str) -> tuple[int, str]:
        async with stage.party().running() as party:
            return await stage.ask(party, task, who)

    assert asyncio.run(told_when(cem)) == FORGOTTEN
    stage.put_back("newer")
    caplog.clear()
    assert asyncio.run(told_when(cem)) == GIVEN
    assert asyncio.run(told_when(ben)) == (409, "token-issued")
    assert not lines(caplog)


def test_what_was_stopped_stays_so_whatever_becomes_of_the_record(stage: Stage) -> None:
    task, _, (_, ben, _) = asyncio.run(one_more_after_the_copy(stage))
    stage.put_back()

    async def told_now() -> tuple[int, str]:
        async with stage.party().running() as party:
            return await stage.ask(party, task, ben)

    assert asyncio.run(told_now()) == FORGOTTEN
    stage.record(task).write_bytes(b"")
    assert asyncio.run(told_now()) == FORGOTTEN


def test_a_store_that_falls_back_while_the_issuer_runs(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """As if the database were restored, or an older one took over: the next request is told, not
    the next start."""

    async def walk() -> None:
        async with stage.party().running() as party:
            (task,) = await registered(party, "one")
            ada, ben, cem = await party.enrol(3)
            for who in (ada, ben):
                assert await stage.ask(party, task, who) == GIVEN
            hidden = bytes.fromhex(sha(ben))
            database = party.issuer.database
            await database.rows("DELETE FROM issued WHERE holder=$1", hidden)
            await database.rows("UPDATE issuing SET tokens=1")
            for who in (ben, cem):
                assert await stage.ask(party, task, who) == FORGOTTEN
            assert lines(caplog) == [task.id.hex()]

    asyncio.run(walk())


def test_a_task_that_the_copy_does_not_know(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The copy is from before the registration. Registered again, neither this task nor another one
    with its key gets tokens; a fresh one does."""

    async def first() -> tuple[Task, str]:
        async with stage.party().running() as party:
            (who,) = await party.enrol()
            await asyncio.to_thread(stage.copy)
            (task,) = await registered(party, "one")
            assert await stage.ask(party, task, who) == GIVEN
            return task, who

    task, who = asyncio.run(first())

    async def again(name: str) -> None:
        async with stage.party().running() as party:
            same = task if name == "one" else party.trio.task(name, issuer=task.issuer)
            assert not lines(caplog)
            assert (await party.put(same)).status_code == 201
            assert lines(caplog) == [same.id.hex()]
            assert await stage.ask(party, same, who) == FORGOTTEN
            (fresh,) = await registered(party, "fresh")
            assert await stage.ask(party, fresh, who) == GIVEN

    for name in ("one", "same key"):
        stage.put_back()
        asyncio.run(again(name))


def test_a_missing_record_is_no_empty_one(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """As long as it is missing, nothing is given; other tasks go on."""
    task, other, (ada, ben, _) = asyncio.run(one_more_after_the_copy(stage))
    aside = stage.folder / "aside"
    stage.record(task).rename(aside)

    async def walk() -> None:
        async with stage.party().running() as party:
            assert lines(caplog) == [task.id.hex()]
            for who, again in ((ada, True), (ada, False), (ben, False)):
                assert await stage.ask(party, task, who, again) == MISSING
            assert "is missing" in (await stopped(party))[0]
            assert await stage.ask(party, other, ben) == GIVEN
            aside.rename(stage.record(task))
            assert await stage.ask(party, task, ada, again=True) == GIVEN
            assert await stage.ask(party, task, ben) == (409, "token-issued")
            assert await stopped(party) == ["", ""]

    asyncio.run(walk())


def test_a_record_that_disappears_stops_answers_and_is_not_made_anew(stage: Stage) -> None:
    async def walk() -> None:
        async with stage.party().running() as party:
            (task,) = await registered(party, "one")
            (who,) = await party.enrol()
            shutil.rmtree(stage.record(task).parent)
            assert await stage.ask(party, task, who) == (503, "store")
            assert not stage.record(task).exists()

    asyncio.run(walk())


def test_an_older_folder_of_keys_raises_no_alarm_and_is_made_up_for(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    task, _, (ada, ben, cem) = asyncio.run(one_more_after_the_copy(stage))
    stage.record(task).write_bytes(b"")

    async def walk() -> None:
        async with stage.party().running() as party:
            assert await stage.ask(party, task, ada, again=True) == GIVEN
            assert stage.record(task).stat().st_size == 2
            assert await stage.ask(party, task, cem) == GIVEN
            assert await stage.ask(party, task, ben) == (409, "token-issued")

    asyncio.run(walk())
    assert not lines(caplog) and stage.record(task).stat().st_size == 3
    stage.put_back()

    async def after() -> None:
        async with stage.party().running() as party:
            assert await stage.ask(party, task, ben) == FORGOTTEN

    asyncio.run(after())


def test_tasks_that_are_over_raise_no_alarm(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Who had tokens is forgotten; archived and deleted tasks are restored from an older copy."""
    task, other, (_, ben, _) = asyncio.run(one_more_after_the_copy(stage))

    async def operate(party: IssuerParty, method: str, end: str) -> int:
        answer = await party.client.request(
            method,
            f"/tasks/{other.id.hex()}{end}",
            headers=bearing(OPERATOR),
            json={"discard": True} if end else None,
        )
        return answer.status_code

    async def over() -> None:
        async with stage.party().running() as party:
            assert await operate(party, "POST", "/archive") == 200
            await asyncio.to_thread(stage.copy, "archived")
            assert await operate(party, "DELETE", "") == 200
            assert (await party.put(other)).status_code == 410
            assert stage.record(other).stat().st_size == 1
        party = stage.party()
        stage.trio.seconds_ahead = 100 * DAY_SECONDS
        async with party.running():
            number = party.issuer.tasks.by_id[task.id].number
            for _ in range(600):
                if not await party.issuer.store.issued(number):
                    break
                await asyncio.sleep(0.1)
            assert await party.issuer.store.issued(number) == 0
        async with party.running():
            assert await stopped(party) == [""]

    asyncio.run(over())
    stage.put_back("archived")

    async def back() -> None:
        async with stage.party().running() as party:
            assert await stopped(party) == [""]
            assert await stage.ask(party, task, ben) == (409, "token-issued")

    asyncio.run(back())
    assert not lines(caplog)
    stage.put_back()  # from before the second task was closed: its one token is known

    async def reopened() -> None:
        async with stage.party().running() as party:
            assert lines(caplog) == [task.id.hex()]
            assert await stage.ask(party, other, ben) == GIVEN

    asyncio.run(reopened())


def test_a_record_never_falls(tmp_path: Path) -> None:
    record, key_id = IssuedRecord(tmp_path / "issued"), bytes(32)
    record.open()
    assert record.count(key_id) is None
    record.begin(key_id)
    for tokens, known in ((6, 6), (5, 6), (7, 7)):
        record.raise_to(key_id, tokens)
        record.begin(key_id)
        assert record.count(key_id) == known == (tmp_path / "issued" / key_id.hex()).stat().st_size
    record.close()
    with pytest.raises(StorageUnavailable, match="bring it back"):
        record.raise_to(key_id, 8)
    assert record.count(key_id) == 7


def test_one_issuer_at_a_time_uses_the_record(tmp_path: Path) -> None:
    first, second = (IssuedRecord(tmp_path / "keys" / "issued") for _ in range(2))
    first.open()
    with pytest.raises(ConfigError, match="stop the other issuer"):
        second.open(0)
    first.close()
    second.open(0)
    second.close()
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match="must be able to write"):
        IssuedRecord(tmp_path / "file" / "issued").open(0)
