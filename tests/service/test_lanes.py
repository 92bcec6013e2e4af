"""Processes that store reports side by side: what each of them may store, and what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from service_trio import Trio, sha

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.shuffler.arrivals import ALL_TASKS, Arrival, Verdict
from shuffledp.service.shuffler.frames import Kind
from shuffledp.service.shuffler.host import Host
from shuffledp.service.shuffler.lane import Lane
from shuffledp.service.shuffler.places import Grant, Places, Taken
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.store import open_database, open_lane
from shuffledp.service.store.database import Transaction
from shuffledp.service.tokens import ONCE_PREFIX

TASK = 1


class SlowPlaces:
    """Takes places from others, when it is let."""

    def __init__(self, places: Places, lane: int) -> None:
        self._places, self._lane = places, lane
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.expected = places.expected

    async def take(self, transaction: Transaction, counts: Mapping[int, int]) -> Taken:
        async def slowly() -> Taken:
            self.asked.set()
            await self.go.wait()
            return self._places.take(self._lane, counts)

        return await transaction.outside(slowly())

    def settle(self, grants: Sequence[Grant], *, stored: bool) -> None:
        for grant in grants:
            self._places.settle(grant.task, grant.number, stored=stored)


@contextlib.asynccontextmanager
async def lanes(trio: Trio, count: int) -> AsyncIterator[list[tuple[Lane, SlowPlaces]]]:
    """Lanes of further processes, all in this one."""
    made, databases = [], []
    for number in range(1, count + 1):
        database = await open_lane(trio.shuffler_config.store, SHUFFLER_SCHEMA, number)
        places = SlowPlaces(trio.shuffler.places, number)
        made.append((Lane(database, trio.shuffler.store.entry, places, trio.clock), places))
        databases.append(database)
    try:
        yield made
    finally:
        for database in databases:
            await database.close()


def arrival(token: str, report: bytes, messages: bytes = b"x") -> Arrival:
    return Arrival(
        task=TASK,
        report=report * 16,
        token=bytes.fromhex(sha(token)),
        scope=TASK,
        messages=messages,
    )


def test_tokens_of_both_kinds_in_one_commit_of_a_task_with_repeats(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            await trio.register(trio.task(repeat=True))
            each, once = [*await trio.enrol(1), *await trio.enrol(1, ONCE_PREFIX)]
            come = [
                replace(arrival(once, b"a"), scope=ALL_TASKS),
                replace(arrival(each, b"b"), scope=None),
                replace(arrival(each, b"c"), scope=None),
            ]
            verdicts = await trio.shuffler.intake.lane.accept(lambda: come)
            assert verdicts == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.TOKEN_USED]

    asyncio.run(walk())


def test_a_token_that_a_refused_report_did_not_use_is_free(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    """One that counts once in all tasks comes for two of them at once; the first takes none."""

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            for name in ("closed", "open"):
                await trio.register(trio.task(name))
            (once,) = await trio.enrol(1, ONCE_PREFIX)
            trio.shuffler.places.late = lambda entry: (
                Verdict.TASK_CLOSED if entry.number == TASK else None
            )
            first = replace(arrival(once, b"a"), scope=ALL_TASKS)
            come = [first, replace(first, task=2, report=b"b" * 16)]
            lane = trio.shuffler.intake.lane
            assert await lane.accept(lambda: come) == [Verdict.TASK_CLOSED, Verdict.BUSY]
            assert await lane.accept(lambda: come[1:]) == [Verdict.ACCEPTED]

    asyncio.run(walk())


@pytest.mark.attack("one token at two processes of a shuffler at the same moment")
def test_two_processes_that_are_sent_the_same(tmp_path: Path, stores: dict[str, str]) -> None:
    """One of them looks before the other has stored, and stores after it."""

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            await trio.register(trio.task())
            one, other = await trio.enrol(2)
            async with lanes(trio, 2) as ((first, slow), (second, quick)):
                quick.go.set()
                come = [arrival(one, b"a"), arrival(other, b"b")]
                storing = asyncio.create_task(first.accept(lambda: come))
                await slow.asked.wait()
                again = [arrival(one, b"a"), arrival(one, b"c")]
                beside = asyncio.create_task(second.accept(lambda: again))
                if stores["shuffler"].startswith("postgresql"):
                    assert await beside == [Verdict.ACCEPTED, Verdict.TOKEN_USED]
                slow.go.set()
                verdicts = await storing
                if stores["shuffler"].startswith("postgresql"):
                    assert verdicts == [Verdict.DUPLICATE, Verdict.ACCEPTED]
                else:  # in turns
                    assert verdicts == [Verdict.ACCEPTED, Verdict.ACCEPTED]
                    assert await beside == [Verdict.DUPLICATE, Verdict.TOKEN_USED]
            found = trio.shuffler.places.of(TASK)
            assert found.waiting() == 2 and found.in_row() == 2 and not found.taken
            rows = await trio.shuffler.database.rows("SELECT COUNT(*) FROM reports")
            assert rows[0][0] == 2

    asyncio.run(walk())


LEFT_OVER = """
import asyncio, sys
from shuffledp.service.shuffler.schema import SHUFFLER_SCHEMA
from shuffledp.service.store import open_lane

async def stay():
    kept = await open_lane(sys.argv[1], SHUFFLER_SCHEMA, 1)
    print("open", flush=True)
    await asyncio.sleep(120)

asyncio.run(stay())
"""


def test_a_service_waits_until_the_processes_of_an_earlier_one_are_gone(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    """Else a report could be stored at a place that is given again."""
    url = stores["shuffler"]

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            await trio.register(trio.task())
        command = [sys.executable, "-c", LEFT_OVER, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as left:
            assert left.stdout is not None and left.stdout.readline() == b"open\n"
            opening = asyncio.create_task(open_database(url, SHUFFLER_SCHEMA))
            done, _ = await asyncio.wait([opening], timeout=0.5)
            left.kill()
            assert not done
        database = await asyncio.wait_for(opening, 30)
        await database.close()
        with pytest.raises(StorageUnavailable):
            await database.rows("SELECT 1")

    asyncio.run(walk())


def test_a_door_learns_of_a_task_though_its_store_was_away() -> None:
    async def walk() -> None:
        tries: list[bytes] = []
        sent: list[tuple[Any, ...]] = []

        async def changed(task_id: bytes) -> None:
            tries.append(task_id)
            if len(tries) == 1:
                raise StorageUnavailable("away")

        host = Host(changed)
        frames: Any = SimpleNamespace(send=lambda *what: sent.append(what))
        host._frames = frames
        host._received(frames, Kind.TASK, 5, "00")
        for _ in range(60):
            if sent:
                break
            await asyncio.sleep(0.05)
        assert sent == [(Kind.NOTED, 5)] and tries == [b"\0", b"\0"]
        # places for which nobody waits any more are given back
        key = "00" * 32
        host._received(frames, Kind.TAKEN, 77, [[TASK, [9, [[0, 2, 1, key]]]], [2, "busy"]])
        assert sent[1:] == [(Kind.SETTLE, 0, [TASK, 9, False])]

    asyncio.run(walk())


def test_processes_take_turns_at_several_files_at_once(tmp_path: Path) -> None:
    """Threads that wait for different files are no circle, though their processes look like one."""
    files = [str(tmp_path / name) for name in ("a.db", "b.db")]
    command = [sys.executable, "-c", TURNS, *files]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    said = [program.communicate(timeout=60)[0] for program in running]
    assert said == [b"400\n"] * 3


TURNS = """
import sys, threading
from shuffledp.service.store.turns import Turns

taken = []

def work(path):
    turns = Turns(path)
    for _ in range(200):
        with turns.turn():
            taken.append(path)

threads = [threading.Thread(target=work, args=(path,)) for path in sys.argv[1:]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(taken))
"""


def test_places_that_come_in_the_moment_of_giving_up_are_given_back() -> None:
    async def walk() -> None:
        sent: list[tuple[Any, ...]] = []

        async def unchanged(_: bytes) -> None:
            """No task changes here."""

        host = Host(unchanged)
        frames: Any = SimpleNamespace(send=lambda *what: sent.append(what))
        host._frames = frames
        taking = asyncio.create_task(host._take({TASK: 2}))
        await asyncio.sleep(0)
        host._received(frames, Kind.TAKEN, 1, [[TASK, [9, [[0, 2, 1, "00" * 32]]]]])
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        assert sent == [(Kind.TAKE, 1, [(TASK, 2)]), (Kind.SETTLE, 0, [TASK, 9, False])]

    asyncio.run(walk())
