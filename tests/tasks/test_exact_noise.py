"""Noise that the analyzer or the shuffler adds keeps ε exactly, view by view: 3,000-bit balls.

The draws themselves are replaced by every possible number in turn, each with its exact mass, and
the package says what is published then. Where it draws again, the masses that are left are those of
a conditional law, which the twins show to lose more than ε."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bounded_laws import sent
from flint import arb, arb_poly, ctx
from plan_parts import bounded_cell
from service_trio import Trio
from shared_groups import downwards, group

from shuffledp import plan_count, plan_histogram, plan_integer_sum
from shuffledp.cells.base import Counts
from shuffledp.cells.bounded import draws as bounded_draws
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.digits import draws as digit_draws
from shuffledp.cells.digits.cell import SharedDigits
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.plans.plan import Plan
from shuffledp.tasks import reports
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.results import OpenedBatch
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import DUMMY_NUMBER

BITS = 3_000
Law = dict[int, arb]


class DrawnAgainError(Exception):
    """A second draw was asked for."""


class Forced:
    """Returns what it was given, once."""

    def __init__(self, result: Any) -> None:
        self._left = [result]

    def __call__(self, *_: Any) -> Any:
        if not self._left:
            raise DrawnAgainError
        return self._left.pop()


@pytest.fixture
def key(tmp_path: Path) -> PublicKey:
    return Trio(tmp_path).keys.all()[0].public


def full_task(plan: Plan[Any], key: PublicKey, **rule: Any) -> Task:
    return Task.create(plan.to_dict(), key, "exact", BatchRule(plan.users, **rule))


def released(task: Task, counts: Sequence[int]) -> tuple[int, ...]:
    """What is released of a batch that holds these +1, after the analyzer's noise."""
    plus = np.array(counts, np.int64)
    batch = OpenedBatch(
        id=bytes(16),
        number=1,
        reports=task.batch.reports,
        noise_shares=task.batch.reports,
        tally=Tally(plus, np.zeros_like(plus)),
    )
    return tuple(int(count) for count in batch.to_release(task, lambda: SYSTEM).plus)


def exact(law: dict[int, Fraction]) -> arb_poly:
    """The law of one user's messages as a polynomial in balls."""
    coefficients = [law.get(k, Fraction(0)) for k in range(max(law) + 1)]
    return arb_poly([arb(c.numerator) / c.denominator for c in coefficients])


def noise_law(cell: BoundedCell, users: int) -> list[arb]:
    """The law of what so many users who hold 0 send together."""
    return list((exact(sent(cell, 0)) ** users).coeffs())


def published_law(outcomes: Iterable[tuple[int, int | None]], noise: Sequence[arb]) -> Law:
    """The law of what is added to a batch, of (draw, what was added or None if drawn again)."""
    law: Law = {}
    for draw, added in outcomes:
        if added is not None:
            law[added] = law.get(added, arb(0)) + noise[draw]
    kept = sum(law.values(), start=arb(0))
    return {added: mass / kept for added, mass in law.items()}


def loss_is_at_most(cell: BoundedCell, added: Law, epsilon: Fraction) -> bool:
    """Whether P(view | x) ≤ e^ε·P(view | x′) for every view of one user's messages with this law
    added, and any two values x and x′. All other reports are known: they shift the view."""
    lowest = min(added)
    noise = arb_poly([added.get(lowest + k, arb(0)) for k in range(max(added) - lowest + 1)])
    laws = [(noise * exact(sent(cell, x))).coeffs() for x in range(cell.largest + 1)]
    size = max(map(len, laws))
    laws = [list(law) + [arb(0)] * (size - len(law)) for law in laws]
    factor = (arb(epsilon.numerator) / epsilon.denominator).exp()
    return all(
        here <= factor * there
        for one, other in product(laws, repeat=2)
        for here, there in zip(one, other, strict=True)
    )


def outcomes(
    task: Task, most: int, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[int, int | None]]:
    """What the analyzer adds to a batch for every draw of the noise."""
    found: list[tuple[int, int | None]] = []
    for draw in range(most + 1):
        monkeypatch.setattr(bounded_draws, "copies_of_zero", Forced(np.array([draw])))
        try:
            (added,) = released(task, [0])
        except DrawnAgainError:
            found.append((draw, None))
        else:
            found.append((draw, added))
    return found


CASES = {
    "count, 3 users": lambda: plan_count(3, 1, cell="bounded"),
    "count, 10 users": lambda: plan_count(10, 1, cell="bounded"),
    "count, 100 users": lambda: plan_count(100, 1, cell="bounded"),
    "sum of 0..2, 12 users": lambda: plan_integer_sum(12, 2, 2, cell="bounded"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_published_result_is_purely_private_against_a_shuffler_that_forged_the_rest(
    name: str, key: PublicKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = CASES[name]()
    cell, task = bounded_cell(plan), full_task(plan, key)
    most = cell.most_messages * cell.users
    with ctx.workprec(BITS):
        noise = noise_law(cell, cell.users)
        assert len(noise) == most + 1
        found = outcomes(task, most, monkeypatch)
        assert loss_is_at_most(cell, published_law(found, noise), plan.epsilon)
        assert not loss_is_at_most(cell, published_law(found, noise), plan.epsilon * 3 / 4)
    assert all(added is not None for _, added in found)


def test_a_result_whose_noise_is_drawn_again_loses_more(
    key: PublicKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: 73 messages below its middle the noise of 100 users is drawn again, which happens
    with a chance below 2⁻⁸⁴; where it does, the loss is above 5/4."""

    def redrawn(
        self: BoundedCell, absent: int, copies: int, entropy: Entropy = SYSTEM
    ) -> tuple[Counts, Counts]:
        while True:
            drawn = bounded_draws.copies_of_zero(self, copies, absent, entropy)
            if (drawn >= self.base * absent - 73).all():
                return drawn, np.zeros_like(drawn)

    plan = plan_count(100, 1, cell="bounded")
    cell, task = bounded_cell(plan), full_task(plan, key)
    monkeypatch.setattr(BoundedCell, "top_up", redrawn)
    with ctx.workprec(BITS):
        noise = noise_law(cell, 100)
        found = outcomes(task, cell.most_messages * 100, monkeypatch)
        again = sum((noise[draw] for draw, added in found if added is None), start=arb(0))
        assert arb(2) ** -200 < again < arb(2) ** -84
        assert not loss_is_at_most(cell, published_law(found, noise), plan.epsilon * 5 / 4)


def test_buckets_digits_and_the_papers_cell_add_what_they_draw(
    key: PublicKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of these the law of the draws is that of as many users (brute force: tests/cells); here every
    draw is published as it is, with nothing drawn again."""
    buckets = full_task(plan_histogram(20, 1, 3, cell="bounded"), key)
    for drawn in ((0, 0, 0), (0, 7, 10**6), (10**6, 0, 1)):
        monkeypatch.setattr(bounded_draws, "copies_of_zero", Forced(np.array(drawn)))
        assert released(buckets, [5, 5, 5]) == tuple(5 + count for count in drawn)
    decays = (Fraction(1, 2), Fraction(2, 5))
    downs = [downwards(4, largest, Fraction(1, 2), 3) for largest in (1, 2)]
    digits = SharedDigits(tuple(group(4, (1, 2), 3, decays, downs)))
    for both in ((0, 0), (10**6, 0), (3, 10**6)):
        monkeypatch.setattr(digit_draws, "aggregate", Forced(list(both)))
        assert digits.top_up(4)[0].tolist() == list(both)
    paper = full_task(plan_count(20, 1, cell="paper"), key)
    for low in (0, 10**6):
        monkeypatch.setattr(PaperCell, "noise", Forced((np.array([low]), np.array([3]))))
        assert released(paper, [5]) == (5 + low,)


def sent_messages(task: Task, absent: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers inside the messages of a top-up."""

    def plain(numbers: Iterable[int], *_: object) -> bytes:
        return b"".join(struct.pack(">I", number) for number in numbers)

    monkeypatch.setattr(reports, "encrypt_all", plain)
    monkeypatch.setattr(reports, "MESSAGES_AT_ONCE", 50)
    data = b"".join(reports.encrypted_top_up(task, absent))
    return [number for (number,) in struct.iter_unpack(">I", data)]


def test_the_shuffler_sends_what_it_drew_in_messages_that_hold_every_draw(
    key: PublicKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a batch has the law of reports by all certified users, to which the theorem applies."""
    plan = plan_count(20, 1, cell="bounded")
    cell, task = bounded_cell(plan), full_task(plan, key, top_up="full")
    assert task.padding == "exact" and "2⁻" not in task.guarantee
    for absent in (1, 3):
        most = absent * cell.most_messages
        assert task.top_up_size(absent) == most
        for draw in range(most + 1):
            monkeypatch.setattr(bounded_draws, "copies_of_zero", Forced(np.array([draw])))
            made = sent_messages(task, absent, monkeypatch)
            assert made == [1] * draw + [DUMMY_NUMBER] * (most - draw)


def test_a_top_up_in_a_reserve_is_drawn_again_and_says_so(
    key: PublicKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the paper's cell has no largest number of messages."""
    task = full_task(plan_count(20, 1, cell="paper"), key, top_up="full")
    size = task.top_up_size(20)
    assert "2⁻⁶³" in task.guarantee and "top-up" in task.guarantee
    queue = [SimpleNamespace(plus=[size], minus=[1]), SimpleNamespace(plus=[size], minus=[0])]
    drawn: Callable[..., Any] = lambda *_: queue.pop(0)  # noqa: E731
    monkeypatch.setattr(type(task.protocol), "top_up", drawn)
    assert sent_messages(task, 20, monkeypatch) == [1] * size and not queue
