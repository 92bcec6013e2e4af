"""The proof of the bounded cell: what it accepts, what it refuses, and a second program's word."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flint import arb
from rows import for_each
from vector_entries import check_bounded

from shuffledp import certify, plan_integer_sum, verify
from shuffledp.cells.bounded.cell import BoundedCell, Direction
from shuffledp.cells.bounded.proof import Scale, closed_form, per_index, prove
from shuffledp.cells.bounded.search import cheapest_bounded_cell
from shuffledp.cells.search import CellTarget
from shuffledp.errors import (
    CertificateError,
    InputError,
    ParameterError,
    PrivacyViolation,
    Undecided,
)
from shuffledp.plans.target import laplace_variance
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.registry import PROTOCOLS
from shuffledp.protocols.results import Result
from shuffledp.queries.by_group.protocol import ByGroupProtocol, DirectedCell
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.quantiles.protocol import Level, QuantilesProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp_check import bounded as bounded_checker
from shuffledp_check import certificate as checker
from shuffledp_check.bounded import Rejected

F = Fraction
SPARSE_ALONE = ("frequencies", "heavy-hitters")
"""Queries whose cells are sparse: tests/cells/test_sparse_oracle.py."""
ROOT = Path(__file__).parents[2]
ENTRIES = json.loads((ROOT / "vectors/bounded.json").read_text())


def planned(users: int = 10**4, largest: int = 1, loss: str = "1") -> BoundedCell:
    epsilon = F(loss)
    mse = F(3, 2) * laplace_variance(epsilon / largest)
    task = CellTarget(
        users=users,
        expected=users,
        largest=largest,
        up=epsilon,
        down=epsilon,
        mse=mse,
        padded=1,
    )
    return cheapest_bounded_cell(task)


def cell_of(data: dict[str, Any]) -> BoundedCell:
    def side(data: dict[str, Any]) -> Direction:
        return Direction(
            epsilon=F(data["epsilon"]),
            decay=F(data["decay"]),
            cut=data["cut"],
            muted_cut=data["muted_cut"],
            odds=tuple(F(odds) for odds in data["odds"]),
            ratio=F(data.get("ratio", 1)),
        )

    sides = {name: side(data[name]) for name in ("up", "down")}
    return BoundedCell(users=data["users"], largest=data["largest"], **sides)


def scaled(side: Direction, factor: F) -> Direction:
    return replace(side, odds=tuple(odds * factor for odds in side.odds))


@for_each(ENTRIES, lambda entry: entry["name"])
def test_the_package_and_the_second_program_agree(entry: dict[str, Any]) -> None:
    """Claims about K and the users stand beside the cell; the rest is the cell's own."""

    def package() -> bool:
        try:
            cell = cell_of(entry["cell"])
            prove(cell, F(entry["up"]), F(entry["down"]))
        except (CertificateError, InputError):
            return False
        return (cell.users, cell.most_messages) == (entry["users"], entry["most_messages"])

    def second() -> bool:
        try:
            check_bounded(entry)
        except Rejected:
            return False
        return True

    assert package() == second() == entry["holds"]


def test_the_vectors_hold_both_kinds() -> None:
    kinds = [entry["holds"] for entry in ENTRIES]
    assert kinds.count(True) >= 8 and kinds.count(False) >= 30


@pytest.mark.parametrize("side", ["up", "down"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: replace(s, decay=s.decay - F(1, 10**12)), "falls too fast"),
        (lambda s: scaled(s, 1 - F(1, 10**6)), "odds are not certified"),
        (lambda s: replace(s, cut=s.cut - 1), "odds are not certified"),
        (lambda s: replace(s, muted_cut=s.muted_cut - 1), "odds are not certified"),
        (lambda s: replace(s, cut=s.muted_cut + 1), "odds are not certified"),
        (lambda s: replace(s, epsilon=s.epsilon + F(1, 10**9)), "above the"),
    ],
)
def test_each_direction_is_checked(side: str, change: Any, words: str) -> None:
    cell = planned(100)
    prove(cell, F(1), F(1))
    damaged = replace(cell, **{side: change(getattr(cell, side))})
    with pytest.raises(PrivacyViolation, match=words) as caught:
        prove(damaged, F(1), F(1))
    assert caught.value.witness["direction"] == side


@pytest.mark.parametrize(
    ("users", "largest", "cut", "muted_cut"),
    [(2, 1, 9, 2), (50, 3, 9, 1), (50, 3, 9, 7), (50, 1, 9, 0)],
    ids=["two users", "muted cut below D − 1", "cut below w + D", "no muted noise"],
)
def test_cuts_that_no_rule_covers_are_refused_whatever_the_odds(
    users: int, largest: int, cut: int, muted_cut: int
) -> None:
    side = Direction(
        epsilon=F(1), decay=F(9, 10), cut=cut, muted_cut=muted_cut, odds=(F(100),) * largest
    )
    with pytest.raises(PrivacyViolation):
        prove(BoundedCell(users=users, largest=largest, up=side, down=side), F(1), F(1))


def test_equal_cuts_need_no_third_user_and_are_decided_at_the_last_digit() -> None:
    """Randomized response: one user, no noise at all; its odds are 1/(e^ε − 1) exactly."""
    odds = 1 / (F(1000) / 368 - 1)
    side = Direction(epsilon=F(1), decay=F(368, 1000), cut=0, muted_cut=0, odds=(odds,))
    response = BoundedCell(users=1, largest=1, up=side, down=side)
    enough = replace(response, up=scaled(side, 1 + F(1, 10**30)), down=scaled(side, F(2)))
    assert prove(enough, F(1), F(1)).up.rule == "equal cuts"
    with pytest.raises(PrivacyViolation):
        prove(replace(enough, up=scaled(side, 1 - F(1, 10**30))), F(1), F(1))
    with pytest.raises(Undecided):  # equality is not decided by balls: refused
        prove(response, F(1), F(1))


def test_the_closed_form_is_used_where_it_holds_and_implies_the_other() -> None:
    cell = planned()
    roomy = replace(cell.up, muted_cut=4, cut=20, odds=(cell.up.odds[0],))
    proof = prove(replace(cell, up=roomy, down=roomy), F(1), F(1)).up
    assert proof.rule == "closed form" and len(proof.inequalities) == 3
    for largest, decay in ((1, F(37, 100)), (2, F(6, 10)), (4, F(3, 4))):
        for w in range(2 * largest, 40, 3):
            for z in range(w + largest, 90, 7):
                side = Direction(
                    epsilon=F(3), decay=decay, cut=z, muted_cut=w, odds=(F(1),) * largest
                )
                scale = Scale(BoundedCell(users=9, largest=largest, up=side, down=side), side)
                for share in (arb(0.05), arb(0.3), arb(0.6)):
                    if all(entry.left <= 1 for entry in closed_form(scale, share)):
                        assert all(entry.left <= 1 for entry in per_index(scale, share))


def test_every_index_and_value_is_covered_by_the_ends() -> None:
    """The package looks at x = 0 and x = D only; the second program at every x."""
    for largest in (2, 3, 7):
        cell = planned(500, largest)
        data = [
            {name: str(getattr(side, name)) for name in ("epsilon", "decay")}
            | {"cut": side.cut, "muted_cut": side.muted_cut, "odds": list(map(str, side.odds))}
            for side in (cell.up, cell.down)
        ]
        for side in data:
            bounded_checker.Direction(cell.users, largest, side).check()


def test_what_the_proof_says() -> None:
    data = prove(planned(), F(1), F(1)).to_dict()
    assert data["most_messages"] == 27
    for side in (data["up"], data["down"]):
        assert F(side["loss"]["left"]) <= F(side["loss"]["right"]) == 1
        assert side["rule"] == "per index"
        assert F(side["ratio"]["left"]) <= F(side["ratio"]["right"]) < 1
        lefts = [F(entry["left"]) for entry in side["inequalities"]]
        assert max(lefts) <= 1 < max(lefts) + F(1, 10**6)  # tight, and written on the safe side
    json.dumps(data)


def test_a_trillion_users_and_large_values_are_proved_at_once() -> None:
    for cell in (planned(10**12), planned(10**12, loss="1/10"), planned(10**4, 60)):
        proof = prove(cell, cell.up.epsilon, cell.down.epsilon)
        assert proof.up.precision == 128
        assert math.isfinite(float(proof.up.share))


def halved(cell: BoundedCell) -> BoundedCell:
    """The cell with half the odds upwards: not private."""
    return replace(cell, up=scaled(cell.up, F(1, 2)))


def protocols(bit: BoundedCell, digit: BoundedCell) -> list[Protocol[Result]]:
    """One protocol of every query, for ε = 2 or 4 in all."""
    return [
        CountProtocol(F(1), bit),
        IntegerSumProtocol(F(1), digit),
        RealSumProtocol(epsilon=F(2), digits=(digit, bit), low=F(0), high=F(1)),
        HistogramProtocol(epsilon=F(2), cell=bit, labels=("a", "b")),
        QuantilesProtocol(
            epsilon=F(4), levels=(Level(2, bit, F(1)), Level(4, bit, F(1))), low=F(0), high=F(1)
        ),
        ByGroupProtocol(
            epsilon=F(2),
            answer="count",
            labels=("a", "b"),
            low=F(0),
            high=F(1),
            digits=(DirectedCell(bit, F(1)),),
        ),
    ]


@pytest.mark.parametrize("query", [name for name in PROTOCOLS if name not in SPARSE_ALONE])
def test_the_checker_of_certificates_knows_bounded_cells(query: str) -> None:
    """Losses are composed by the query: up + down where two copies change."""
    bit, digit = planned(100, 1), planned(100, 2)
    protocol = {one.query: one for one in protocols(bit, digit)}[query]
    certificate = certify(protocol).to_dict()
    assert checker.check(certificate) == protocol.epsilon
    assert verify(json.loads(json.dumps(certificate))).epsilon == protocol.epsilon
    weaker = {one.query: one for one in protocols(halved(bit), halved(digit))}[query]
    damaged = {**certificate, "protocol": weaker.to_dict()}
    with pytest.raises(Rejected):
        checker.check(damaged)
    with pytest.raises(PrivacyViolation):
        verify(damaged)
    cheaper = {**certificate, "epsilon": str(protocol.epsilon / 2)}
    with pytest.raises(Rejected):
        checker.check(cheaper)
    with pytest.raises(ParameterError):
        verify(cheaper)


def test_digits_of_both_kinds_may_stand_together() -> None:
    paper = plan_integer_sum(100, 1, 2, cell="paper").protocol.members[0].cell
    protocol = RealSumProtocol(epsilon=F(2), digits=(paper, planned(100)), low=F(0), high=F(1))
    certificate = certify(protocol).to_dict()
    assert checker.check(certificate) == 2
    assert [cell["kind"] for cell in certificate["cells"]] == ["paper", "bounded"]


def test_the_per_index_rule_does_not_need_a_small_h() -> None:
    """h may exceed A = 1 − β^D there; where the closed form holds, it does not."""

    def scale_of(cut: int, muted_cut: int) -> Scale:
        side = Direction(
            epsilon=F(3), decay=F(1, 2), cut=cut, muted_cut=muted_cut, odds=(F(1, 100),) * 3
        )
        return Scale(BoundedCell(users=10**4, largest=3, up=side, down=side), side)

    scale, share = scale_of(11, 6), arb("0.0001")
    assert all(one.left <= 1 for one in per_index(scale, share))
    assert 1.008 < scale.past() / scale.spare < 1.01
    assert not all(one.left <= 1 for one in closed_form(scale, share))
    wider = 0
    for cut in range(9, 60):
        for muted_cut in range(2, cut - 2):
            scale = scale_of(cut, muted_cut)
            if all(one.left <= 1 for one in closed_form(scale, share)):
                wider += 1
                assert scale.past() <= scale.spare
    assert wider > 100
