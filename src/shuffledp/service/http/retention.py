"""What a role deletes: with a task that is archived or deleted, and what is older than the operator
wants to keep."""

from __future__ import annotations

from abc import ABC, abstractmethod

from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.store.database import Transaction
from shuffledp.tasks.clock import DAY_SECONDS, Clock


class Retention(ABC):
    """What a role deletes. Without reports, batches and other stores there is nothing to do before
    a task is archived."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def waiting(self, entry: RegisteredTask) -> int:
        """How many reports of a task wait, or batches may still come."""
        return 0

    async def unfinished(self, entry: RegisteredTask) -> int:
        """How many batches of a task are being worked on."""
        return 0

    async def give_up(self, entry: RegisteredTask) -> None:  # noqa: B027
        """Destroys what waits for a task that is being archived."""

    async def clear(self, entry: RegisteredTask) -> None:  # noqa: B027
        """Deletes the rows of large tables before a task is deleted."""

    @abstractmethod
    async def forget(self, transaction: Transaction, entry: RegisteredTask) -> None:
        """Deletes everything that is stored about a task."""

    def before(self, days: int) -> int:
        """The time `days` days ago, in seconds since 1970."""
        return int(self._clock()) - days * DAY_SECONDS

    @abstractmethod
    async def once(self) -> None:
        """Deletes everything that is too old now."""
