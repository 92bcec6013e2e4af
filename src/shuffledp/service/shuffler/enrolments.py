"""Who may upload: the enrolled tokens, and those that count once in all tasks.

They are kept in the shuffler's first store, for all tasks. A task in another store asks here before
its own transaction: whether a token is enrolled, and, for one that counts once in all tasks,
whether it is free. Such a token is then spent here *for one report of one task*, durably, before
that report is stored. Whatever is killed in between, the same report may go on when it is sent
again, and no other one can use the token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from shuffledp.service.shuffler.arrivals import ALL_TASKS, STORED_COLUMNS, Arrival
from shuffledp.service.store.database import Database, Row, Rows, Transaction
from shuffledp.tasks.clock import DAY_SECONDS, Clock


@dataclass(frozen=True)
class Admitted:
    """What the first store says about arrivals for another one, in their order."""

    enrolled: list[bool]
    spent: list[bool]
    """Whether the token counts once in all tasks and another report has used it."""


def spending_mark(task_id: bytes, report: bytes) -> int:
    """Which report has spent a token that counts once in all tasks: never 0, which stands for one
    in the first store itself."""
    digest = hashlib.sha256(task_id + report).digest()
    return int.from_bytes(digest[:8], "big") >> 1 | 1


class Enrolments:
    """The tokens in the shuffler's first store."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def enrolled(self, token: bytes) -> bool:
        """Whether the holder of the token with this hash may upload."""
        return bool(await self._database.rows("SELECT 1 FROM tokens WHERE token=$1", token))

    async def enrol(self, hashes: Sequence[bytes]) -> int:
        """Lets the holders of the tokens with these hashes upload; gives how many were new."""
        today = int(self._clock()) // DAY_SECONDS
        rows: list[Row] = [(value, today) for value in sorted(set(hashes))]
        new = await self._database.run(
            lambda transaction: transaction.insert("tokens", ("token", "enrolled"), rows)
        )
        return len(new)

    async def admit(self, arrivals: Sequence[Arrival], task_ids: Sequence[bytes]) -> Admitted:
        """Looks up the tokens of arrivals for another store, and spends those that count once.

        Ensures: a token that counts once is spent for one report of one task, and `spent` is False
        for that report alone, however often it comes.
        """

        async def look(transaction: Transaction) -> Admitted:
            tokens: list[Row] = [(arrival.token,) for arrival in arrivals]
            (known,) = await transaction.present(Rows("tokens", ("token",), tokens))
            enrolled = [token in known for token in tokens]
            spent = [False] * len(arrivals)
            # in the order of the tokens, so that processes that spend the same ones do not wait for
            # each other in a circle
            for place in sorted(range(len(arrivals)), key=lambda at: arrivals[at].token):
                arrival = arrivals[place]
                if arrival.scope == ALL_TASKS and enrolled[place]:
                    mark = spending_mark(task_ids[place], arrival.report)
                    row = (ALL_TASKS, arrival.token, mark)
                    await transaction.insert("used", STORED_COLUMNS, [row], key=2)
                    found = await transaction.rows(
                        "SELECT checksum FROM used WHERE task=$1 AND name=$2", *row[:2]
                    )
                    spent[place] = int(found[0][0]) != mark
            return Admitted(enrolled, spent)

        return await self._database.run(look)
