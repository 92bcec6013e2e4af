"""A shuffler that makes all reports of a batch but one up, and reads the published result."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_trio import USERS, Trio

from shuffledp.numbers.entropy import SYSTEM, Entropy, SeededEntropy
from shuffledp.tasks.task import Task


def always(entropy: Entropy) -> Callable[[], Entropy]:
    """Where `to_release` gets its bits."""
    return lambda: entropy


def laws(task: Task, runs: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """What the published number is computed from, for a victim with 0 and with 1, when all other
    reports are dummies: the forger's best choice, since it knows them."""
    from shuffledp.tasks.opening import Tally
    from shuffledp.tasks.results import OpenedBatch

    found = []
    for value in (0, 1):
        entropy = SeededEntropy(f"forging {value} {task.publish_noise}")
        sums = np.zeros(runs, np.int64)
        for number in range(runs):
            victim = task.protocol.randomize(value, entropy)
            batch = OpenedBatch(
                id=bytes(16),
                number=1,
                reports=USERS,
                noise_shares=USERS,
                tally=Tally(victim.plus, victim.minus),
            )
            report = batch.to_release(task, always(entropy))
            sums[number] = report.plus[0] - report.minus[0]
        found.append(sums)
    return found


def exceeds(epsilon: float, one: Any, other: Any) -> bool:
    """Whether some tail of `one` is surely more than e^ε times as likely as that of `other`."""
    for end in np.unique(np.concatenate([one, other])):
        for a, b in (
            ((one >= end).sum(), (other >= end).sum()),
            ((one <= end).sum(), (other <= end).sum()),
        ):
            spread = math.sqrt(a + math.exp(2 * epsilon) * max(b, 1))
            if a - math.exp(epsilon) * b > 5 * spread:
                return True
    return False


@pytest.mark.attack("a shuffler that forges all reports but one")
@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_a_forging_shuffler_reads_nothing_with_publish_noise(
    tmp_path: Path, cell: str, scale: int
) -> None:
    trio, runs = Trio(tmp_path), 800 * scale
    task = trio.task(cell=cell, publish_noise="full")
    epsilon = float(task.protocol.epsilon)
    zero, one = laws(task, runs)
    assert not exceeds(epsilon, zero, one) and not exceeds(epsilon, one, zero)
    assert len(np.unique(zero)) > 5  # there is noise
    bare = trio.task(cell=cell, publish_noise="none")  # the twin: without it the value is read
    zero, one = laws(bare, runs)
    assert exceeds(epsilon, one, zero)


@pytest.mark.attack("a forging shuffler reads by-products of the result")
@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_nothing_published_depends_on_the_view_but_through_the_noise(
    tmp_path: Path, cell: str
) -> None:
    """Two views that differ in every count, but not in what is released, are published alike."""
    from shuffledp.release.publish import publish
    from shuffledp.tasks.opening import Tally
    from shuffledp.tasks.results import OpenedBatch, published

    task = Trio(tmp_path).task(cell=cell, publish_noise="full")
    batches = []
    for ones in (0, USERS):
        report = task.protocol.aggregate(np.repeat([0, 1], [USERS - ones, ones]))
        tally = Tally(report.plus, report.minus)
        tally.dropped["dummies"] = USERS * task.report_size - int(report.plus[0] + report.minus[0])
        batches.append(
            OpenedBatch(id=bytes(16), number=1, reports=USERS, noise_shares=USERS, tally=tally)
        )
    released = batches[0].to_release(task, always(SYSTEM))
    result = publish(task.protocol, released, confidence=0.95, what="x")
    first, second = (published(task, batch, released, result) for batch in batches)
    assert first == second
    assert "invented all other reports" in first["guarantee"]
