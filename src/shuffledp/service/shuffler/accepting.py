"""Accepting reports: any process does it, up to 512 at a time; the database decides.

    judge the arrivals by what is stored ──▶ encrypt those that are good under the batch's key
    ──▶ store them in one statement ──▶ nothing stored? start again: the batch was full, or another
    process stored the same

Nothing is locked while arrivals are checked and encrypted. On PostgreSQL, the first attempt skips
the first step: it presumes that no report is stored and every token is enrolled, and the statement
that stores them checks that before it writes. This saves a round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shuffledp.service.errors import KeyTaken, StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler import filling
from shuffledp.service.shuffler.arrivals import ALL_TASKS, Arrival, Verdict, spending
from shuffledp.service.shuffler.filling import Filling, Part
from shuffledp.service.shuffler.report_keys import BatchKey, KeyDestroyed, ReportKeys
from shuffledp.service.shuffler.watch import Watch, WentBack
from shuffledp.service.store.database import Database, Row, Rows, Transaction, Work
from shuffledp.tasks.clock import Clock

MOST_TRIES = 100
"""How often arrivals are checked again because other processes were faster."""
STORED = (Verdict.DUPLICATE, Verdict.REPORT_DIFFERS)
Reached = tuple[RegisteredTask, Filling]
"""A task, and its progress after a store."""


class Found(NamedTuple):
    """What the store says about arrivals of one task."""

    used: dict[Row, int]
    """Checksums of report ids that are stored; spent tokens, with any number."""
    enrolled: set[bytes]
    """Tokens that are enrolled."""


def judge(
    arrivals: Sequence[Arrival], found: Found, number: int, room: int
) -> tuple[list[Verdict], list[int]]:
    """(verdicts on the first arrivals, positions of those to store in batch `number`): stops when
    the batch is full, so that the rest is judged for the next batch."""
    used, verdicts, good = dict(found.used), list[Verdict](), list[int]()
    for at, arrival in enumerate(arrivals):
        if len(good) == room:
            break
        report, spent = (arrival.task, arrival.report), spending(arrival, number)
        if report in used:
            same = used[report] == arrival.checksum
            verdicts.append(Verdict.DUPLICATE if same else Verdict.REPORT_DIFFERS)
        elif not (arrival.proved or arrival.token in found.enrolled):
            verdicts.append(Verdict.UNKNOWN_TOKEN)
        elif spent in used:
            verdicts.append(Verdict.TOKEN_USED)
        else:
            verdicts.append(Verdict.ACCEPTED)
            good.append(at)
            used[report], used[spent] = arrival.checksum, 0
    return verdicts, good


async def look(transaction: Transaction, arrivals: Sequence[Arrival], number: int) -> Found:
    """What the store says about arrivals, if they are to be stored in batch `number`."""
    reports: list[Row] = [(one.task, one.report) for one in arrivals]
    spent: list[Row] = [spending(one, number) for one in arrivals]
    tokens: list[Row] = [(one.token,) for one in arrivals if not one.proved]
    once = [one.token for one in arrivals if one.scope == ALL_TASKS]
    used, enrolled = await transaction.present(
        Rows("used", ("task", "name"), reports + spent), Rows("tokens", ("token",), tokens)
    )
    checksums: dict[Row, int] = dict.fromkeys(used, 0)
    for report in used.intersection(reports):  # few: retries
        rows = await transaction.rows(
            "SELECT checksum FROM used WHERE task=$1 AND name=$2", *report
        )
        checksums[report] = int(rows[0][0]) if rows else 0
    known = {token for (token,) in enrolled}
    for token in known.intersection(once):  # their use may have been lost with an older store
        rows = await transaction.rows(
            "SELECT 1 FROM tokens, store WHERE token=$1 AND losses < store.lost", token
        )
        if rows:
            known.discard(token)
    return Found(checksums, known)


class Accepting:
    """Stores the reports of any task, in this process."""

    def __init__(
        self,
        database: Database,
        entry: Callable[[int], RegisteredTask],
        keys: ReportKeys,
        watch: Watch,
        clock: Clock,
    ) -> None:
        self._database, self._entry, self._keys = database, entry, keys
        self._watch, self._clock = watch, clock
        self._turn = asyncio.Lock()
        """Held while arrivals are accepted in a shared store: those that come meanwhile are the
        next commit, because few large commits need less CPU than many small ones."""
        self._guesses: dict[int, Filling] = {}
        """The tasks' progress when this process last looked; the store decides."""
        self.late: Callable[[RegisteredTask], Verdict | None] = lambda _: None
        """Why a task takes no more reports, beyond what its row says."""
        self.suspects: list[RegisteredTask] = []
        """Tasks whose batch is over although the store does not know it."""
        self.closed: Callable[[], None] = lambda: None
        """Called when a batch became full."""

    async def accept_all(self, take: Callable[[], list[Arrival]]) -> list[Verdict | Exception]:
        """The verdict on each arrival from `take`, after all accepted ones are durable; an
        exception for those that could not be stored. If one process owns the store, all of them are
        one transaction and are taken when it begins."""
        if not self._database.shared:
            reached: list[Reached] = []
            try:
                together = await self._database.run(self._together(take, reached))
            except WentBack:
                await self._watch.compare_now()
                raise
            self._note(reached)
            return list(together)
        async with self._turn:
            arrivals = take()
            groups = _by_task(arrivals)
            accepted = await asyncio.gather(
                *(self.accept([arrivals[at] for at in group]) for group in groups),
                return_exceptions=True,
            )
        said: list[Verdict | Exception] = [Verdict.TASK_CLOSED] * len(arrivals)
        for group, verdicts in zip(groups, accepted, strict=True):
            if isinstance(verdicts, BaseException) and not isinstance(verdicts, Exception):
                raise verdicts
            for place, at in enumerate(group):
                said[at] = verdicts if isinstance(verdicts, Exception) else verdicts[place]
        return said

    def _together(
        self, take: Callable[[], list[Arrival]], reached: list[Reached]
    ) -> Work[list[Verdict]]:
        async def store(transaction: Transaction) -> list[Verdict]:
            arrivals = take()
            said = [Verdict.TASK_CLOSED] * len(arrivals)
            for group in _by_task(arrivals):
                verdicts = await self._accept(transaction, [arrivals[at] for at in group], reached)
                for at, verdict in zip(group, verdicts, strict=True):
                    said[at] = verdict
            return said

        return store

    async def accept(self, arrivals: Sequence[Arrival]) -> list[Verdict]:
        """The verdicts on arrivals of one task, after all that are accepted are durable."""
        reached: list[Reached] = []
        server = self._watch.server
        try:
            verdicts = await self._database.run(
                lambda transaction: self._accept(transaction, arrivals, reached), atomic=False
            )
        except WentBack:
            await self._watch.compare_now()
            raise
        if server != self._watch.server:  # another one answers by now; has it these reports?
            raise StorageUnavailable("The store was restarted; nothing was acknowledged.")
        self._note(reached)
        return verdicts

    def _note(self, reached: list[Reached]) -> None:
        """Records the tasks' progress outside the store, before anything is acknowledged."""
        for entry, state in reached:
            self._watch.reached(entry, state)
            if state.reports == 0:
                self.closed()

    async def _accept(
        self, transaction: Transaction, arrivals: Sequence[Arrival], reached: list[Reached]
    ) -> list[Verdict]:
        entry = self._entry(arrivals[0].task)
        verdicts: list[Verdict] = []
        presume = transaction.dialect == "postgresql"
        for _ in range(MOST_TRIES):
            rest = arrivals[len(verdicts) :]
            if not rest:
                await self._acknowledge_again(transaction, entry, verdicts, reached)
                return verdicts
            verdicts += await self._attempt(transaction, entry, rest, reached, presume=presume)
            presume = False
        raise StorageUnavailable("Too many reports of this task arrive at once; try again later.")

    async def _attempt(
        self,
        transaction: Transaction,
        entry: RegisteredTask,
        arrivals: Sequence[Arrival],
        reached: list[Reached],
        *,
        presume: bool,
    ) -> list[Verdict]:
        """The verdicts on the first arrivals, of which those that are good are stored; none if
        others were faster, or if what was presumed does not hold."""
        state, known = self._guesses.get(entry.number), self._watch.position(entry)
        incarnation = self._watch.incarnation  # of the tables that are looked at below
        if state is None:
            state = await filling.filling(transaction, entry.number)
            if state is not None and self._watch.doubts(state, known):
                raise WentBack
        if state is None or not state.accepting:
            return await self._refused(transaction, arrivals, state, Verdict.TASK_CLOSED)
        late = self.late(entry)
        if late is not None:
            return await self._refused(transaction, arrivals, state, late)
        presume = presume and all(one.scope != ALL_TASKS for one in arrivals)
        if presume:
            found = Found({}, {one.token for one in arrivals if not one.proved})
        else:
            found = await look(transaction, arrivals, state.number)
        said, positions = judge(arrivals, found, state.number, state.size - state.reports)
        if not positions:
            return said
        good = [arrivals[at] for at in positions]
        key = await self._key(transaction, entry, state.number)
        if key is None:
            return []
        names: list[Row] = []
        for one in good:
            names += ((one.task, one.report, one.checksum), (*spending(one, state.number), 0))
        part = Part(
            task=entry.number,
            number=state.number,
            batch_id=key.batch_id,
            names=sorted(names),
            reports=[(one.report, key.encrypt(one.messages, one.report)) for one in good],
            known=known,
            tokens=[one.token for one in good if presume and not one.proved],
            incarnation=incarnation,
        )
        self._guesses.pop(entry.number, None)
        try:
            after = await filling.store(transaction, part, int(self._clock()))
        except KeyTaken:
            return []
        if after is None:
            return []
        reached.append((entry, after))
        if transaction.dialect == "postgresql":
            self._guesses[entry.number] = after._replace(size=state.size)
        return said

    async def _acknowledge_again(
        self,
        transaction: Transaction,
        entry: RegisteredTask,
        verdicts: Sequence[Verdict],
        reached: list[Reached],
    ) -> None:
        """Acknowledges retries. The first process may have been killed before it recorded the
        task's progress, so this one records it."""
        if Verdict.DUPLICATE in verdicts:
            state = await filling.filling(transaction, entry.number)
            if state is not None:
                reached.append((entry, state))

    async def _refused(
        self,
        transaction: Transaction,
        arrivals: Sequence[Arrival],
        state: Filling | None,
        verdict: Verdict,
    ) -> list[Verdict]:
        """The verdicts on arrivals of a task that takes no more: retries of what is stored are
        still acknowledged."""
        number = 0 if state is None else state.number
        found = await look(transaction, arrivals, number)
        said, _ = judge(arrivals, found, number, len(arrivals))
        return [one if one in STORED else verdict for one in said]

    async def _key(
        self, transaction: Transaction, entry: RegisteredTask, number: int
    ) -> BatchKey | None:
        """The key of a batch; None if the batch was filled and delivered meanwhile."""
        try:
            known = self._keys.known(entry.task.id, number)
            if known is not None:
                return known
            if self._database.shared:
                return await asyncio.to_thread(self._keys.key, entry.task.id, number)
            return self._keys.key(entry.task.id, number)  # in the store's thread already
        except KeyDestroyed:
            self._guesses.pop(entry.number, None)
            now = await filling.filling(transaction, entry.number)
            if now is None or now.number != number:
                return None
            self.suspects.append(entry)
            raise


def _by_task(arrivals: Sequence[Arrival]) -> list[list[int]]:
    """The positions of the arrivals of each task."""
    groups: dict[int, list[int]] = {}
    for at, arrival in enumerate(arrivals):
        groups.setdefault(arrival.task, []).append(at)
    return list(groups.values())
