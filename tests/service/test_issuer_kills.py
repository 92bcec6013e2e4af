"""kill −9 of the issuer around a token: no false alarm, and no second token from an older store.

For every token the store is changed, then the record outside it, then the answer leaves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest
from service_issuer import IssuerParty, IssuerProgram, code
from service_trio import Trio

from shuffledp.service.store.backups import back_up, restore
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import TokenRequest, task_challenge

FULL = os.environ.get("SHUFFLEDP_ATTACK") == "full"
KILLS = int(os.environ.get("SHUFFLEDP_KILLS", "40" if FULL else "6"))
KILLING = """
import os, signal, sys
from shuffledp.cli.main import main
from shuffledp.service.issuer import issued_record as record
from shuffledp.service.issuer.store import IssuerStore

POINT, TOKENS = "{point}", 2

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

raise_to, issue, fsync = record.IssuedRecord.raise_to, IssuerStore.issue, os.fsync

async def issue_or_die(self, *values):
    if POINT == "before the store" and values[-1] == TOKENS:
        die()
    return await issue(self, *values)

def raise_or_die(self, key_id, tokens):
    if POINT == "before the record" and tokens > TOKENS:
        die()
    if POINT == "before the record is durable" and tokens > TOKENS:
        os.fsync = die
    raise_to(self, key_id, tokens)
    if POINT == "before the answer" and tokens > TOKENS:
        die()

IssuerStore.issue, record.IssuedRecord.raise_to = issue_or_die, raise_or_die
if __name__ == "__main__":  # not in the process that verifies tasks
    raise SystemExit(main())
"""
POINTS = {
    "before the store": (2, 2),
    "before the record": (3, 2),
    "before the record is durable": (3, 3),
    "before the answer": (3, 3),
}
"""Where the issuer is killed at its third token, and (count in the store, record) afterwards."""


class Place:
    """An issuer in a folder, with one task and people who are enrolled; it runs a script if one is
    given."""

    def __init__(self, folder: Path, people: int, script: str = "") -> None:
        self.folder = folder
        self.task = IssuerParty(Trio(folder)).task()
        self.program = IssuerProgram(folder)
        self.store = f"sqlite:{folder}/issuer.db"
        (folder / "killing.py").write_text(script)
        self.program.start(*([str(folder / "killing.py")] if script else []))
        self.people = self.program.prepare(self.task, people)
        self.requests = [fresh(self.task) for _ in self.people]

    def ask(self, who: int, request: TokenRequest | None = None) -> tuple[int, str] | None:
        """What somebody is told, who asks with the first request unless another one is given; None
        if there is no answer."""
        used = request or self.requests[who]
        answer = self.program.ask(self.task, self.people[who], used)
        if answer is None:
            return None
        return answer.status_code, "" if answer.is_success else code(answer)

    def counts(self) -> tuple[int, int]:
        """(count in the store, record outside it)."""
        assert self.task.issuer is not None
        with apsw.Connection(str(self.folder / "issuer.db")) as database:
            (row,) = database.execute("SELECT tokens FROM issuing").fetchall()
            assert [row] == database.execute("SELECT COUNT(*) FROM issued").fetchall()
        record = self.folder / "issuer-keys" / "issued" / self.task.issuer.key.id.hex()
        return int(str(row[0])), record.stat().st_size

    def alarms(self) -> int:
        return (self.folder / "issuer.log").read_text().count("tokens stopped")

    def end(self) -> None:
        self.program.kill()
        self.program.http.close()


def fresh(task: Task) -> TokenRequest:
    assert task.issuer is not None
    return TokenRequest.make(task.issuer.key, task_challenge(task))


Making = Callable[..., Place]


@pytest.fixture
def making(tmp_path: Path) -> Iterator[Making]:
    """Makes a place for so many people, whose program is ended after the test."""
    made: list[Place] = []

    def make(people: int, script: str = "") -> Place:
        made.append(Place(tmp_path, people, script))
        return made[-1]

    yield make
    for place in made:
        place.end()


def killed_at(making: Making, point: str) -> Place:
    """An issuer that has answered two people, was copied, and was killed at its third token."""
    place = making(4, KILLING.format(point=point))
    assert [place.ask(who) for who in (0, 1)] == [(200, "")] * 2
    back_up(place.store, place.folder / "copy.db")
    assert place.ask(2) is None
    assert place.program.program.wait(60) == -9
    assert place.counts() == POINTS[point]
    return place


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_raises_no_alarm(making: Making, point: str) -> None:
    """Everybody gets one token; then the copy from before is found to be older."""
    place = killed_at(making, point)
    place.program.start()
    assert place.ask(2) == (200, "")
    assert place.ask(2, fresh(place.task)) == (409, "token-issued")
    assert place.counts() == (3, 3)
    assert place.ask(3) == (200, "") and place.alarms() == 0
    place.program.kill()
    restore(place.folder / "copy.db", place.store)
    place.program.start()
    assert place.ask(2, fresh(place.task)) == (410, "tokens-forgotten")
    assert place.ask(0) == (200, "") and place.alarms() == 1


@pytest.mark.parametrize("point", POINTS)
def test_a_copy_put_back_after_a_kill_is_older(making: Making, point: str) -> None:
    """Before the record is raised, no answer has left, and the copy knows all that was given."""
    place = killed_at(making, point)
    restore(place.folder / "copy.db", place.store)
    place.program.start()
    known = POINTS[point][1] == 2
    told = place.ask(2, fresh(place.task))
    assert told == ((200, "") if known else (410, "tokens-forgotten"))
    assert place.alarms() == (0 if known else 1)


@pytest.mark.attack("kill −9 of the issuer around a token, before an older store is restored")
def test_answers_are_never_ahead_of_the_record_nor_the_record_of_the_store(making: Making) -> None:
    """Killed at random moments, with requests of many people on their way."""
    each = 12
    place = making(each * KILLS)
    answered: set[int] = set()
    for number in range(KILLS):
        batch = range(each * number, each * (number + 1))
        with ThreadPoolExecutor(4) as threads:
            asking = {who: threads.submit(place.ask, who) for who in batch}
            wanted = number % each
            end = time.monotonic() + 60
            while sum(one.done() for one in asking.values()) < wanted and time.monotonic() < end:
                time.sleep(0.0005)
            place.program.kill()
            told = {who: one.result() for who, one in asking.items()}
        assert set(told.values()) <= {None, (200, "")}
        answered |= {who for who, said in told.items() if said is not None}
        counted, recorded = place.counts()
        assert len(answered) <= recorded <= counted <= recorded + 1
        place.program.start()
    for who in range(each * KILLS):
        assert place.ask(who) == (200, "")
        assert place.ask(who, fresh(place.task)) == (409, "token-issued")
    assert place.counts() == (each * KILLS, each * KILLS) and place.alarms() == 0
