"""Certificates: against brute force, a second program, and those who change them."""

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_oracle import max_divergence
from plan_parts import paper_cell, real_sum
from rows import for_each

from shuffledp import certify, plan_count, plan_histogram, plan_integer_sum, plan_real_sum, verify
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.paper.printed import printed_recipe
from shuffledp.cells.paper.proof import PaperProof, g, tightest
from shuffledp.cells.paper.search import propose, settle
from shuffledp.cells.search import CellTarget
from shuffledp.errors import CertificateError, ParameterError, PrivacyViolation
from shuffledp.numbers.laws import DiscreteLaplace
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp_check import certificate as checker
from shuffledp_check.bounded import Rejected

F = Fraction
ROOT = Path(__file__).parents[2]


def tight_cell(largest: int, stand_in: int, users: int, epsilon: int) -> PaperCell:
    """A cell that is certified with hardly any margin."""
    central = float(DiscreteLaplace(F(epsilon, largest)).variance())
    task = CellTarget(
        users=users,
        expected=users,
        largest=largest,
        up=F(epsilon),
        down=F(epsilon),
        mse=F(1.5 * central),
        relative=None,
        stand_in=stand_in,
    )
    pairs = max(2, round(propose(task).pairs))
    return settle(task, propose(task, pairs))


@pytest.mark.parametrize(
    ("largest", "stand_in", "users", "epsilon"),
    [
        (1, 0, 3, 1),
        (1, 0, 10, 1),
        (1, 0, 4, 2),
        (1, 1, 4, 1),
        (3, 0, 2, 2),
        (3, 1, 4, 1),
        (3, 2, 4, 1),
        (3, 3, 5, 2),
        (2, 1, 4, 1),
        (4, 2, 10, 2),
    ],
)
def test_brute_force_agrees_and_one_pair_less_is_too_few(
    largest: int, stand_in: int, users: int, epsilon: int
) -> None:
    cell = tight_cell(largest, stand_in, users, epsilon)
    for others in (1, 2, 3) if largest == 1 else (1, 2):
        loss = max_divergence(cell, others, 260)
        assert loss.up <= epsilon + 1e-9 and loss.down <= epsilon + 1e-9
    assert max_divergence(cell, 1, 260).worst > 0.99 * epsilon  # tight: nothing given away
    less = replace(cell, input_pairs=cell.input_pairs - 1)
    assert max_divergence(less, 1, 260).down > epsilon
    with pytest.raises(PrivacyViolation):
        tightest(less, F(epsilon))


def test_brute_force_over_every_mix_of_more_users() -> None:
    cell = tight_cell(1, 0, 5, 1)
    for users in (5, 10):
        loss = max_divergence(cell, users, 220)
        assert loss.up <= 1 + 1e-9 and loss.down <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 6),
    st.integers(1, 40),
    st.fractions(F(1, 50), F(1, 2)),
    st.fractions(F(1, 4), F(3)),
    st.fractions(F(1, 10), F(9, 10)),
)
def test_every_certified_protocol_is_private(
    largest: int,
    stand_in: int,
    pairs: int,
    flood: int,
    q: Fraction,
    epsilon: Fraction,
    part: Fraction,
) -> None:
    """Random parameters: never a certificate where brute force finds more loss."""
    cell = PaperCell(
        users=2,
        largest=largest,
        up_epsilon=epsilon,
        down_epsilon=epsilon * part,
        mute_probability=q,
        input_pairs=pairs,
        flood_mean=F(flood),
        stand_in=min(stand_in, largest),
    )
    try:
        tightest(cell, epsilon)
    except CertificateError:
        return
    assert max_divergence(cell, 1, 140).worst <= float(epsilon) + 1e-9


def test_the_inequality_is_convex_and_tightest_at_its_least() -> None:
    cell = tight_cell(3, 1, 20, 1)
    found = tightest(cell, F(1))
    values = [float(g(cell, F(1), found.shift, found.value, m)) for m in range(1000)]
    assert min(range(1000), key=values.__getitem__) == found.at
    second = [values[m - 1] - 2 * values[m] + values[m + 1] for m in range(1, 999)]
    assert min(second) > -1e-9
    every = min(
        float(g(cell, F(1), shift, x, m))
        for shift in (1, 2, 3)
        for x in range(4 - shift)
        for m in range(0, 600)
    )
    assert every == pytest.approx(1 + float(found.margin), abs=1e-9)


PLANS: dict[str, Callable[[], Plan[Result]]] = {
    "count": lambda: plan_count(10**6, 1, cell="paper"),
    "count, small epsilon": lambda: plan_count(10**4, "0.05", cell="paper"),
    "count, relative": lambda: plan_count(10**9, 1, relative_error="0.01"),
    "count, thinning": lambda: plan_count(1000, 1, max_messages=1),
    "integers": lambda: plan_integer_sum(1000, "0.5", 7, cell="paper"),
    "histogram": lambda: plan_histogram(10**4, 1, ["a", "b", "c"], cell="paper"),
    "sum": lambda: plan_real_sum(10**4, 1, bounds=(-5, 20), cell="paper"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_stranger_can_check_every_plan(name: str) -> None:
    data = json.loads(json.dumps(PLANS[name]().to_dict()))
    assert checker.check(data) == F(data["epsilon_exact"])
    assert verify(data).to_dict() == data["certificate"]
    cells = data["certificate"]["protocol"]
    parts = cells.get("digits") or [cells["cell"]]
    if parts[0]["input_pairs"]:
        parts[0]["input_pairs"] -= 1  # the twin: a program that says yes to everything fails here
        with pytest.raises(Rejected):
            checker.check(data)
        with pytest.raises(PrivacyViolation) as caught:
            verify(data)
        assert {"shift", "value", "at"} <= set(caught.value.witness)


BOUNDED_PLANS: dict[str, Callable[[], Plan[Result]]] = {
    "count": lambda: plan_count(10**6, 1, cell="bounded"),
    "count, small epsilon": lambda: plan_count(10**4, "0.05", padded=True, cell="bounded"),
    "integers": lambda: plan_integer_sum(1000, "0.5", 7, cell="bounded"),
    "histogram": lambda: plan_histogram(10**4, 1, ["a", "b", "c"], cell="bounded"),
    "sum": lambda: plan_real_sum(10**4, 1, bounds=(-5, 20), cell="bounded"),
}


@pytest.mark.parametrize("name", BOUNDED_PLANS)
def test_a_stranger_can_check_every_bounded_plan(name: str) -> None:
    data = json.loads(json.dumps(BOUNDED_PLANS[name]().to_dict()))
    assert data["cells"] == ["bounded"]
    assert checker.check(data) == F(data["epsilon_exact"])
    assert verify(data).to_dict() == data["certificate"]
    cells = data["certificate"]["protocol"]
    side = (cells.get("digits") or [cells["cell"]])[0]["down"]
    side["odds"][0] = str(F(side["odds"][0]) * F(999, 1000))  # the twin
    with pytest.raises(Rejected):
        checker.check(data)
    with pytest.raises(PrivacyViolation) as caught:
        verify(data)
    assert caught.value.witness["direction"] == "down"


def test_the_checker_imports_nothing_of_the_package() -> None:
    allowed = {"__future__", "collections.abc", "fractions", "itertools", "json", "math", "sys"}
    allowed.add("typing")
    files = sorted((ROOT / "src/shuffledp_check").glob("*.py"))
    assert len(files) == 10
    for file in files:
        tree = ast.walk(ast.parse(file.read_text("utf-8")))
        imports = {
            str(name)
            for node in tree
            for name in (
                [one.name for one in node.names]
                if isinstance(node, ast.Import)
                else [node.module]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert {name for name in imports if name.split(".")[0] != "shuffledp_check"} <= allowed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", "2"),
        ("loss", "1/2"),
        ("users", 5),
        ("rule", "none"),
        ("neighbours", "add one"),
        ("format", "other"),
    ],
)
def test_a_claim_that_does_not_follow_is_refused(field: str, value: object) -> None:
    data = plan_count(1000, 1).to_dict()["certificate"]
    with pytest.raises(ParameterError):
        verify({**data, field: value})


@pytest.mark.parametrize(
    "bad",
    [
        None,
        5,
        [],
        {},
        {"format": "shuffledp certificate 1"},
        {"format": "shuffledp certificate 2", "protocol": {"query": "x"}},
    ],
)
def test_an_invalid_certificate_is_refused(bad: object) -> None:
    with pytest.raises(ParameterError):
        verify(bad)


def test_budgets_that_add_up_to_too_much() -> None:
    cell = paper_cell(plan_count(1000, 1, cell="paper"))
    with pytest.raises(PrivacyViolation, match="add up to"):
        certify(CountProtocol(F(1, 2), cell))
    with pytest.raises(PrivacyViolation):
        certify(HistogramProtocol(epsilon=F(3, 2), cell=cell, labels=("a", "b")))
    digits = real_sum(plan_real_sum(1000, 1)).digits
    with pytest.raises(PrivacyViolation, match="add up to"):
        certify(RealSumProtocol(epsilon=F(9, 10), digits=digits, low=F(0), high=F(1)))
    with pytest.raises(ParameterError):
        CountProtocol(F(1), replace(cell, largest=2))


def test_a_flood_on_the_edge_is_decided_by_more_digits() -> None:
    """Bisect the flood to 60 digits: close to the edge the verdict needs more than 128 bits."""
    cell = paper_cell(plan_integer_sum(1000, 1, 2, cell="paper"))
    low, high = cell.flood_mean / 2, cell.flood_mean
    for _ in range(220):
        middle = (low + high) / 2
        try:
            tightest(replace(cell, flood_mean=middle), F(1))
            high = middle
        except PrivacyViolation:
            low = middle
    edge = tightest(replace(cell, flood_mean=high), F(1))
    assert edge.precision > 128 and 0 < edge.margin < F(1, 10**50)


@pytest.mark.parametrize("epsilon", ["1", "0.1", "3"])
def test_the_printed_condition_is_sufficient_and_loose(epsilon: str) -> None:
    recipe = printed_recipe(10**4, F(epsilon), F(1, 2))
    proof = certify(CountProtocol(F(epsilon), recipe.cell)).proofs[0].proof
    assert isinstance(proof, PaperProof)
    margin = proof.margin
    assert margin > 0
    far_fewer = replace(recipe.cell, input_pairs=recipe.cell.input_pairs // 2)
    assert certify(CountProtocol(F(epsilon), far_fewer))


def test_integers_are_certified_for_every_change() -> None:
    plan = plan_integer_sum(100, 1, 6, cell="paper")
    assert isinstance(plan.protocol, IntegerSumProtocol) and plan.certificate.loss == 1
    proof = plan.certificate.proofs[0].proof
    assert isinstance(proof, PaperProof)
    assert 1 <= proof.shift <= 6 and proof.margin > 0


VECTORS = json.loads((ROOT / "vectors/certificates.json").read_text("utf-8"))


@for_each(VECTORS, lambda entry: entry["name"])
def test_vectors(entry: dict[str, Any]) -> None:
    """Both programs pass what holds and refuse every attack."""
    if entry["holds"]:
        assert checker.check(entry["certificate"]) == verify(entry["certificate"]).epsilon
        return
    with pytest.raises(Rejected):
        checker.check(entry["certificate"])
    with pytest.raises((CertificateError, ParameterError)):
        verify(entry["certificate"])


@pytest.mark.parametrize("flood", [10**20, 10**100])
def test_absurd_floods_are_judged_and_not_searched_for_ever(flood: int) -> None:
    """One pair is too few for a change by 2 of 4, whatever the flood."""
    cell = PaperCell(
        users=100,
        largest=4,
        up_epsilon=F("3.2"),
        down_epsilon=F("3.2"),
        mute_probability=F("0.03"),
        input_pairs=1,
        flood_mean=F(flood),
    )
    with pytest.raises(PrivacyViolation, match="between 2 and 4"):
        tightest(cell, F("3.2"))
