"""The pooled histogram against the exact law of all its views: instances that the theorem accepts
keep their ε, and every spoilt variant is refuted."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import ctx
from message_masses import message_masses
from pooled_oracle import Instance, largest_ratio, tight, user_law

from shuffledp.cells.bounded.cell import Direction
from shuffledp.cells.bounded.search import Side
from shuffledp.cells.pooled.cell import PooledBuckets, PooledCell
from shuffledp.cells.pooled.proof import prove
from shuffledp.errors import CertificateError, ParameterError
from shuffledp.numbers.exact import round_to

F = Fraction
SLOW, FAST = (F(4, 5), F(9, 10)), (F(1, 2), F(2, 5))
"""β_u and β_d."""
EQUAL = [
    # users, buckets, (Z, z, w)
    (1, 2, (0, 0, 0)), (1, 2, (1, 1, 1)), (1, 3, (1, 1, 1)), (2, 2, (0, 0, 0)), (2, 2, (1, 1, 1)),
    (2, 2, (2, 1, 1)), (2, 3, (1, 0, 0)), (2, 3, (2, 0, 0)), (2, 3, (1, 1, 1)), (3, 2, (1, 1, 1)),
    (3, 2, (3, 1, 1)), (3, 3, (1, 0, 0)), (3, 4, (1, 0, 0)), (4, 2, (1, 1, 1)), (5, 2, (1, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("decays", [SLOW, FAST])
@pytest.mark.parametrize(("users", "buckets", "cuts"), EQUAL)
def test_no_view_of_any_labels_tells_more_than_epsilon(
    users: int, buckets: int, cuts: tuple[int, int, int], decays: tuple[F, F]
) -> None:
    one = tight(users, buckets, cuts, decays)
    assert 1 < largest_ratio(one) <= one.loss


def test_the_loss_is_reached() -> None:
    for decays in (SLOW, FAST):
        one = tight(2, 3, (1, 0, 0), decays)
        assert largest_ratio(one) == one.loss


def unequal(users: int, buckets: int, cuts: tuple[int, int, int], decays: tuple[F, F]) -> Instance:
    """Different cuts z and w, with the odds that the rule of §21 asks for."""
    side = Side(users, 1, float(decays[1]), cuts[1] + 4, float(decays[0]))
    muting = side.muting(cuts[1], cuts[2])
    assert muting is not None
    odds = round_to(muting.first_odds * (1 + 1e-8), 9, up=True)
    return tight(users, buckets, cuts, decays, odds)


@pytest.mark.parametrize(
    ("users", "cuts", "decays"),
    [
        (5, (1, 3, 1), (F(1, 10), F(1, 20))),
        (6, (0, 3, 1), (F(1, 2), F(1, 5))),
        (6, (0, 3, 1), (F(1, 4), F(1, 10))),
    ],
)
def test_different_cuts_downwards_keep_their_word(
    users: int, cuts: tuple[int, int, int], decays: tuple[F, F]
) -> None:
    one = unequal(users, 2, cuts, decays)
    assert largest_ratio(one) <= one.loss
    assert largest_ratio(replace(one, drop=one.drop / 2)) > one.loss


def test_more_users_and_users_without_a_label_hide_as_well() -> None:
    for one in (tight(2, 2, (1, 1, 1), FAST), tight(2, 3, (1, 0, 0), SLOW)):
        assert largest_ratio(one, one.users + 1) <= one.loss
        assert largest_ratio(one, one.users, fillers=1) <= one.loss
        assert largest_ratio(one, one.users + 1, fillers=1) <= one.loss


def test_fewer_users_than_planned_do_not() -> None:
    one = tight(3, 2, (2, 1, 1), FAST)
    assert largest_ratio(one, 1) > one.loss


SPOILT: dict[str, Callable[[Instance], Instance]] = {
    "labels dropped 1 % too rarely": lambda one: replace(one, drop=one.drop * F(99, 100)),
    "odds at nine tenths of the rule": lambda one: replace(one, odds=one.odds * F(9, 10)),
    "a ratio 10 % too small": lambda one: replace(one, ratio=one.ratio * F(9, 10)),
    "tokens of a dropped label in one bucket": lambda one: replace(one, one_bucket=True),
    "no noise beside a dropped label": lambda one: replace(one, keeps_noise=False),
    "an urn without memory": lambda one: replace(one, weight=0),
    "a bucket with another ratio": lambda one: replace(one, first_ratio=F(1)),
    "a shorter cut upwards": lambda one: replace(one, tokens=one.tokens - 1),
    "noise upwards that falls faster": lambda one: replace(one, up=one.up * F(4, 5)),
    "noise downwards that falls faster": lambda one: replace(one, down=one.down * F(4, 5)),
}


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    return [
        tight(1, 2, (1, 1, 1), FAST),
        tight(2, 2, (1, 1, 1), FAST),
        tight(2, 2, (2, 1, 1), FAST),
        tight(2, 3, (1, 0, 0), FAST),
        tight(2, 3, (2, 0, 0), FAST),
        tight(1, 2, (0, 3, 3), FAST),
        tight(3, 2, (2, 2, 2), FAST),
    ]


@pytest.mark.parametrize("name", SPOILT)
def test_every_spoilt_variant_is_refuted(name: str, instances: list[Instance]) -> None:
    assert any(largest_ratio(SPOILT[name](one)) > one.loss for one in instances)


# The cell itself


def as_cell(one: Instance, drop: F | None = None) -> PooledCell:
    up = Direction(
        epsilon=F(10), decay=one.up, cut=one.tokens, muted_cut=one.tokens,
        odds=(one.drop if drop is None else drop,),
    )  # fmt: skip
    down = Direction(
        epsilon=F(10), decay=one.down, cut=one.cut, muted_cut=one.muted_cut, odds=(one.odds,),
        ratio=one.ratio,
    )  # fmt: skip
    return PooledCell(users=one.users, buckets=one.buckets, up=up, down=down)


def accepted(cell: PooledCell) -> bool:
    try:
        prove(cell, F(10), F(10))
    except CertificateError:
        return False
    return True


@pytest.mark.parametrize(("users", "buckets", "cuts"), EQUAL)
def test_the_proof_accepts_the_limit_and_nothing_below(
    users: int, buckets: int, cuts: tuple[int, int, int]
) -> None:
    one = tight(users, buckets, cuts, FAST)
    more = one.drop * (1 + one.odds) / (1 + one.up * one.odds)
    slack = 1 + F(1, 10**12)
    raised = replace(one, odds=one.odds * slack)
    assert accepted(as_cell(raised, more * slack))
    assert not accepted(as_cell(raised, more / slack))
    assert not accepted(as_cell(replace(one, odds=one.odds / slack), more * slack))
    assert not accepted(as_cell(replace(raised, ratio=one.ratio / slack), more * slack))


@pytest.mark.parametrize("buckets", [2, 3])
def test_laws_and_moments_of_buckets_are_those_of_the_enumeration(buckets: int) -> None:
    one = tight(3, buckets, (2, 2, 1), FAST, F(1, 3))
    cell = as_cell(one)
    for together in range(1, buckets + 1):
        merged = cell.merged(together)
        for label, value in ((0, 1), (buckets - 1 if together < buckets else None, 0)):
            law = user_law(one, label)
            counted = [F(0)] * (merged.most_messages + 1)
            for vector, mass in law.items():
                counted[sum(vector[:together])] += mass
            with ctx.workprec(256):
                masses = message_masses(merged, value)
                known = merged.moments()
                assert len(masses) == len(counted)
                for mass, exact in zip(masses, counted, strict=True):
                    assert abs(float(mass) - float(exact)) < 1e-14
                mean = float(merged.base + known.shift + known.kept * value)
                spread = known.spread + (known.kept * (1 - known.kept) + known.slope) * value
            first = sum(k * mass for k, mass in enumerate(counted))
            second = sum(k * k * mass for k, mass in enumerate(counted))
            assert mean == pytest.approx(float(first), rel=1e-13)
            assert float(spread) == pytest.approx(float(second - first**2), rel=1e-12)
            theta = np.array([-0.7, -0.1, 0.2, 0.9])
            found = merged.log_user_moment(theta, value)
            moments = [
                sum(float(p) * np.exp(t * (k - merged.base - value)) for k, p in enumerate(counted))
                for t in theta
            ]
            assert found == pytest.approx(np.log(moments), abs=1e-12)


def test_a_group_refuses_other_numbers_of_buckets_and_other_losses() -> None:
    cell = as_cell(tight(3, 4, (1, 0, 0), FAST))
    assert PooledBuckets.of(cell, 4, F(10), F(10)).replacement_loss == 20
    for buckets, up, down in ((5, 10, 10), (4, 9, 10), (4, 10, 11)):
        with pytest.raises(ParameterError, match="number of buckets and its own losses"):
            PooledBuckets.of(cell, buckets, F(up), F(down))
