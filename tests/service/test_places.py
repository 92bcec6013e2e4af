"""Places of reports: handed out by one, filled by several; no batch has a hole or a place twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_deliveries import stored_tallies
from service_trio import USERS, Trio, known_report

from shuffledp.service.errors import StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler import store
from shuffledp.service.shuffler.arrivals import Verdict
from shuffledp.service.shuffler.batches import StoredProgress
from shuffledp.service.shuffler.places import Grant, Places
from shuffledp.service.shuffler.report_keys import BatchKey, ReportKeys
from shuffledp.service.store.database import Transaction

TASK = 1


def some_places(folder: Path, size: int) -> Places:
    """Places of one task that is at its beginning."""
    folder.mkdir(exist_ok=True)
    places = Places(ReportKeys(folder))
    places.add(an_entry(TASK, size))
    return places


def an_entry(number: int, size: int, repeat: bool = False) -> RegisteredTask:
    """What places need to know of a task."""
    batch = SimpleNamespace(reports=size)
    task: Any = SimpleNamespace(id=number.to_bytes(32, "big"), batch=batch, repeat=repeat)
    return RegisteredTask(number=number, task=task, state="open")


def taken(places: Places, count: int, lane: int = 1) -> Grant:
    given = places.take(lane, {TASK: count})[TASK]
    assert isinstance(given, Grant)
    return given


def numbers(grant: Grant) -> list[tuple[int, int]]:
    """(place, batch) of everything in a grant."""
    return [
        (place, piece.batch)
        for piece in grant.pieces
        for place in range(piece.first, piece.first + piece.length)
    ]


def test_places_follow_each_other_and_batches_have_their_size(tmp_path: Path) -> None:
    places = some_places(tmp_path / "keys", 4)
    assert numbers(taken(places, 3)) == [(0, 1), (1, 1), (2, 1)]
    assert numbers(taken(places, 6)) == [(3, 1), (4, 2), (5, 2), (6, 2), (7, 2), (8, 3)]
    assert places.of(TASK).waiting() == places.of(TASK).in_row() == 0


def test_places_that_were_not_filled_are_given_again_first(tmp_path: Path) -> None:
    places = some_places(tmp_path / "keys", 4)
    first, second = taken(places, 3), taken(places, 2)
    places.settle(TASK, second.number, stored=True)
    assert (places.of(TASK).waiting(), places.of(TASK).in_row()) == (2, 0)
    places.settle(TASK, first.number, stored=False)
    assert places.of(TASK).holes == [0, 1, 2]
    assert numbers(taken(places, 4)) == [(0, 1), (1, 1), (2, 1), (5, 2)]
    last = taken(places, 2)
    places.settle(TASK, last.number, stored=False)  # the last ones leave no hole
    assert places.of(TASK).holes == [] and places.of(TASK).next == 6


def test_a_paused_task_gives_nothing_and_a_late_one_says_why(tmp_path: Path) -> None:
    places = some_places(tmp_path / "keys", 4)
    grant = taken(places, 1)
    assert not places.pause(TASK)
    assert places.take(1, {TASK: 1}) == {TASK: Verdict.BUSY}
    places.settle(TASK, grant.number, stored=True)
    assert places.pause(TASK)
    places.resume(TASK)
    places.late = lambda _: Verdict.TASK_CLOSED
    assert places.take(1, {TASK: 1, 77: 1}) == {TASK: Verdict.TASK_CLOSED, 77: Verdict.BUSY}


def test_what_the_store_says_does_not_undo_what_is_taken(tmp_path: Path) -> None:
    places = some_places(tmp_path / "keys", 4)
    taken(places, 3)
    entry = places._tasks[TASK]
    said = StoredProgress(closed=0, batches=0, following=0, holes=[])
    places.load(entry, said)
    assert places.of(TASK).next == 3 and numbers(taken(places, 1)) == [(3, 1)]
    for grant in places.taken_by(1):
        places.settle(TASK, grant.number, stored=False)
    places.pause(TASK)
    places.load(entry, StoredProgress(closed=4, batches=1, following=6, holes=[5]))
    places.resume(TASK)
    assert numbers(taken(places, 2)) == [(5, 2), (6, 2)]


def test_a_key_that_cannot_be_made_costs_nobody_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = some_places(tmp_path / "keys", 4)
    other = an_entry(2, 4)
    places.add(other)
    real = places._keys.key

    def full(task: bytes, number: int) -> BatchKey:
        if task == other.task.id:
            raise StorageUnavailable("full")
        return real(task, number)

    monkeypatch.setattr(places._keys, "key", full)
    given = places.take(1, {TASK: 3, 2: 1})
    assert isinstance(given[TASK], Grant) and given[2] is Verdict.BUSY
    assert len(places.taken_by(1)) == 1 and places.of(2).next == 0


def test_reports_of_tokens_that_count_in_every_batch_are_never_moved(tmp_path: Path) -> None:
    """One commit at a time leaves no holes: a token is judged for the batch of its place."""
    places = some_places(tmp_path / "keys", 4)
    places.add(an_entry(2, 4, repeat=True))
    first = places.take(0, {2: 3})[2]
    assert isinstance(first, Grant)
    assert places.take(0, {2: 1}) == {2: Verdict.BUSY}
    places.settle(2, first.number, stored=False)
    assert places.of(2).holes == [] and isinstance(places.take(0, {2: 1})[2], Grant)


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 7),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.booleans()), max_size=40),
)
def test_no_place_is_given_twice(
    tmp_path_factory: pytest.TempPathFactory, size: int, steps: list[tuple[int, int, bool]]
) -> None:
    """Lanes take and settle in any order, and batches are closed as soon as they are in a row: what
    is stored is never given again, and every closed batch has exactly its places."""
    places = some_places(tmp_path_factory.mktemp("places") / "keys", size)
    out: list[Grant] = []
    stored: dict[int, int] = {}
    for what, count, filled in steps:
        if what < 2 or not out:
            grant = taken(places, count, lane=what)
            held = {place for one in out for place, _ in numbers(one)}
            assert not held.intersection(place for place, _ in numbers(grant))
            assert not stored.keys() & {place for place, _ in numbers(grant)}
            out.append(grant)
        else:
            grant = out.pop(count % len(out))
            places.settle(TASK, grant.number, stored=filled)
            stored.update(numbers(grant) if filled else ())
        while (found := places.of(TASK)).in_row() >= size:
            batch = range(found.closed, found.closed + size)
            assert {stored[place] for place in batch} == {found.batches + 1}
            places.close(TASK, size)
        assert found.waiting() == len([place for place in stored if place >= found.closed])


@pytest.mark.parametrize("full", [True, False], ids=["full", "early"])
def test_a_batch_does_not_wait_for_places_that_nobody_fills(
    tmp_path: Path, stores: dict[str, str], full: bool
) -> None:
    """Later reports are moved into holes: also between batches, and under their new keys."""

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            rule = {} if full else {"top_up": "missing", "at_least": USERS - 4, "wait_seconds": 1}
            task = trio.task(cell="bounded", batch=rule)
            await trio.register(task)
            places, made, grants = trio.shuffler.places, [], []
            tokens = iter(await trio.enrol(3 * USERS))
            reports = 2 * USERS if full else USERS - 4
            for number in range(reports):
                if number in (1, 5, USERS - 5):  # others take places and store nothing
                    given = places.take(7, {TASK: 3})[TASK]
                    assert isinstance(given, Grant)
                    grants.append(given)
                body, plus, minus = known_report(task, number % 2)
                made.append((plus, minus))
                assert (await trio.post(task, body, next(tokens))).status_code == 201
            status = await trio.status(task)
            assert status["have"] == reports and not status["batches"]
            for grant in grants:
                places.settle(TASK, grant.number, stored=False)
            results = await trio.results(task, 2 if full else 1)
            assert sum(one["reports"] for one in results) == reports
            tallies = await stored_tallies(trio)
            counted = sum(tally["plus"][0] - tally["minus"][0] for tally in tallies)
            if full:
                assert counted == sum(plus - minus for plus, minus in made)
            for tally in tallies:
                bad = {why: count for why, count in tally["dropped"].items() if why != "dummies"}
                assert not any(bad.values()), bad

    asyncio.run(walk())


def test_a_batch_that_leaves_early_leaves_nothing_behind(
    tmp_path: Path, stores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports that are stored while the batch is about to be closed leave with it: what is left
    under its key could never be read again."""

    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            rule = {"top_up": "missing", "at_least": USERS - 4, "wait_seconds": 1}
            task = trio.task(cell="bounded", batch=rule)
            await trio.register(task)
            late: list[int] = []
            real = trio.shuffler.store.waited

            async def waited(number: int) -> float:
                found = await real(number)
                if found >= 1 and not late:
                    late.append(number)
                    await trio.upload(task, [1, 1])
                return found

            monkeypatch.setattr(trio.shuffler.store, "waited", waited)
            await trio.upload(task, [1] * (USERS - 4))
            (result,) = await trio.results(task)
            assert late and result["reports"] == USERS - 2
            await trio.upload(task, [1] * (USERS - 4))
            assert [one["reports"] for one in await trio.results(task, 2)] == [
                USERS - 2,
                USERS - 4,
            ]

    asyncio.run(walk())


def test_places_that_are_never_filled_do_not_stop_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process has ended and does not come back: no batch leaves early, but reports are taken."""
    monkeypatch.setattr(store, "LONGEST_PAUSE_SECONDS", 0.2)

    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            rule = {"top_up": "missing", "at_least": 5, "wait_seconds": 1}
            task = trio.task(cell="bounded", batch=rule)
            await trio.register(task)
            trio.shuffler.places.take(7, {TASK: 1})
            await trio.upload(task, [1] * 5)
            await asyncio.sleep(2.5)
            await trio.upload(task, [1] * 5)
            assert (await trio.status(task))["have"] == 10
            for grant in trio.shuffler.places.taken_by(7):
                trio.shuffler.places.settle(TASK, grant.number, stored=False)
            assert (await trio.results(task))[0]["reports"] == 10

    asyncio.run(walk())


def test_a_delete_that_fails_stops_no_other_task(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk() -> None:
        async with Trio(tmp_path, stores).running() as trio:
            gone, other = trio.task("gone"), trio.task("other")
            for task in (gone, other):
                await trio.register(task)
            shuffler = trio.shuffler
            entry = shuffler.tasks.by_id[gone.id]
            await shuffler.administration().archive(entry, discard=True)

            async def broken(transaction: Transaction) -> None:
                await shuffler.care().forget(transaction, entry)
                raise StorageUnavailable("full")

            with pytest.raises(StorageUnavailable):
                await shuffler.tasks.delete(entry, broken)
            await trio.upload(other, [1] * USERS)
            assert (await trio.results(other))[0]["reports"] == USERS

    asyncio.run(walk())


def test_holes_are_found_again_after_a_restart(tmp_path: Path, stores: dict[str, str]) -> None:
    async def walk() -> None:
        trio = Trio(tmp_path, stores)
        task = trio.task(cell="bounded")
        async with trio.running():
            await trio.register(task)
            await trio.upload(task, [1] * 3)
            trio.shuffler.places.take(7, {TASK: 4})  # never settled
            await trio.upload(task, [1] * 3)
        async with trio.running():
            assert (await trio.status(task))["have"] == 6
            assert trio.shuffler.places.of(TASK).holes == [3, 4, 5, 6]
            await trio.upload(task, [1] * (USERS - 6))
            (result,) = await trio.results(task)
            assert result["reports"] == USERS

    asyncio.run(walk())
