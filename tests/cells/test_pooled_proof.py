"""The proof of pooled cells: what it accepts, what it refuses, and a second program's word."""

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
from vector_entries import check_pooled

from shuffledp import plan_histogram
from shuffledp.cells.pooled.cell import PooledBuckets, PooledCell
from shuffledp.cells.pooled.proof import prove
from shuffledp.cells.registry import CELL, cell_from_dict
from shuffledp.errors import InputError, ParameterError, PrivacyViolation

F = Fraction
Data = dict[str, Any]
ENTRIES = json.loads((Path(__file__).parents[2] / "vectors/pooled.json").read_text("utf-8"))
DRAWS = json.loads((Path(__file__).parents[2] / "vectors/pooled_draws.json").read_text("utf-8"))


@for_each(ENTRIES, lambda entry: entry["name"])
def test_both_programs_say_what_the_vectors_say(entry: Data) -> None:
    def proved(cell: Any) -> int:
        if not isinstance(cell, PooledCell):
            raise InputError("The cell is of another kind.")
        prove(cell, F(entry["up"]), F(entry["down"]))
        return PooledBuckets(cell=cell).most_messages

    first, second = package_accepts(entry, proved), second_accepts(check_pooled, entry)
    assert first is second is entry["holds"]


def test_the_vectors_hold_every_attack() -> None:
    assert sum(entry["holds"] for entry in ENTRIES) == 9
    assert sum(not entry["holds"] for entry in ENTRIES) == 4 * 25


@pytest.fixture(scope="module")
def certificate() -> Data:
    return plan_histogram(
        1000, 1, ["a", "b", "c"], padded=True, cell="pooled"
    ).certificate.to_dict()


def test_a_certificate_of_a_pooled_histogram_is_accepted(certificate: Data) -> None:
    assert accepted(json.loads(json.dumps(certificate))) == (True, True)
    assert certificate["rule"] == "up + down"
    proof = certificate["cells"][0]["proof"]
    assert proof["up"]["rule"] == "pooled way up" and proof["down"]["rule"] == "per index"
    assert float(proof["up"]["share"]) == float(proof["up"]["inequalities"][0]["left"]) <= 1


ATTACKS: dict[str, Callable[[Data], Any]] = {
    "another number of labels": lambda data: data["protocol"]["labels"].append("d"),
    "the same label twice": lambda data: data["protocol"].update(labels=["a"] * 3),
    "another number of users": lambda data: data.update(users=999),
    "a smaller loss": lambda data: data.update(loss="1/2"),
    "a smaller epsilon": lambda data: data.update(epsilon="1/2"),
    "a smaller epsilon of the protocol": lambda data: data["protocol"].update(epsilon="1/2"),
    "a larger epsilon than its own": lambda data: (
        data["protocol"].update(epsilon="2"),
        data.update(epsilon="2", loss="2"),
        data["cells"][0].update(down=str(2 - F(data["cells"][0]["up"]))),
    ),
    "more buckets": lambda data: data["protocol"]["cell"].update(buckets=4),
    "fewer users in the cell": lambda data: data["protocol"]["cell"].update(users=999),
    "a largest value": lambda data: data["protocol"]["cell"].update(largest=1),
    "a count": lambda data: (
        data["protocol"].update(query="count"),
        data["protocol"].pop("labels"),
        data["protocol"].pop("other"),
    ),
    "another rule": lambda data: data["cells"][0]["proof"]["up"].update(rule="equal cuts"),
    "fewer messages": lambda data: data["cells"][0]["proof"].update(most_messages=3),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_damaged_certificate_is_refused(certificate: Data, name: str) -> None:
    damaged = copy.deepcopy(certificate)
    ATTACKS[name](damaged)
    assert accepted(damaged) == (False, False)


@pytest.fixture(scope="module")
def cell() -> PooledCell:
    found = cell_from_dict(ENTRIES[0]["cell"])
    assert isinstance(found, PooledCell)
    return found


def test_less_than_its_own_loss_is_refused(cell: PooledCell) -> None:
    up, down = cell.up.epsilon, cell.down.epsilon
    prove(cell, up, down)
    for less in ((up * F(99, 100), down), (up, down * F(99, 100))):
        with pytest.raises(PrivacyViolation, match="is planned for a loss of"):
            prove(cell, *less)


def test_the_refusal_names_the_inequality(cell: PooledCell) -> None:
    rare = replace(cell, up=replace(cell.up, odds=(cell.up.odds[0] / 2,)))
    with pytest.raises(PrivacyViolation, match="The up odds are not certified"):
        prove(rare, cell.up.epsilon, cell.down.epsilon)
    low = replace(cell, down=replace(cell.down, ratio=cell.down.ratio / 2))
    with pytest.raises(PrivacyViolation, match="below the decay of the other one"):
        prove(low, cell.up.epsilon, cell.down.epsilon)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda cell: replace(cell, buckets=0), "buckets must be a whole number"),
        (lambda cell: replace(cell, largest=2), "as many odds"),
        (lambda cell: replace(cell, up=replace(cell.up, muted_cut=0)), "equal cuts and no ratio"),
        (lambda cell: replace(cell, up=replace(cell.up, ratio=F(1, 2))), "equal cuts and no ratio"),
        (lambda cell: replace(cell, users=10**13, up=replace(cell.up, cut=999, muted_cut=999)),
         "the cut upwards is too large"),
    ],
)  # fmt: skip
def test_wrong_parameters_get_one_sentence(
    cell: PooledCell, change: Callable[[PooledCell], PooledCell], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        change(cell)


def test_the_json_is_read_back(cell: PooledCell) -> None:
    assert cell_from_dict(json.loads(json.dumps(cell.to_dict()))) == cell
    CELL.check(cell.to_dict(), "cell")
