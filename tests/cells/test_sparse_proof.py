"""The proof of sparse cells: what it accepts, what it refuses, and a second program's word."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from both_checkers import accepted, package_accepts, second_accepts
from rows import for_each
from vector_entries import check_sparse

from shuffledp import plan_histogram
from shuffledp.cells.sparse.cell import SparseCell
from shuffledp.cells.sparse.proof import exponential_below, prove
from shuffledp.cells.sparse.search import plan_sparse
from shuffledp.errors import ParameterError, PrivacyViolation

F = Fraction
Data = dict[str, Any]
ENTRIES = json.loads((Path(__file__).parents[2] / "vectors/sparse.json").read_text("utf-8"))


@for_each(ENTRIES, lambda entry: entry["name"])
def test_both_programs_say_what_the_vectors_say(entry: Data) -> None:
    def proved(cell: Any) -> int:
        assert isinstance(cell, SparseCell)
        prove(cell, F(entry["epsilon"]), F(entry["epsilon"]))
        return cell.most_messages

    first, second = package_accepts(entry, proved), second_accepts(check_sparse, entry)
    assert first is second is entry["holds"]


def test_the_vectors_hold_every_attack() -> None:
    assert sum(entry["holds"] for entry in ENTRIES) == 9
    assert sum(not entry["holds"] for entry in ENTRIES) > 80


def test_the_entry_with_a_share_above_one_passes_both_inequalities_literally() -> None:
    data = ENTRIES[-1]["cell"]
    p, q, o, phi, beta = (F(data[x]) for x in ("data", "muted", "jump", "share", "decay"))
    gain = exponential_below(F(1)) - 1
    spill = F(81, 100) / (1 + beta)  # ρ = 1: s_J = β^J
    assert p * 2 * spill <= phi * o * beta * gain
    assert p <= (1 - phi / 2) * q * beta * gain
    assert phi > 1


def test_the_exponential_is_bounded_from_below() -> None:
    for epsilon in (F(1, 10), F(1), F(50), F(1, 10**9)):
        bound = exponential_below(epsilon)
        term, total = F(1), F(1)  # the series up to its k-th term is below e^ε, too
        for k in range(1, 400):
            term *= epsilon / k
            total += term
        rest = 2 * term
        assert total - F(1, 2**150) * total <= bound <= total + rest


@pytest.fixture(scope="module")
def certificate() -> Data:
    plan = plan_histogram(1000, 1, 30, error_at=100, max_messages=12, padded=True, cell="sparse")
    return plan.certificate.to_dict()


def test_a_certificate_of_a_sparse_histogram_is_accepted(certificate: Data) -> None:
    assert accepted(json.loads(json.dumps(certificate))) == (True, True)
    assert certificate["rule"] == "any replacement"


ATTACKS: dict[str, Callable[[Data], Any]] = {
    "another number of labels": lambda data: data["protocol"].update(labels=31),
    "the same label twice": lambda data: data["protocol"].update(labels=["a"] * 30),
    "another number of users": lambda data: data.update(users=999),
    "a smaller loss": lambda data: data.update(loss="1/2"),
    "a smaller epsilon": lambda data: data.update(epsilon="1/2"),
    "a smaller epsilon of the protocol": lambda data: data["protocol"].update(epsilon="1/2"),
    "more buckets": lambda data: data["protocol"]["cell"].update(buckets=31),
    "fewer users in the cell": lambda data: data["protocol"]["cell"].update(users=999),
    "a longer cut": lambda data: data["protocol"]["cell"].update(cut=5),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_damaged_certificate_is_refused(certificate: Data, name: str) -> None:
    damaged = copy.deepcopy(certificate)
    ATTACKS[name](damaged)
    assert accepted(damaged) == (False, False)


def test_a_false_claim_about_the_cells_is_refused(certificate: Data) -> None:
    damaged = copy.deepcopy(certificate)
    damaged["cells"][0]["proof"]["replacement"] = "1/2"
    assert accepted(damaged)[0] is False


def test_less_than_its_own_loss_is_refused() -> None:
    cell = plan_sparse(100, 5, 1, max_messages=6, error_at=10)
    prove(cell, F(1), F(1))
    for up, down in ((F(99, 100), F(1)), (F(1), F(99, 100))):
        with pytest.raises(PrivacyViolation, match="made for a loss of 1"):
            prove(cell, up, down)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"share": F(19, 10)}, "share must lie above 0 and be at most 1"),
        ({"decay": F(1)}, "strictly between 0 and 1"),
        ({"muted": F(1, 2)}, "add up to exactly 1"),
        ({"data": 0.5}, "given as a fraction"),
        ({"jump": F(1, 2**300)}, "at most 256 bits"),
        ({"buckets": 0}, "at least 1"),
        ({"cut": 10**6}, "at most 1,023"),
    ],
)
def test_bad_parameters_get_one_sentence(change: dict[str, Any], said: str) -> None:
    cell = plan_sparse(100, 5, 1, max_messages=6, error_at=10)
    with pytest.raises(ParameterError, match=said) as refused:
        replace(cell, **change)
    assert str(refused.value).count(". ") == 0
