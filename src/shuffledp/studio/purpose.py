"""What a collection is for, as its people wrote it: for the report and for the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from shuffledp.studio.words import Rows
from shuffledp.tasks.task import NOT_NAMED, Operators

NOT_WRITTEN = "not written down"
UNNAMED = "Collection without a name"


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """The words of the first step; every one may be empty."""

    name: str = ""
    question: str = ""
    """What people are asked."""
    collector: str = ""
    """Who asks; then who runs the two servers."""
    shuffler: str = ""
    analyzer: str = ""
    decided: str = ""
    """Who decided ε, and why."""
    afterwards: str = ""
    """What becomes of the data."""

    @classmethod
    def of(cls, given: object) -> Purpose:
        """The words in a request; what it does not hold is empty."""
        words: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        return cls(**{one.name: str(words.get(one.name) or "").strip() for one in fields(cls)})

    @property
    def title(self) -> str:
        """The name, for a heading."""
        return self.name or self.question or UNNAMED

    @property
    def operators(self) -> Operators:
        """Who runs what, for the task."""
        return Operators(
            self.collector or NOT_NAMED, self.shuffler or NOT_NAMED, self.analyzer or NOT_NAMED
        )

    def rows(self) -> Rows:
        """What an officer asks for first; what is missing is said to be missing."""
        operators = self.operators
        return [
            ("The question", self.question or NOT_WRITTEN),
            ("Who asks", operators.collector),
            ("Who runs the shuffler", operators.shuffler),
            ("Who runs the analyzer", operators.analyzer),
            ("Who decided ε, and why", self.decided or NOT_WRITTEN),
            ("What becomes of the data", self.afterwards or NOT_WRITTEN),
        ]
