"""What clients that break the protocol can do to a result.

A report has K messages, and nobody can inspect a single report. A fake client can therefore send
all K to one cell, or none, where an honest client sends its value and noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shuffledp.cells.base import Cell
from shuffledp.numbers.bisection import bisect
from shuffledp.numbers.exact import to_float
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result

STEPS = 20
"""Of a bisection."""


class Moved(NamedTuple):
    """What fake clients do to the first cell, at expected values."""

    estimate: float
    """How far its estimate moves."""
    anomaly: float
    """How implausible the batch is then (`Protocol.anomaly`)."""


def weight(protocol: Protocol[Result], report_size: int) -> float:
    """How many honest people one client with a report of `report_size` messages can weigh as much
    as: the most it can move the estimate of a cell, in units of the cell's largest value."""
    return max(_weight(member.cell, report_size) for member in protocol.members)


def _weight(cell: Cell, sent: int) -> float:
    least = (0, sent) if cell.sends_minus else (0, 0)
    moved = (
        to_float(lambda: cell.estimate(sent, 0, 1)),
        to_float(lambda: cell.estimate(*least, 1)),
    )
    return max(map(abs, moved)) / cell.largest


def sent_by_one(cell: Cell) -> tuple[float, float]:
    """(messages that a user with the value 0 sends on average, how many more one with 1 sends)."""
    nothing, one = (float(cell.estimate(sent, 0, 1)) for sent in (0, 1))
    return nothing / (nothing - one), 1 / (one - nothing)


def moved(
    protocol: Protocol[Result],
    users: int,
    fake: int,
    each: float,
    *,
    others: float = 0,
    honest_share: float,
) -> Moved:
    """What happens if `fake` of `users` clients send `each` messages to the first cell and `others`
    to every other one, while the given share of the honest users has the value 1 in the first cell
    and the rest is spread evenly.

    Requires: all cells count the values 0 and 1, and send no −1.
    """
    cells = protocol.cells
    base, more = sent_by_one(cells[0])
    shares = np.full(len(cells), (1 - honest_share) / max(len(cells) - 1, 1))
    shares[0] = honest_share
    plus = (users - fake) * (base + more * shares) + fake * others
    plus[0] += fake * (each - others)
    sent = np.rint(plus).astype(np.int64)
    batch = Report(users=users, plus=sent, minus=np.zeros(len(cells), np.int64))
    estimate = float(cells[0].estimates(sent, users)[0]) - honest_share * users
    return Moved(estimate, protocol.anomaly(batch))


def most_unmarked(
    protocol: Protocol[Result], fake: int, report_size: int, *, honest_share: float, most: float
) -> float:
    """How far `fake` of the planned users can raise the first cell's estimate while the batch's
    anomaly stays within ±`most`: they send to the first cell what honest users send to others or,
    if there are no others, up to all messages of a report.

    Requires: as `moved`.
    """
    base, _ = sent_by_one(protocol.cells[0])
    rest = len(protocol.cells) - 1

    def raised(part: float) -> Moved:
        first = base + part * rest * base if rest else base + part * (report_size - base)
        share = (1 - part) * base
        size = protocol.users
        return moved(protocol, size, fake, first, others=share, honest_share=honest_share)

    def unmarked(part: float) -> bool:
        return abs(raised(part).anomaly) <= most

    return raised(1.0 if unmarked(1.0) else bisect(unmarked, 1.0, 0.0, steps=STEPS)).estimate
