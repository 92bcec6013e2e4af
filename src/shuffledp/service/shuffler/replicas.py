"""The processes of a shuffler, as they see each other through the store."""

from __future__ import annotations

from shuffledp.service.store.database import Database
from shuffledp.tasks.clock import DAY_SECONDS

AWAY_SECONDS = 30
"""A process that has not been seen for longer hangs or has ended."""


class Replicas:
    """This process among the others."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self._name = database, name

    async def beat(self) -> None:
        """Records a heartbeat of this process; forgets processes not seen for a day."""
        now = self._database.now
        await self._database.rows(
            f"INSERT INTO replicas (name, seen) VALUES ($1, {now}) "
            "ON CONFLICT (name) DO UPDATE SET seen = excluded.seen",
            self._name,
        )
        await self._database.rows(f"DELETE FROM replicas WHERE seen < {now} - {DAY_SECONDS}")

    async def leave(self) -> None:
        """Records that this process ends."""
        await self._database.rows("DELETE FROM replicas WHERE name = $1", self._name)

    async def counts(self) -> tuple[int, int]:
        """How many processes were seen recently, and how many are missing."""
        rows = await self._database.rows(f"SELECT {self._database.now} - seen FROM replicas")
        away = sum(int(age) > AWAY_SECONDS for (age,) in rows)
        return len(rows) - away, away
