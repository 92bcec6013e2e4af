"""Series of tasks: one question that is asked again every day or every week.

Membership is part of the task, and so of its id, which collector, shuffler and analyzer sign and
the public log records. The id of a series is the hash of everything that its tasks have in common:
a task with a different question, ε, date or length belongs to a different series, even under the
same name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shuffledp.documents.schema import ONE_LINE, OneOf, Record, Text, Whole
from shuffledp.tasks.canonical import canonical_text
from shuffledp.tasks.clock import DAY_SECONDS

EVERY_DAYS = {"day": 1, "week": 7}
MOST_TASKS = 1000
TASK_NAME = Text(100, 1, ONE_LINE)
SERIES = Record(
    {
        "name": TASK_NAME,
        "every": OneOf(tuple(EVERY_DAYS)),
        "tasks": Whole(1, MOST_TASKS),
        "place": Whole(1, MOST_TASKS),
    }
)
OWN_FIELDS = ("name", "not_before", "expires", "analyzer_key")
"""Fields that differ between the tasks of a series, besides `place` and the issuer's key."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A task's position in a series."""

    name: str
    """What the operators call the series."""
    every: str
    """How long each task is valid: a day or a week, from where the one before it ends."""
    tasks: int
    """How many tasks the series has."""
    place: int
    """The position of this task, counted from 1."""

    @property
    def seconds(self) -> int:
        """How long each task of the series is valid."""
        return EVERY_DAYS[self.every] * DAY_SECONDS

    def begin(self, not_before: int) -> int:
        """When the first task of the series begins, given when this one begins."""
        return not_before - (self.place - 1) * self.seconds

    def fits(self, not_before: int, expires: int) -> bool:
        """Whether a task with these dates can have this position."""
        return self.place <= self.tasks and expires - not_before == self.seconds


def series_id(task: Mapping[str, Any]) -> str:
    """The id (64 hexadecimal digits) of the series that a task, given as JSON data, belongs to.

    Ensures: two tasks have the same id if and only if they agree in everything but `OWN_FIELDS`,
    their positions and their issuers' keys, and their positions and dates give the same beginning.
    """
    common = {name: value for name, value in task.items() if name not in OWN_FIELDS}
    series = Series(**task["series"])
    common["series"] = {
        "name": series.name,
        "every": series.every,
        "tasks": series.tasks,
        "begin": series.begin(task["not_before"]),
    }
    if "issuer" in common:
        common["issuer"] = {
            name: value for name, value in common["issuer"].items() if name != "key"
        }
    return hashlib.sha256(canonical_text(common)).hexdigest()
