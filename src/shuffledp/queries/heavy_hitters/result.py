"""The result of a search for frequent words."""

from __future__ import annotations

from dataclasses import dataclass

from shuffledp.numbers.exact import counted
from shuffledp.protocols.results import HistogramResult


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HeavyHittersResult(HistogramResult):
    """The words that were found, each once, the most frequent first."""

    query: str = "heavy-hitters"

    def __str__(self) -> str:
        if self.labels:
            return super().__str__()
        return (
            f"{self.query} of {counted(self.users, 'user')}, ε = {float(self.epsilon):g}"
            f"{self.marks()}: no word is frequent enough to be found"
        )
