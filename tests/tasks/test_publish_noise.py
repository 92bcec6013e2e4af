"""The publish noise of a batch follows from a secret and the batch: the same for the same batch,
independent for any other, and with exactly the law of the certified users' noise."""

from __future__ import annotations

import hashlib
import hmac
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chi2 import p_value
from flint import fmpq, fmpq_poly
from message_masses import exact_message_masses
from numpy.typing import NDArray
from plan_parts import bounded_cell

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_real_sum
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.numbers.entropy import Entropy, SecretEntropy
from shuffledp.numbers.laws import Law
from shuffledp.numbers.sampler import Sampler, sampler
from shuffledp.plans.plan import Plan
from shuffledp.queries.frequencies.planner import plan_frequencies
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder, PrivateKey
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.results import OpenedBatch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task

PINNED = {
    "count": "85c100e166cdceb5",
    "count of many": "5df9c60fb414451e",
    "count, paper's cell": "70d3d2726a1f7703",
    "sum": "343b5f471afa94c1",
    "real sum": "8f3cea63f243e0f0",
    "histogram": "c6881c1572ad8e56",
    "histogram, paper's cell": "01c4d2f8a45b55cd",
}
"""The beginning of each plan's `drawn_digest`."""
KEY = PrivateKey(
    key_id=1,
    epoch=1,
    state="active",
    secret=bytes(range(1, 33)),
    noise_secret=bytes(range(32)),
)
BATCHES = 2_500
PLANS: dict[str, Callable[[], Plan[Any]]] = {
    "count": lambda: plan_count(100, 1),
    "count of many": lambda: plan_count(100_000, 1),
    "count, paper's cell": lambda: plan_count(100, 1, cell="paper"),
    "sum": lambda: plan_integer_sum(100, 1, 50),
    "real sum": lambda: plan_real_sum(100, 1, bounds=(0, 1)),
    "histogram": lambda: plan_histogram(1000, 1, 20),
    "histogram, paper's cell": lambda: plan_histogram(100_000, 1, 5, cell="paper"),
    "frequencies": lambda: plan_frequencies(100, 2),
}
FIXED = [name for name in PLANS if name != "frequencies"]
"""Plans without random public choices: their tasks have the same id in every process."""


def task_of(plan: Plan[Any], name: str = "noise", key: PrivateKey = KEY, **options: Any) -> Task:
    rule = BatchRule(plan.users)
    return Task.create(
        plan.to_dict(), key.public, name, rule, not_before=1, expires=10**6, **options
    )


def batch_of(task: Task, number: int = 0, ones: int = 3) -> OpenedBatch:
    """Batches with different ids, and the same contents."""
    plus = np.zeros(task.protocol.counters, np.int64)
    plus[-1] = ones
    return OpenedBatch(
        id=number.to_bytes(16, "big"),
        number=1,
        reports=task.batch.reports,
        noise_shares=task.batch.reports,
        tally=Tally(plus, np.zeros_like(plus)),
    )


def added(task: Task, batch: OpenedBatch, key: PrivateKey = KEY) -> NDArray[np.int64]:
    """The noise of a batch: what is released of it, without its contents."""
    released = batch.to_release(task, lambda: batch.noise_bits(task, key))
    tally = batch.tally
    return np.stack([released.plus - tally.plus, released.minus - tally.minus])


@pytest.mark.parametrize("name", PLANS)
def test_the_same_batch_has_the_same_noise_whatever_was_drawn_before(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that earlier draws have built must not change how the bits are used."""
    used: list[Sampler] = []
    made = Sampler.__init__

    def remembered(self: Sampler, law: Law) -> None:
        made(self, law)
        used.append(self)

    monkeypatch.setattr(Sampler, "__init__", remembered)
    task = task_of(PLANS[name]())
    batch = batch_of(task)
    sampler.cache_clear()
    first = added(task, batch)
    assert first.any()
    for source in used:
        assert source.table is not None
    assert (added(task, batch) == first).all()
    assert any((added(task, batch_of(task, number)) != first).any() for number in range(1, 9))


def drawn_digest(name: str) -> str:
    """The hash of the noise of a batch under this plan."""
    task = task_of(PLANS[name]())
    return hashlib.sha256(added(task, batch_of(task)).astype(">i8").tobytes()).hexdigest()


def test_another_process_draws_the_same() -> None:
    here = Path(__file__).parent
    program = f"""
import sys; sys.path[:0] = {[str(here), str(here.parent / "support")]!r}
from test_publish_noise import FIXED, drawn_digest
for name in FIXED: print(drawn_digest(name))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().split() == [drawn_digest(name) for name in FIXED]


def bits(task: Task, batch: OpenedBatch, key: PrivateKey = KEY) -> int:
    return batch.noise_bits(task, key).bits(256)


def test_any_difference_gives_other_bits(tmp_path: Path) -> None:
    plan = plan_count(100, 1)
    task = task_of(plan)
    batch = batch_of(task)
    other = KeyFolder(tmp_path).new()
    plus, minus = batch.tally.plus, batch.tally.minus
    found = [
        bits(task, batch),
        bits(task_of(plan, "another"), batch),
        bits(task_of(plan, publish_noise="none"), batch),
        bits(task_of(plan, key=other), batch, other),
        bits(task, batch, replace(KEY, noise_secret=bytes(32))),
        bits(task, batch_of(task, 1)),
        bits(task, replace(batch, reports=101)),
        bits(task, replace(batch, noise_shares=101)),
        bits(task, replace(batch, tally=Tally(plus + 1, minus))),
        bits(task, replace(batch, tally=Tally(minus, plus))),
        bits(task, replace(batch, tally=Tally(plus, minus + 1))),
        bits(task, replace(batch, tally=Tally(plus * 256, minus))),
    ]
    assert len(set(found)) == len(found)
    assert bits(task, batch) == found[0]
    with pytest.raises(TaskError, match="not the key"):
        bits(task, batch, other)


def test_what_is_only_shown_does_not_change_the_noise() -> None:
    task = task_of(plan_count(100, 1))
    batch = batch_of(task)
    same = replace(batch, number=7)
    same.tally.dropped["dummies"] += 5
    assert bits(task, same) == bits(task, batch)


def test_the_bits_are_hkdf_of_the_key_and_everything_that_the_noise_is_added_to() -> None:
    """RFC 5869 once more, from HMAC alone."""
    task = task_of(plan_count(100, 1))
    about = task.id + bytes(16) + struct.pack(">QQQQqq", 100, 100, 100, 1, 3, 0)
    info = b"shuffledp/v1 publish noise 1" + hashlib.sha256(about).digest()
    extracted = hmac.digest(bytes(32), KEY.noise_secret, "sha256")
    first = hmac.digest(extracted, info + b"\x01", "sha256")
    second = hmac.digest(extracted, first + info + b"\x02", "sha256")
    expected = SecretEntropy((first + second)[:48]).bits(256)
    assert bits(task, batch_of(task)) == expected


@pytest.mark.parametrize("name", PINNED)
def test_the_noise_of_a_batch_is_pinned(name: str) -> None:
    """If a release draws other noise from the same bits, `NOISE_LABEL` needs another number (and
    these digests change): results from the same bits would depend on each other."""
    assert drawn_digest(name)[:16] == PINNED[name]


def exact_law(cell: BoundedCell, users: int) -> list[float]:
    """What this many users with the value 0 send together."""
    masses = exact_message_masses(cell, 0)
    law = fmpq_poly([fmpq(mass.numerator, mass.denominator) for mass in masses]) ** users
    return [int(mass.p) / int(mass.q) for mass in law.coeffs()]


def noises(task: Task, noise: Callable[[OpenedBatch], Entropy]) -> NDArray[np.int64]:
    """The noise of many batches with the same contents."""
    found = np.zeros(BATCHES, np.int64)
    for number in range(BATCHES):
        batch = batch_of(task, number)
        report = batch.to_release(task, partial(noise, batch))
        found[number] = report.plus[0] - batch.tally.plus[0]
    return found


def test_the_noise_of_many_batches_has_the_law_of_the_certified_users() -> None:
    plan = plan_count(20, 1, cell="bounded")
    task, cell = task_of(plan), bounded_cell(plan)
    found = noises(task, lambda batch: batch.noise_bits(task, KEY))
    assert p_value(found, exact_law(cell, 20)) > 1e-4
    fewer = [0.0] * (6 * cell.base) + exact_law(cell, 14)
    assert p_value(found, fewer) < 1e-9  # the twin: the same mean, and the noise of fewer users
    neighbours = np.corrcoef(found[:-1], found[1:])[0, 1]
    assert abs(neighbours) < 5 / BATCHES**0.5


def test_noise_that_forgets_the_batch_has_another_law() -> None:
    """The twin: bits that depend on the last three bits of the batch's id alone."""
    plan = plan_count(20, 1, cell="bounded")
    task, cell = task_of(plan), bounded_cell(plan)
    found = noises(task, lambda one: batch_of(task, one.id[-1] % 8).noise_bits(task, KEY))
    assert p_value(found, exact_law(cell, 20)) < 1e-12
