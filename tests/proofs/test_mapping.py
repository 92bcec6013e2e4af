"""proofs/README.md, the Coq files and the package name the same theorems and inequalities."""

from __future__ import annotations

import random
import re
import tomllib
from fractions import Fraction
from itertools import product
from math import comb, factorial, prod
from pathlib import Path

import pytest
from flint import arb
from message_masses import message_masses

from shuffledp import plan_count, plan_histogram
from shuffledp.cells.bounded.cell import BoundedCell, Direction
from shuffledp.cells.bounded.proof import CLOSED_FORM, EQUAL_CUTS, PER_INDEX, STATEMENTS, Scale
from shuffledp.cells.digits.proof import OWN_JUMP, SHARED, STRAY_JUMP
from shuffledp.cells.sparse.proof import SPARSE
from shuffledp.cells.sparse.proof import STATEMENTS as SPARSE_STATEMENTS
from shuffledp.plans.machine_checked import CHECKED_LOSSES, CHECKED_RULES, machine_checked

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
README = (PROOFS / "README.md").read_text()
NOT_YET = "not machine-checked yet"


def table(header: str) -> list[list[str]]:
    """The rows of the README's table with this header line."""
    lines = README[README.index(header) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    return rows


INEQUALITIES = table("| rule | inequality | statement")
LOSSES = table("| loss rule in the certificate")


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def stated(stem: str) -> set[str]:
    """The theorems of a Coq file."""
    text = (PROOFS / f"{stem}.v").read_text()
    return set(re.findall(r"^Theorem (\w+)", text, re.MULTILINE))


def test_every_inequality_of_a_certificate_is_in_the_table() -> None:
    stated_by_code = {**STATEMENTS, "own jump": OWN_JUMP, "stray jump": STRAY_JUMP}
    stated_by_code |= SPARSE_STATEMENTS
    assert {row[1]: row[2] for row in INEQUALITIES} == stated_by_code
    assert {row[0] for row in INEQUALITIES} == {EQUAL_CUTS, CLOSED_FORM, PER_INDEX, SHARED, SPARSE}


def test_hypotheses_and_theorems_of_the_table_exist() -> None:
    for _, inequality, _, hypotheses, theorems in INEQUALITIES:
        if theorems == NOT_YET:
            assert not names(hypotheses), inequality
            continue
        for theorem in names(theorems):
            stem, name = theorem.split(".")
            assert name in stated(stem)
            text = (PROOFS / f"{stem}.v").read_text()
            used = [h for h in names(hypotheses) if f"Hypothesis {h} :" in text]
            assert used, (inequality, theorem)
        for hypothesis in names(hypotheses):
            files = {theorem.split(".")[0] for theorem in names(theorems)}
            texts = [(PROOFS / f"{stem}.v").read_text() for stem in files]
            assert any(f"Hypothesis {hypothesis} :" in text for text in texts)


def test_the_first_table_names_theorems_that_exist() -> None:
    for theorems, file, *_ in table("| theorem | file | says"):
        assert set(names(theorems)) <= stated(names(file)[0].removesuffix(".v"))


def test_every_privacy_theorem_is_in_the_first_table() -> None:
    listed = {name for row in table("| theorem | file | says") for name in names(row[0])}
    for path in PROOFS.glob("*.v"):
        for name in stated(path.stem):
            if name.endswith(("_costs", "_pure_dp", "_up", "_down", "_charged")):
                assert name in listed, name


def test_the_package_calls_the_same_rules_machine_checked() -> None:
    checked = {row[0] for row in INEQUALITIES if row[4] != NOT_YET}
    assert checked == CHECKED_RULES
    assert {row[0] for row in LOSSES if row[1] != NOT_YET} == CHECKED_LOSSES
    for _, theorems in LOSSES:
        for theorem in names(theorems):
            stem, name = theorem.split(".")
            assert name in stated(stem)


def test_every_theorem_file_has_a_spoilt_variant() -> None:
    variants = tomllib.loads((PROOFS / "spoilt.toml").read_text())["variant"]
    spoilt = {variant["file"] for variant in variants}
    assert {path.name for path in PROOFS.glob("*.v")} - {"lemmas.v"} <= spoilt
    for variant in variants:
        assert (PROOFS / variant["file"]).read_text().count(variant["find"]) == 1, variant["what"]


# The definitions, read from the Coq text once more in fractions


def c(m: int, beta: Fraction, j: int) -> Fraction:
    return beta**j * prod((Fraction(1, m) + i for i in range(j)), start=Fraction(1)) / factorial(j)


def share(m: int, beta: Fraction, z: int) -> dict[int, Fraction]:
    total = sum(c(m, beta, j) for j in range(z + 1))
    return {j: c(m, beta, j) / total for j in range(z + 1)}


def a_cell(seed: int, *, equal: bool = False) -> BoundedCell:
    """A small bounded cell with arbitrary parameters."""
    draw = random.Random(seed)
    largest = draw.randint(1, 3)

    def direction() -> Direction:
        cut = draw.randint(0, 3)
        return Direction(
            epsilon=Fraction(1),
            decay=Fraction(draw.randint(1, 9), 10),
            cut=cut,
            muted_cut=cut if equal else draw.randint(0, cut),
            odds=tuple(Fraction(draw.randint(1, 30), 40) for _ in range(largest)),
        )

    return BoundedCell(users=draw.randint(1, 5), largest=largest, up=direction(), down=direction())


@pytest.mark.parametrize("seed", range(20))
def test_the_law_of_cell_is_the_law_of_the_bounded_cell(seed: int) -> None:
    cell = a_cell(seed)
    m, D, up, down = cell.users, cell.largest, cell.up, cell.down
    zu, wu, zd, wd = up.cut, up.muted_cut, down.cut, down.muted_cut
    for x in range(D + 1):
        masses = [Fraction(0)] * (cell.most_messages + 1)
        branches = [(Fraction(1), wd + x, zu, zd)]
        branches += [(o, wd + zu + y, wu, zd) for y, o in enumerate(up.odds, start=1)]
        branches += [(o, D - y, zu, wd) for y, o in enumerate(down.odds, start=1)]
        weight = 1 + sum(up.odds) + sum(down.odds)
        for odds, start, cut_up, cut_down in branches:
            for (a, p), (b, q) in product(
                share(m, up.decay, cut_up).items(), share(m, down.decay, cut_down).items()
            ):
                masses[start + a + cut_down - b] += odds * p * q / weight
        shown = message_masses(cell, x)
        assert sum(masses) == 1
        assert len(shown) == len(masses)
        for mass, ball in zip(masses, shown, strict=True):
            assert ball.overlaps(arb(mass.numerator) / mass.denominator)
            assert ball.rad() < 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_the_share_is_the_hypothesis_multiplied_out(seed: int) -> None:
    cell = a_cell(seed, equal=True)
    m, D = cell.users, cell.largest
    for direction in (cell.up, cell.down):
        beta, z = direction.decay, direction.cut
        holds = all(
            m * c(m, beta, z + 1) * beta ** (y - 1) <= (1 - beta**D) * o
            for y, o in enumerate(direction.odds, start=1)
        )
        phi = Scale(cell, direction).share(direction.odds)
        assert phi != 1 and (phi < 1) == holds


def test_the_number_of_stray_vectors() -> None:
    for k, Z in product(range(2, 5), range(4, 7)):
        vectors = [n for n in product(range(Z + 2), repeat=k) if sum(n) == Z + 1]
        for q in range(2, k + 1):
            found = sum(1 for n in vectors if sum(part > 0 for part in n) == q)
            assert found == comb(k, q) * comb(Z, q - 1)


# What a plan says about it


def test_a_plan_with_equal_cuts_rests_on_machine_checked_theorems() -> None:
    said = machine_checked(plan_count(2, 1).certificate)
    assert said == (
        "the privacy theorems of this plan are machine-checked; the implementation is tested "
        "against them (proofs/README.md)"
    )


def test_a_plan_by_the_per_index_rule_does_not_yet() -> None:
    said = machine_checked(plan_count(10_000, 1).certificate)
    assert said == "not yet machine-checked: the rule 'per index'"


def test_histograms_and_other_kinds_say_what_is_missing() -> None:
    assert "per index" in machine_checked(plan_histogram(1000, 1, ["a", "b"]).certificate)
    paper = plan_count(1000, 1, cell="paper").certificate
    assert machine_checked(paper) == "not yet machine-checked: the proof of paper cells"
