"""How large a fleet a plan needs: messages, bytes, cores and minutes, from measured rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shuffledp.numbers.exact import whole
from shuffledp.plans.plan import Plan
from shuffledp.protocols.report import ENCRYPTED_MESSAGE_BYTES
from shuffledp.protocols.results import Result


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What one core of one machine does in a second."""

    encrypted: float
    """Messages encrypted, by a client."""
    ordered: float
    """Messages brought into order, by the shuffler."""
    opened: float
    """Messages opened and counted, by the analyzer."""
    tallied: float
    """Rows encoded and tallied, if you have the data in the clear."""
    cores: int = 1
    """Cores of the machine that was measured."""


@dataclass(frozen=True)
class Step:
    """One kind of work: how many items, and how long one core takes for all of them."""

    what: str
    items: int
    core_seconds: float

    def minutes(self, cores: int) -> float:
        """How long `cores` cores take, if the work spreads evenly."""
        return self.core_seconds / cores / 60

    def cores_for(self, minutes: float) -> int:
        """How many cores finish within `minutes`."""
        return max(1, math.ceil(self.core_seconds / (60 * minutes)))


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """The resources that a collection from `users` users needs."""

    users: int
    report_size: int
    report_bytes: int
    collected_bytes: int
    """All reports, as the shuffler keeps them."""
    batch_bytes: int
    """All messages in order, as the analyzer gets them."""
    client_seconds: float
    """Seconds to encrypt one report."""
    steps: tuple[Step, ...]
    rates: Rates

    def to_dict(self) -> dict[str, Any]:
        """The fleet as a JSON object."""
        return {
            "users": self.users,
            "report_size": self.report_size,
            "report_bytes": self.report_bytes,
            "collected_bytes": self.collected_bytes,
            "batch_bytes": self.batch_bytes,
            "client_seconds_per_report": self.client_seconds,
            "steps": [
                {
                    "step": step.what,
                    "items": step.items,
                    "core_hours": step.core_seconds / 3600,
                    "minutes_on_this_machine": step.minutes(self.rates.cores),
                    "cores_for_one_hour": step.cores_for(60),
                }
                for step in self.steps
            ],
            "measured_per_core_and_second": {
                name: round(getattr(self.rates, name))
                for name in ("encrypted", "ordered", "opened", "tallied")
            },
        }

    def rows(self) -> list[tuple[str, str]]:
        """The fleet for people, as names and texts."""
        lines = [
            (
                "report",
                f"{self.report_size:,} messages, {self.report_bytes:,} bytes, "
                f"encrypted in {self.client_seconds:,.2g} s",
            ),
            (
                "all reports",
                f"{self.users * self.report_size:,} messages, "
                f"{self.collected_bytes / 1e9:,.4g} GB collected, "
                f"{self.batch_bytes / 1e9:,.4g} GB in batches",
            ),
        ]
        for step in self.steps:
            here = _short(step.minutes(self.rates.cores))
            lines.append(
                (
                    step.what,
                    f"{_short(step.core_seconds / 3600)} core hours: {here} minutes on "
                    f"{self.rates.cores} cores like this machine's, or an hour on "
                    f"{step.cores_for(60):,}",
                )
            )
        return lines


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:,.2g}"


def fleet(
    plan: Plan[Result], rates: Rates, report_size: int, report_bytes: int, users: int | None = None
) -> Fleet:
    """The fleet for `users` (by default the plan's expected users), each with `report_size`
    encrypted messages."""
    n = plan.expected if users is None else whole(users, "users")
    messages = n * report_size
    steps = (
        Step("shuffler: shuffle", messages, messages / rates.ordered),
        Step("analyzer: open and count", messages, messages / rates.opened),
        Step("or: tally rows in the clear", n, n / rates.tallied),
    )
    return Fleet(
        users=n,
        report_size=report_size,
        report_bytes=report_bytes,
        collected_bytes=n * report_bytes,
        batch_bytes=messages * ENCRYPTED_MESSAGE_BYTES,
        client_seconds=report_size / rates.encrypted,
        steps=steps,
        rates=rates,
    )
