"""Prints the tables of docs/false-crowds.md: what false clients do to a result, and how it shows.

Everything is computed, at expected values: 30 of 100 honest users hold 1 (or the label), and the
false clients send all messages that a report holds, as many as an honest report holds on average,
or none, all to one cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shuffledp.planning.counting import plan_count
from shuffledp.planning.histogram import plan_histogram
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.sealed.rules import IMPLAUSIBLE_DEVIATIONS

HONEST_SHARE = 0.3
PER_MILLE = (1, 10, 50)
LABELS = 10
MOST_SHOWN = 100


def expected(protocol: Protocol[Result], users: int, false: int, each: int) -> tuple[float, float]:
    """(how far the first cell's estimate is moved, the anomaly) if `false` of `users` clients send
    `each` messages to the first cell and nothing to others."""
    cells = protocol.cells
    base = np.array([-float(cell.estimate(0, 0, users)) / users for cell in cells])
    shares = np.full(len(cells), (1 - HONEST_SHARE) / max(len(cells) - 1, 1))
    shares[0] = HONEST_SHARE
    plus = (users - false) * (base + shares)
    plus[0] += false * each
    moved = plus[0] - users * base[0] - HONEST_SHARE * users
    zeros = np.zeros(len(cells), np.int64)
    batch = Report(users=users, plus=np.rint(plus).astype(np.int64), minus=zeros)
    return float(moved), protocol.anomaly(batch)


def usual(protocol: Protocol[Result], users: int) -> int:
    """How many messages an honest report holds on average."""
    return 1 + round(sum(-float(cell.estimate(0, 0, users)) / users for cell in protocol.cells))


def rows(name: str, users: int, protocol: Protocol[Result], sent: int) -> Iterator[str]:
    """The rows of one task, with so many false clients in a thousand who send so many messages."""
    for mille in PER_MILLE:
        false = users * mille // 1000
        cells = []
        for each in (sent, 0):
            moved, anomaly = expected(protocol, users, false, each)
            mark = "marked" if abs(anomaly) > IMPLAUSIBLE_DEVIATIONS else "no mark"
            far = "over 100 σ" if abs(anomaly) > MOST_SHOWN else f"{abs(round(anomaly))} σ"
            cells.append(f"{100 * moved / users:+.1f} % | {mark} ({far})")
        yield f"| {name} | {users:,} | {sent} | {mille / 10:g} % | {' | '.join(cells)} |"


def table() -> list[str]:
    """The whole table."""
    lines = [
        "| question | n | each sends | false | share moves by | shows | sending nothing | shows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for users in (10_000, 1_000_000):
        count = plan_count(users, 1, padded=True).protocol
        lines += rows("count", users, count, count.report_size(users))
    labels = plan_histogram(10_000, 1, LABELS, padded=True).protocol
    for sent in (labels.report_size(10_000), usual(labels, 10_000)):
        lines += rows(f"histogram of {LABELS}", 10_000, labels, sent)
    return lines


def honest_tail(users: int = 10_000) -> str:
    """How often the estimate of honest users lies far from the truth, in words."""
    cell = plan_count(users, 1, padded=True).protocol.cells[0]
    errors, masses = cell.error_law(users, users // 2)
    far = float(masses[np.abs(errors) > IMPLAUSIBLE_DEVIATIONS * cell.rmse(users)].sum())
    return (
        f"{100 * far:.2f} % of the honest counts of n = {users:,} lie further than "
        f"{IMPLAUSIBLE_DEVIATIONS:g} standard deviations from the truth"
    )


if __name__ == "__main__":
    print("\n".join(table()))
    print(honest_tail())
