"""K, the number of messages that every report of a protocol carries, so that its size says nothing.

Where every cell is bounded, K may be the most that a user can send: nothing is ever drawn again,
and the guarantee is exact. Otherwise K comes from the exact tail of the number of messages: a user
needs more with probability at most 2⁻⁶⁴ over a whole batch, and then draws again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from shuffledp.cells.base import Cell
from shuffledp.cells.use import CellUse
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import to_float
from shuffledp.numbers.message_law import MessageLaw, chernoff_capacity, least_capacity

EXACT, RESERVE = "exact", "2^-64"
PADDINGS = (EXACT, RESERVE)
"""Reports as long as the longest possible one, or as long as all but one in 2⁶⁴ batches need."""


def most_messages(uses: Sequence[CellUse]) -> int | None:
    """The most that a user can send; None where a cell has no such number."""
    cells, copies = [use.cell for use in uses], [use.copies for use in uses]
    return type(cells[0]).most_together(cells, copies)


def message_laws(uses: Sequence[CellUse]) -> tuple[int, list[MessageLaw]]:
    """(a, laws): a user sends at most a + a sum of independent draws of these laws."""
    parts = [use.cell.message_laws(use.copies) for use in uses]
    return sum(sure for sure, _ in parts), [law for _, laws in parts for law in laws]


@lru_cache(maxsize=64)
def reserve_size(uses: tuple[CellUse, ...], reports: int) -> int:
    """The K that a batch of so many reports exceeds with probability at most 2⁻⁶⁴.

    Ensures: reports · P(a user sends more than K) ≤ 2⁻⁶⁴, whatever the values, in ball arithmetic.
    """
    sure, laws = message_laws(uses)
    return sure + least_capacity(laws, reports)


def best_padding(uses: tuple[CellUse, ...], reports: int) -> str:
    """Exact padding where it is possible at less than twice the size of a reserve; cells that are
    drawn together send hardly more at most than on average and need no reserve."""
    if uses[0].cell.draws_together:
        return EXACT
    most = most_messages(uses)
    pure = most is not None and most < 2 * reserve_size(uses, reports)
    return EXACT if pure else RESERVE


def padded_size(uses: tuple[CellUse, ...], reports: int, padding: str | None = None) -> int:
    """K: the size of a report with this padding; with the best one if none is given."""
    padding = padding or best_padding(uses, reports)
    if padding == RESERVE and uses[0].cell.draws_together:
        raise ParameterError("Cells that share their way up have exact padding only.")
    if padding == RESERVE:
        return reserve_size(uses, reports)
    most = most_messages(uses)
    if padding != EXACT or most is None:
        raise ParameterError(
            f"padding must be one of {', '.join(PADDINGS)}; exact padding needs cells that send a "
            "bounded number of messages (cell=bounded)."
        )
    return most


def top_up_size(uses: Sequence[CellUse], absent: int) -> int:
    """To how many messages the noise of so many absent users is filled up.

    Ensures: their noise needs more with probability at most 2⁻⁶⁴.
    """
    parts = [use.cell.top_up_laws(absent, use.copies) for use in uses]
    if uses[0].cell.draws_together:  # not independent: each cell gets a share of the probability
        return sum(sure + chernoff_capacity(laws, len(parts)) for sure, laws in parts)
    laws = [law for _, found in parts for law in found]
    return sum(sure for sure, _ in parts) + chernoff_capacity(laws, 1)


def promise(padding: str) -> str:
    """Which guarantee reports with this padding keep, in words."""
    if padding == EXACT:
        return "pure ε-differential privacy in the shuffle model"
    return (
        "ε-differential privacy in the shuffle model up to a probability of 2⁻⁶⁴ per batch (a "
        "report that overflows its fixed size is drawn again)"
    )


def bucket_messages(cell: Cell, buckets: int) -> float:
    """The expected messages of a user in so many copies of a cell, of which one holds the largest
    value (a bucket's is 1) and the others 0."""
    return to_float(lambda: cell.messages_per_user() + (buckets - 1) * cell.messages_per_user(0))
