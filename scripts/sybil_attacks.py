"""Prints the tables of docs/sybil-attacks.md: what fake clients do to a result, and how it shows.

Everything is computed, at expected values: 30 of 100 honest users hold 1 (or the label), and the
fake clients send all messages that a report holds, as many as an honest report holds on average,
or none, all to one cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from shuffledp.protocols.base import Protocol
from shuffledp.protocols.fake_clients import moved, sent_by_one
from shuffledp.protocols.report import Report
from shuffledp.protocols.results import Result
from shuffledp.queries.count.planner import plan_count
from shuffledp.queries.frequencies.planner import plan_frequencies
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.histogram.planner import plan_histogram
from shuffledp.tasks.rules import IMPLAUSIBLE_DEVIATIONS

HONEST_SHARE = 0.3
PER_MILLE = (1, 10, 50)
LABELS = 10
MOST_SHOWN = 100
HASH_SEED = "5a" * 32

Expected = Callable[[int, int], tuple[float, float]]
"""(how far an estimate is moved, the anomaly) for `fake` clients who send `each` messages."""


def expected(protocol: Protocol[Result], users: int, false: int, each: int) -> tuple[float, float]:
    """(how far the first cell's estimate is moved, the anomaly) if `false` of `users` clients send
    `each` messages to the first cell and nothing to others."""
    return moved(protocol, users, false, each, honest_share=HONEST_SHARE)


def expected_frequency(
    protocol: FrequenciesProtocol, users: int, false: int, each: int
) -> tuple[float, float]:
    """The same for a label of frequencies: all groups have equally many users, other labels are
    spread evenly, and fake clients send to the label's cell of their group."""
    groups, k, copies = protocol.groups, protocol.cells_per_group, protocol.copies
    own = protocol.hashes.cells(np.repeat(protocol.hashes.numbers([0]), groups), np.arange(groups))
    calls = np.full(groups, users // groups)
    wrong, (base, more) = false / users, sent_by_one(protocol.cell)
    plus = np.full((groups, k), (1 - wrong) * (base + more * (1 - HONEST_SHARE) / k))
    plus[np.arange(groups), own] += (1 - wrong) * more * HONEST_SHARE + wrong * each
    sums = np.cumsum(plus[:, k - copies :] * calls[:, None])  # so that roundings do not add up
    sent = np.concatenate([np.diff(np.rint(sums), prepend=0), calls]).astype(np.int64)
    everybody = int(calls.sum())
    batch = Report(users=everybody, plus=sent, minus=np.zeros(len(sent), np.int64))
    share = float(protocol.counts(batch).estimates([0])[0]) / everybody
    return (share - HONEST_SHARE) * users, protocol.anomaly(batch)


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


def planned_frequencies(
    users: int, epsilon: Fraction | int, most: int, *, padded: bool
) -> FrequenciesProtocol:
    """A plan for frequencies with a limit on messages, with hash functions that stay."""
    plan = plan_frequencies(users, epsilon, max_messages=most, padded=padded)
    return FrequenciesProtocol.from_dict({**plan.protocol.to_dict(), "hash_seed": HASH_SEED})


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
    for most in (300, 30):
        groups = planned_frequencies(10_000, 1, most, padded=True)
        name = f"frequencies, {groups.cells_per_group} hash values"
        for sent in (groups.report_size(10_000) - 1, round(groups.messages_per_user() - 1)):
            lines += rows(name, 10_000, partial(expected_frequency, groups, 10_000), sent)
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


def honest_sum_tail() -> str:
    """How often all cells of frequencies together lie far from the number of users, in words."""
    users, far = 30_000, 5.0
    protocol = planned_frequencies(users, Fraction(1, 4), 20, padded=False)
    cell, cells = protocol.cell, protocol.copies
    # users are independent: each adds to the sum what one cell with it and k − 1 without it do
    errors, masses = cell.error_law(cells * users, users)
    spread = cell.rmse(cells * users, users)
    beyond = float(masses[np.abs(errors) > far * spread].sum())
    return (
        f"{beyond:.1e} of the honest sums of {protocol.groups} groups with {cells} cells lie "
        f"further than {far:g} standard deviations from n = {users:,}; a normal law's: "
        f"{math.erfc(far / math.sqrt(2)):.1e}"
    )


if __name__ == "__main__":
    print("\n".join(table()))
    print(honest_tail())
    print(honest_sum_tail())
