"""Uploads that follow the layout, the verdicts on them, and what they use up of their tokens."""

from __future__ import annotations

import zlib
from enum import Enum
from typing import NamedTuple

from shuffledp.service.store.database import Row

ALL_TASKS = 0
"""The task under which a token is recorded that counts once in all tasks."""


class Verdict(Enum):
    """Whether an upload was stored, or why not."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    UNKNOWN_TOKEN = "token-unknown"
    TOKEN_USED = "token-used"
    REPORT_DIFFERS = "report-differs"
    TASK_CLOSED = "task-closed"
    TASK_EXPIRED = "task-expired"
    KEY_RETIRED = "key-retired"


class Arrival(NamedTuple):
    """An upload that follows the layout; the store decides whether it counts."""

    task: int
    report: bytes
    """The report's id."""
    token: bytes
    """The hash of the token."""
    scope: int | None
    """The task within which the token may be used once; 0: once in all tasks; None: once in every
    batch of the task."""
    messages: bytes
    proved: bool = False
    """Whether the token was shown to be valid by its signature, so that none needs to be
    enrolled."""

    @property
    def checksum(self) -> int:
        """Distinguishes a retry of the same bytes from another report with the same id. A client
        that makes two reports of one id with the same checksum only loses the second."""
        return zlib.crc32(self.messages)


def spending(arrival: Arrival, number: int) -> Row:
    """The row in the table `used` that marks a report's token as spent."""
    if arrival.scope is None:
        return arrival.task, arrival.token + number.to_bytes(4, "big")
    return arrival.scope, arrival.token
