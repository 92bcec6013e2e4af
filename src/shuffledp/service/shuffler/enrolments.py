"""Who may upload: the enrolled tokens."""

from __future__ import annotations

from collections.abc import Sequence

from shuffledp.service.store.database import Database, Row, Transaction
from shuffledp.tasks.clock import DAY_SECONDS, Clock


class Enrolments:
    """The tokens in the shuffler's store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def enrolled(self, token: bytes) -> bool:
        """Whether the holder of the token with this hash may upload."""
        return bool(await self._database.rows("SELECT 1 FROM tokens WHERE token=$1", token))

    async def enrol(self, hashes: Sequence[bytes]) -> int:
        """Lets the holders of the tokens with these hashes upload; returns how many were new."""
        today = int(self._clock()) // DAY_SECONDS

        async def store(transaction: Transaction) -> int:
            ((lost,),) = await transaction.rows("SELECT lost FROM store WHERE id = 1")
            rows: list[Row] = [(value, today, lost) for value in sorted(set(hashes))]
            return len(await transaction.insert("tokens", ("token", "enrolled", "losses"), rows))

        return await self._database.run(store)
