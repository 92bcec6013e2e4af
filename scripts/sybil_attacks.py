"""Prints the tables of docs/sybil-attacks.md: what fake clients do to a result, and how it shows.

Everything is computed, at expected values: 30 of 100 honest users hold 1 (or the label), and the
fake clients send all messages that a report holds, as many as an honest report holds on average,
or none, all to one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from shuffledp.protocols.base import Protocol
from shuffledp.protocols.fake_clients import moved, sent_by_one
from shuffledp.protocols.results import Result
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.heavy_hitters.planner import plan_heavy_hitters
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.tasks.rules import IMPLAUSIBLE_DEVIATIONS

HONEST_SHARE = 0.3
PER_MILLE = (1, 10, 50)
LABELS = 10
MOST_SHOWN = 100

Expected = Callable[[int, int], tuple[float, float]]
"""(how far an estimate is moved, the anomaly) for `fake` clients who send `each` messages."""


def expected(protocol: Protocol[Result], users: int, false: int, each: int) -> tuple[float, float]:
    """(how far the first cell's estimate is moved, the anomaly) if `false` of `users` clients send
    `each` messages to the first cell and nothing to others."""
    return moved(protocol, users, false, each, honest_share=HONEST_SHARE)


def planted_words(users: int, found_from: int) -> str:
    """How many fake clients plant a word that nobody has, in words."""
    plan = plan_heavy_hitters(users, 1)
    cell, rows = plan.protocol.cells[0], 5
    messages = plan.report_size
    tokens = float(cell.estimate(1, 0, 1) - cell.estimate(0, 0, 1))  # users that a token stands for
    fake = math.ceil(found_from / (messages * tokens))
    return (
        f"{fake} fake clients send {messages} tokens each, as {found_from} users of a word of "
        f"{rows} letters do on average"
    )


def usual(protocol: Protocol[Result]) -> int:
    """How many messages an honest report holds on average."""
    return 1 + round(sum(sent_by_one(cell)[0] for cell in protocol.cells))


def rows(name: str, users: int, expect: Expected, sent: int) -> Iterator[str]:
    """The rows of one task: `sent` messages from each of some fake clients in a thousand."""
    for mille in PER_MILLE:
        false = users * mille // 1000
        cells = []
        for each in (sent, 0):
            shift, anomaly = expect(false, each)
            mark = "marked" if abs(anomaly) > IMPLAUSIBLE_DEVIATIONS else "no mark"
            far = "over 100 σ" if abs(anomaly) > MOST_SHOWN else f"{abs(round(anomaly))} σ"
            cells.append(f"{100 * shift / users:+.1f} % | {mark} ({far})")
        yield f"| {name} | {users:,} | {sent} | {mille / 10:g} % | {' | '.join(cells)} |"


def table() -> list[str]:
    """The whole table."""
    lines = [
        "| question | n | each sends | fake | share moves by | shows | sending nothing | shows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for users in (10_000, 1_000_000):
        count = plan_count(users, 1, padded=True).protocol
        lines += rows("count", users, partial(expected, count, users), count.report_size(users))
    labels = plan_histogram(10_000, 1, LABELS, padded=True).protocol
    for sent in (labels.report_size(10_000), usual(labels)):
        lines += rows(f"histogram of {LABELS}", 10_000, partial(expected, labels, 10_000), sent)
    labels = plan_histogram(10_000, 1, LABELS, error_at=100).protocol
    for sent in (labels.report_size(10_000), 1):
        lines += rows(
            f"sparse histogram of {LABELS}", 10_000, partial(expected, labels, 10_000), sent
        )
    return lines


def honest_tail(users: int = 10_000) -> str:
    """How often the estimate of honest users lies far from the truth, in words."""
    cell = plan_count(users, 1, padded=True).protocol.cells[0]
    errors, masses = cell.error_law(users, users // 2)
    far = float(masses[np.abs(errors) > IMPLAUSIBLE_DEVIATIONS * cell.rmse(users)].sum())
    return (
        f"{100 * far:.2f} % of honest counts with n = {users:,} are further than "
        f"{IMPLAUSIBLE_DEVIATIONS:g} standard deviations from the truth"
    )


if __name__ == "__main__":
    print("\n".join(table()))
    print(honest_tail())
    print(planted_words(100_000, 150))
