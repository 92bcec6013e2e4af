"""K, the number of messages that every report of a protocol carries, so that its size reveals
nothing.

If every cell is bounded, K may be the most that a user can send; then nothing is ever drawn again,
and the guarantee is exact. Otherwise K comes from the exact tail of the number of messages: a user
needs more with probability at most 2⁻⁶⁴ over a whole batch, and then draws again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from shuffledp.cells.base import CellGroup
from shuffledp.errors import ParameterError
from shuffledp.numbers.message_law import MessageLaw, least_capacity

EXACT, RESERVE = "exact", "2^-64"
PADDINGS = (EXACT, RESERVE)
"""Reports as long as the longest possible one, or as long as all but one in 2⁶⁴ batches need."""
Groups = tuple[CellGroup, ...]


def most_messages(groups: Sequence[CellGroup]) -> int | None:
    """The most messages that a user can send; None if a group has no limit."""
    found = [group.most_messages for group in groups]
    known = [most for most in found if most is not None]
    return sum(known) if len(known) == len(found) else None


def message_laws(groups: Sequence[CellGroup]) -> tuple[int, list[MessageLaw]] | None:
    """(a, laws): a user sends at most a + a sum of independent draws of these laws; None if a group
    has no such bound, because its longest report is hardly longer than the average."""
    found = [group.message_laws() for group in groups]
    known = [part for part in found if part is not None]
    if len(known) < len(found):
        return None
    return sum(sure for sure, _ in known), [law for _, laws in known for law in laws]


@lru_cache(maxsize=64)
def reserve_size(groups: Groups, reports: int) -> int | None:
    """The K that a batch of `reports` reports exceeds with probability at most 2⁻⁶⁴; None if the
    groups have exact padding only.

    Ensures: reports · P(a user sends more than K) ≤ 2⁻⁶⁴, whatever the values, in ball arithmetic.
    """
    known = message_laws(groups)
    return None if known is None else known[0] + least_capacity(known[1], reports)


def best_padding(groups: Groups, reports: int) -> str:
    """Exact padding if it needs less than twice as many messages as a reserve."""
    most = most_messages(groups)
    if most is None:
        return RESERVE
    reserve = reserve_size(groups, reports)
    return EXACT if reserve is None or most < 2 * reserve else RESERVE


def padded_size(groups: Groups, reports: int, padding: str | None = None) -> int:
    """K: the size of a report with this padding; with the best one if none is given."""
    padding = padding or best_padding(groups, reports)
    if padding == RESERVE:
        reserve = reserve_size(groups, reports)
        if reserve is None:
            raise ParameterError(
                "Cells that are drawn together have exact padding only; leave padding out."
            )
        return reserve
    most = most_messages(groups)
    if padding != EXACT or most is None:
        raise ParameterError(
            f"padding must be one of {', '.join(PADDINGS)}; exact padding needs cells that send a "
            "bounded number of messages (cell=bounded)."
        )
    return most


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
