"""Storing uploads through one connection to a store; several processes may do so side by side.

Everything that must happen once is kept by the database's own keys: a report's id and a token are
rows of the table `used`, written in the transaction that stores the report. Two processes that are
sent the same at the same time cannot both store it; the second one looks again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from shuffledp.service.errors import KeyTaken, StorageUnavailable
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler.arrivals import (
    ALL_TASKS,
    STORED_COLUMNS,
    USED_COLUMNS,
    Arrival,
    Verdict,
    spending,
)
from shuffledp.service.shuffler.batches import row_number
from shuffledp.service.shuffler.enrolments import Admitted, Enrolments
from shuffledp.service.shuffler.insisting import insist
from shuffledp.service.shuffler.places import Grant, PlaceSource, Taken
from shuffledp.service.shuffler.report_keys import BatchKey
from shuffledp.service.store.database import Database, Row, Rows, Transaction
from shuffledp.tasks.clock import Clock

MOST_TRIES = 5
"""How often a commit is tried whose keys others have stored meanwhile. Each time costs whoever
sends the same twice another token."""


@dataclass(kw_only=True)
class Judged:
    """The verdicts on arrivals, before those that are accepted have places."""

    arrivals: Sequence[Arrival]
    verdicts: list[Verdict] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    """Positions of arrivals whose report was stored before."""
    spent: dict[int, Row] = field(default_factory=dict)
    """What each accepted arrival uses up of its token, by its position."""
    batches: dict[int, int] = field(default_factory=dict)
    """Where a token counts once in every batch: the batch for which it was judged."""

    def counts(self) -> Counter[int]:
        """How many reports of each task are accepted."""
        return Counter(self.arrivals[at].task for at in self.spent)

    def refuse(self, task: int, verdict: Verdict) -> None:
        """Refuses all arrivals of a task but retries of what is stored. A token that such an
        arrival would have used up is free again: another task's arrival is judged anew."""
        freed = set()
        for at, arrival in enumerate(self.arrivals):
            if arrival.task == task and at not in self.known:
                self.verdicts[at] = verdict
                if self.spent.pop(at, None) is not None and arrival.scope == ALL_TASKS:
                    freed.add(arrival.token)
        for at, arrival in enumerate(self.arrivals):
            if arrival.token in freed and self.verdicts[at] is Verdict.TOKEN_USED:
                self.verdicts[at] = Verdict.BUSY


class Lane:
    """Stores uploads for the tasks in one store."""

    def __init__(
        self,
        database: Database,
        entry: Callable[[int], RegisteredTask],
        places: PlaceSource,
        clock: Clock,
        enrolments: Enrolments | None = None,
    ) -> None:
        """`entry` gives the task of a number. Tokens are enrolled in this database too, unless
        `enrolments` says where they are."""
        self._database, self._entry, self._places = database, entry, places
        self._clock, self._enrolments = clock, enrolments
        self._doubtful: list[Grant] = []
        """Places of commits whose outcome was not heard."""
        self._doubt = asyncio.Event()

    async def accept(self, take: Callable[[], Sequence[Arrival]]) -> list[Verdict]:
        """Stores in one durable transaction what may be stored of the arrivals that `take` gives
        when the database is ready for them.

        Ensures: a report id counts once per task, and a token once within its scope; a retry of
        what was stored is a duplicate even though its token is spent.
        """
        once = _Once(take)
        for _ in range(MOST_TRIES):
            try:
                return await self._commit(once, await self._admitted(once))
            except KeyTaken:
                continue
        raise StorageUnavailable("Others store the same again and again; try later.")

    async def _admitted(self, take: Callable[[], Sequence[Arrival]]) -> Admitted | None:
        """What another store says about the arrivals' tokens; None if they are in this one."""
        if self._enrolments is None:
            return None
        arrivals = take()
        ids = [self._entry(arrival.task).task.id for arrival in arrivals]
        return await self._enrolments.admit(arrivals, ids)

    async def _commit(
        self, take: Callable[[], Sequence[Arrival]], admitted: Admitted | None
    ) -> list[Verdict]:
        grants: list[Grant] = []

        async def store(transaction: Transaction) -> list[Verdict]:
            judged = await self._judge(transaction, take(), admitted)
            taken = await self._places.take(transaction, judged.counts())
            grants.extend(one for one in taken.values() if isinstance(one, Grant))
            names, rows = _placed(judged, taken)
            await transaction.append(
                Rows("used", STORED_COLUMNS, sorted(names)),
                Rows("reports", ("number", "messages"), rows),
            )
            await self._note_waiting(transaction, {grant.task for grant in grants})
            return judged.verdicts

        try:
            verdicts = await self._database.run(store)
        except KeyTaken:
            self._places.settle(grants, stored=False)
            raise
        except BaseException:
            if grants:
                self._doubtful += grants
                self._doubt.set()
            raise
        self._places.settle(grants, stored=True)
        return verdicts

    async def run_settling(self) -> None:
        """Finds out what became of commits whose outcome was not heard, until it is cancelled."""
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            await insist(self.settle_doubtful, "looking up reports failed")

    async def settle_doubtful(self) -> None:
        """Asks the database which of the doubtful commits took effect."""
        grants = list(self._doubtful)
        stored = await filled(self._database, grants)
        for grant, one in zip(grants, stored, strict=True):
            self._doubtful.remove(grant)
            self._places.settle([grant], stored=one)

    async def _judge(
        self, transaction: Transaction, arrivals: Sequence[Arrival], admitted: Admitted | None
    ) -> Judged:
        """The verdicts on arrivals, as if there were places for all that are accepted."""
        reports: list[Row] = [(arrival.task, arrival.report) for arrival in arrivals]
        tokens: list[Row] = [] if admitted else [(arrival.token,) for arrival in arrivals]
        # tokens for one task of any: the first store spends them, and the task's own remembers them
        # too, in case the first one is put back from a backup
        here: list[Row] = [(one.task, one.token) for one in arrivals] if admitted else []
        upcoming = self._upcoming(arrivals)
        used, enrolled = await transaction.present(
            Rows("used", USED_COLUMNS, reports + _spendings(arrivals, upcoming) + here),
            Rows("tokens", ("token",), tokens),
        )
        known = admitted or Admitted([token in enrolled for token in tokens], [])
        checksums = await _checksums(transaction, used, reports)
        judged = Judged(arrivals=arrivals)
        judged.known = {at for at, report in enumerate(reports) if report in used}
        accepted: Counter[int] = Counter()
        for at, (arrival, report) in enumerate(zip(arrivals, reports, strict=True)):
            elsewhere = admitted is not None and arrival.scope == ALL_TASKS
            batch = upcoming[arrival.task][accepted[arrival.task]] if arrival.scope is None else 0
            spent = (arrival.task, arrival.token) if elsewhere else spending(arrival, batch)
            if report in used:
                same = checksums[report] == arrival.checksum
                judged.verdicts.append(Verdict.DUPLICATE if same else Verdict.REPORT_DIFFERS)
            elif not (arrival.proved or known.enrolled[at]):
                judged.verdicts.append(Verdict.UNKNOWN_TOKEN)
            elif spent in used or (elsewhere and known.spent[at]):
                judged.verdicts.append(Verdict.TOKEN_USED)
            else:
                judged.verdicts.append(Verdict.ACCEPTED)
                judged.spent[at] = spent
                if arrival.scope is None:
                    judged.batches[at] = batch
                used |= {report, spent}
                checksums[report] = arrival.checksum
                accepted[arrival.task] += 1
        return judged

    def _upcoming(self, arrivals: Sequence[Arrival]) -> dict[int, list[int]]:
        """For tasks whose tokens count once in every batch, the batches that come next: as many as
        there are arrivals, also those with tokens that count once in all."""
        tasks = {arrival.task for arrival in arrivals if arrival.scope is None}
        wanted = Counter(arrival.task for arrival in arrivals if arrival.task in tasks)
        return {task: self._places.expected(task, count) for task, count in wanted.items()}

    async def _note_waiting(self, transaction: Transaction, tasks: set[int]) -> None:
        """Stores since when reports wait, for tasks where that matters."""
        timed = {task for task in tasks if self._entry(task).task.batch.top_up != "none"}
        rows: list[Row] = [(task, int(self._clock())) for task in sorted(timed)]
        if rows:
            await transaction.insert("waiting", ("task", "since"), rows)


class _Once:
    """Takes arrivals once, and gives the same ones again when a commit is tried again."""

    def __init__(self, take: Callable[[], Sequence[Arrival]]) -> None:
        self._take = take
        self._taken: Sequence[Arrival] | None = None

    def __call__(self) -> Sequence[Arrival]:
        if self._taken is None:
            self._taken = self._take()
        return self._taken


def _placed(judged: Judged, taken: Taken) -> tuple[list[Row], list[Row]]:
    """(ids and tokens, encrypted reports) of all accepted arrivals, as rows to store; refuses those
    that got no places."""
    seats: dict[int, Iterator[tuple[int, int, BatchKey]]] = {}
    for task, given in taken.items():
        if isinstance(given, Grant):
            seats[task] = _seats(given)
        else:
            judged.refuse(task, given)
    names: list[Row] = []
    rows: list[Row] = []
    for at, spent in judged.spent.items():
        arrival = judged.arrivals[at]
        place, batch, key = next(seats[arrival.task])
        if judged.batches.get(at, batch) != batch:
            raise KeyTaken("The batch was closed meanwhile; look again.")
        number = row_number(arrival.task, place)
        names += [(arrival.task, arrival.report, arrival.checksum), (*spent, 0)]
        rows.append((number, key.encrypt(arrival.messages, number)))
    return names, rows


def _seats(grant: Grant) -> Iterator[tuple[int, int, BatchKey]]:
    """(place, batch, key) of all places of a grant."""
    for piece in grant.pieces:
        for place in range(piece.first, piece.first + piece.length):
            yield place, piece.batch, piece.key


def _spendings(arrivals: Sequence[Arrival], upcoming: dict[int, list[int]]) -> list[Row]:
    """What could be spent of the arrivals' tokens, whichever of them are accepted."""
    found: list[Row] = [spending(one, 0) for one in arrivals if one.scope is not None]
    for arrival in arrivals:
        if arrival.scope is None:
            found += (spending(arrival, number) for number in sorted(set(upcoming[arrival.task])))
    return found


async def _checksums(
    transaction: Transaction, used: set[Row], reports: Sequence[Row]
) -> dict[Row, int]:
    """The checksums of those reports that are stored already, which are few."""
    found = {}
    for report in used.intersection(reports):
        rows = await transaction.rows(
            "SELECT checksum FROM used WHERE task=$1 AND name=$2", *report
        )
        found[report] = int(rows[0][0])
    return found


async def filled(database: Database, grants: Sequence[Grant]) -> list[bool]:
    """Which of these grants were filled.

    Requires: the transactions that took them are over.
    """

    async def look(transaction: Transaction) -> list[bool]:
        numbers = [row_number(grant.task, grant.first) for grant in grants]
        sql = "SELECT 1 FROM reports WHERE number=$1"
        return [bool(await transaction.rows(sql, number)) for number in numbers]

    return await database.run(look)
