"""K, the number of messages that every report of a protocol carries, so that its size says nothing.

Where every cell is bounded, K is the most that a user can send: nothing is ever drawn again, and
the guarantee is exact. The paper's cells have no such number. Their K comes from the exact tail of
the number of messages: a user needs more with probability at most 2⁻⁶⁴ over a whole batch, and then
draws again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from shuffledp.cells.base import CellGroup
from shuffledp.numbers.message_law import NoiseMessages, least_capacity

EXACT, RESERVE = "exact", "2^-64"
PADDINGS = (EXACT, RESERVE)
"""Reports as long as the longest possible one, or as long as all but one in 2⁶⁴ batches need."""
Groups = tuple[CellGroup, ...]


def most_messages(groups: Sequence[CellGroup]) -> int | None:
    """The most messages that a user can send; None if a group has no limit."""
    sure, laws = message_laws(groups)
    return None if laws else sure


def padding_of(groups: Sequence[CellGroup]) -> str:
    """Exact where there is a longest report."""
    return RESERVE if most_messages(groups) is None else EXACT


def message_laws(groups: Sequence[CellGroup]) -> tuple[int, list[NoiseMessages]]:
    """(a, laws): a user sends at most a + a sum of independent draws of these laws."""
    found = [group.message_laws() for group in groups]
    return sum(sure for sure, _ in found), [law for _, laws in found for law in laws]


@lru_cache(maxsize=64)
def reserve_size(groups: Groups, reports: int) -> int:
    """The K that a batch of `reports` reports exceeds with probability at most 2⁻⁶⁴. Requires: some
    group has no largest number of messages.

    Ensures: reports · P(a user sends more than K) ≤ 2⁻⁶⁴, whatever the values, in ball arithmetic.
    """
    sure, laws = message_laws(groups)
    return sure + least_capacity(laws, reports)


def padded_size(groups: Groups, reports: int) -> int:
    """K: the size of a report in batches of `reports`."""
    most = most_messages(groups)
    return reserve_size(groups, reports) if most is None else most


def promise(padding: str, *, full_top_up: bool = False) -> str:
    """In words, the guarantee of reports with this padding; `full_top_up` if the shuffler adds a
    full set of noise, padded in the same way, to every batch."""
    if padding == EXACT:
        return "pure ε-differential privacy in the shuffle model"
    if full_top_up:
        return (
            "ε-differential privacy in the shuffle model up to a probability of 2⁻⁶³ per batch (a "
            "report or a top-up that overflows its fixed size is drawn again)"
        )
    return (
        "ε-differential privacy in the shuffle model up to a probability of 2⁻⁶⁴ per batch (a "
        "report that overflows its fixed size is drawn again)"
    )
