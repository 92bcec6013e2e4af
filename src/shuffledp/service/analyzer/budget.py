"""The analyzer's ledger, compared with what its store remembers: a lost one never starts anew."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path

from shuffledp.errors import ShuffleDPError
from shuffledp.release.ledger import Ledger
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.analyzer.store import AnalyzerStore
from shuffledp.service.http.tasks import TaskRegistry
from shuffledp.tasks.errors import StateLost
from shuffledp.tasks.results import ledger_line


class Budget:
    """The configured ledger, which is made at the first release and never silently again."""

    def __init__(self, config: AnalyzerConfig, store: AnalyzerStore, tasks: TaskRegistry) -> None:
        self._path, self._amount = Path(config.ledger), config.budget
        self._store, self._tasks = store, tasks
        self._turn = asyncio.Lock()

    async def ledger(self) -> Ledger:
        """The ledger that releases are charged to.

        Ensures: raises `StateLost` if a ledger was used before and is missing now, has spent less
        than it had, or lacks the line of a published batch.
        """
        async with self._turn:
            before, lines = await self._store.ledger_spent(), await self._lines()
            if not self._path.exists():
                if before is not None or lines:
                    raise StateLost(_lost("is missing"))
                await asyncio.to_thread(Ledger.create, self._path, self._amount)
            ledger = Ledger(self._path)
            spent = await asyncio.to_thread(ledger.spent)
            if before is not None and spent < before:
                raise StateLost(_lost("has spent less than it had"))
            known = {entry.what for entry in await asyncio.to_thread(ledger.entries)}
            if not lines.keys() <= known:
                raise StateLost(_lost("lacks the lines of published batches"))
            if spent != before:
                await self._store.note_ledger(spent)
            return ledger

    async def left(self) -> Fraction | None:
        """What is left of the budget; None if there is no ledger that says it."""
        if not self._path.exists():
            return None
        try:
            return await asyncio.to_thread(Ledger(self._path).remaining)
        except ShuffleDPError:
            return None

    async def note(self) -> None:
        """Remembers what the ledger has spent now."""
        async with self._turn:
            await self._store.note_ledger(await asyncio.to_thread(Ledger(self._path).spent))

    async def restore(self) -> int:
        """Writes every line that the ledger lacks, on purpose, after a loss; gives how many."""
        async with self._turn:
            before, lines = await self._store.ledger_spent(), await self._lines()
            return await asyncio.to_thread(
                Ledger(self._path).restore, self._amount, lines, before or Fraction(0)
            )

    async def _lines(self) -> dict[str, Fraction]:
        """The ledger's line of every published batch, and its ε."""
        found = {}
        for batch, number in await self._store.published_ids():
            task = self._tasks.numbered(number).task
            found[ledger_line(task, batch)] = task.protocol.epsilon
        return found


def _lost(how: str) -> str:
    return (
        f"The ledger {how}, so that the budget that is left is not known; nothing is published: "
        "bring the file back, or write its lines again with `shuffledp analyzer restore-ledger`."
    )
