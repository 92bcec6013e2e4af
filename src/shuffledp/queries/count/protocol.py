"""Counting: how many users have the value 1 ([GKM23] Section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shuffledp.errors import ParameterError
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol


@dataclass(frozen=True)
class CountProtocol(IntegerSumProtocol):
    """How many users have the value 1: the paper's protocol, an integer sum of the values 0 and
    1."""

    query: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        if self.cell.largest != 1:
            raise ParameterError("Counting needs a cell for the values 0 and 1.")
