"""The proof of cells that share their way up: what it accepts, what it refuses, and a second
program's word."""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rows import for_each
from shared_groups import group
from vector_entries import check_files, check_shared

from shuffledp import certify, verify
from shuffledp.cells.digits.cell import SharedCell, SharedDigits
from shuffledp.cells.digits.proof import prove
from shuffledp.cells.registry import cell_from_dict, groups_of_digits
from shuffledp.errors import CertificateError, InputError, ParameterError, PrivacyViolation
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp_check import certificate as checker
from shuffledp_check import queries
from shuffledp_check import shared as shared_checker
from shuffledp_check.bounded import Rejected
from shuffledp_check.paper import Work

F = Fraction
Data = dict[str, Any]
ROOT = Path(__file__).parents[2]
ENTRIES = json.loads((ROOT / "vectors/shared.json").read_text("utf-8"))
HOLDING = [entry for entry in ENTRIES if entry["holds"]]
PAIR = HOLDING[0]


def cells_of(entry: Data) -> tuple[SharedCell, ...]:
    cells = tuple(cell_from_dict(data) for data in entry["cells"])
    groups_of_digits(cells)
    return cells  # type: ignore[return-value]


def package(entry: Data) -> bool:
    """Whether the package accepts an entry."""
    try:
        cells = cells_of(entry)
        for cell, loss in zip(cells, entry["losses"], strict=True):
            prove(cell, F(loss), F(loss))
    except (CertificateError, InputError, LookupError):
        return False
    most = SharedDigits(tuple(cells)).most_messages
    return (cells[0].users, most) == (entry["users"], entry["most_messages"])


def protocol(entry: Data) -> RealSumProtocol:
    epsilon = sum(map(F, entry["losses"]), start=F(0))
    return RealSumProtocol(epsilon=epsilon, digits=cells_of(entry), low=F(0), high=F(1))


def as_digits(entry: Data) -> tuple[bool, bool]:
    """What the package and the second program say of the cells as digits of a real sum."""
    try:
        certify(protocol(entry))
        first = True
    except (CertificateError, InputError, LookupError):
        first = False
    return first, second_certifies(entry)


def second_certifies(entry: Data) -> bool:
    """Whether the second program proves the cells as digits of a real sum."""
    epsilon = sum(map(F, entry["losses"]), start=F(0))
    part = {"query": "real-sum", "epsilon": str(epsilon), "low": "0", "high": "1"}
    try:
        loss, cells = queries.budgets({**part, "digits": entry["cells"]})
        queries.users_of(cells)
        for one in cells:
            checker.prove(one, Work())
    except (Rejected, ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return loss <= epsilon


def second(entry: Data) -> bool:
    try:
        check_shared(entry)
    except (Rejected, ArithmeticError, LookupError, TypeError, ValueError):
        return False
    return True


@for_each(ENTRIES, lambda entry: entry["name"])
def test_the_package_and_the_second_program_agree(entry: Data) -> None:
    assert package(entry) == second(entry) == entry["holds"]
    answers = as_digits(entry)
    assert answers[0] == answers[1]
    if entry["holds"]:
        assert answers[0]


def test_the_vectors_hold_both_kinds() -> None:
    kinds = Counter(entry["holds"] for entry in ENTRIES)
    assert kinds[True] >= 5 and kinds[False] >= 70


def test_the_second_program_reads_the_file_of_vectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["check", str(ROOT / "vectors/shared.json")])
    assert check_files(check_shared) == 0
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps([PAIR | {"holds": False}]))
    monkeypatch.setattr("sys.argv", ["check", str(wrong)])
    assert check_files(check_shared) == 1
    assert "wrongly accepted" in capsys.readouterr().out


# Odds at the limit, and a little less


@pytest.mark.parametrize("users", [1, 2, 100, 10**12])
@pytest.mark.parametrize(
    ("largest", "cut", "decays"),
    [
        ((1, 1), 2, (F(1, 2), F(2, 5))),
        ((2, 7), 30, (F(3, 5), F(9, 10))),
        ((1, 2, 1), 40, (F(1, 2), F(4, 5), F(3, 5))),
        ((1,) * 8, 8, (F(1, 2),) * 8),
    ],
    ids=["least", "two", "three", "eight"],
)
def test_odds_at_the_limit_are_accepted_and_less_is_not(
    users: int, largest: tuple[int, ...], cut: int, decays: tuple[F, ...]
) -> None:
    """Written down from the theorem, not by a planner."""
    cells = group(users, largest, cut, decays)
    limits = [(cell.up, cell.way_up) for cell in cells]
    tightest = 0
    for cell, (up, known) in zip(cells, limits, strict=True):
        assert accepted_upwards(cell) == (True, True)
        for y in range(cell.largest):
            odds = list(up.odds)
            odds[y] *= 1 - F(1, 10**6)
            less = replace(cell, up=replace(up, odds=tuple(odds)))
            assert accepted_upwards(less) == (False, False)
        for q in range(len(known.stray_odds)):
            stray = list(known.stray_odds)
            stray[q] *= 1 - F(1, 10**6)
            less = replace(cell, way_up=replace(known, stray_odds=tuple(stray)))
            answers = accepted_upwards(less)
            assert answers[0] == answers[1]
            tightest += not answers[0]
    assert tightest >= len(largest) - 1  # the cell with the least A needs every stray odds


def accepted_upwards(cell: SharedCell) -> tuple[bool, bool]:
    """What the package and the second program say of the way up; the way down is made private."""
    down = replace(cell.up, odds=tuple(o * 2 for o in cell.up.odds))
    whole = replace(cell, down=down)
    try:
        prove(whole, F(20), F(20))
        first = True
    except PrivacyViolation as error:
        assert error.witness["direction"] == "up"
        first = False
    try:
        shared_checker.SharedCell(whole.to_dict()).check(F(20), F(20))
    except Rejected:
        return first, False
    return first, True


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda c: c["up"].update(odds=[str(F(o) * (1 - F(1, 10**6))) for o in c["up"]["odds"]]),
            "N·φ",
        ),
        (
            lambda c: c["together"].update(
                stray_odds=[str(F(o) / 2) for o in c["together"]["stray_odds"]]
            ),
            r"β\*\^\(Z\+1\)",
        ),
        (lambda c: c["together"].update(others=c["together"]["others"] + 1), "N·φ"),
        (lambda c: c["together"].update(decay="1/100"), "falls more slowly"),
        (
            lambda c: c["up"].update(epsilon=str(F(c["up"]["epsilon"]) - F(1, 10**6))),
            "falls too fast",
        ),
        (lambda c: c["up"].update(epsilon=str(F(c["up"]["epsilon"]) + F(1, 10**6))), "above the"),
        (lambda c: c["down"].update(epsilon=str(F(c["down"]["epsilon"]) + 1)), "above the"),
    ],
    ids=["own odds", "stray odds", "others", "decay", "epsilon", "more up", "more down"],
)
def test_what_is_wrong_is_said(damage: Callable[[Data], None], words: str) -> None:
    data, loss = copy.deepcopy(PAIR["cells"][0]), F(PAIR["losses"][0])
    prove(cell_from_dict(data), loss, loss)  # type: ignore[arg-type]
    damage(data)
    with pytest.raises(PrivacyViolation, match=words):
        prove(cell_from_dict(data), loss, loss)  # type: ignore[arg-type]
    with pytest.raises(Rejected):
        shared_checker.SharedCell(data).check(loss, loss)


# Random damage


NUMBERS = [
    *(("up", name) for name in ("decay", "odds", "cut", "epsilon")),
    *(("down", name) for name in ("decay", "odds", "cut", "muted_cut")),
    *(("together", name) for name in ("decay", "others", "stray_odds", "other_odds")),
]


def damaged(source: random.Random, entry: Data) -> Data:
    """One number of one cell, or of all cells alike, a little larger or smaller."""
    data = copy.deepcopy(entry)
    place = source.choice(NUMBERS)
    chosen = source.choice([data["cells"], [source.choice(data["cells"])]])
    factor = 1 + source.choice([-1, 1]) * F(1, 10 ** source.choice([1, 2, 5, 9, 14]))
    step = source.choice([-1, 1])
    for cell in chosen:
        part, name = cell[place[0]], place[1]
        if isinstance(part[name], int):
            part[name] += step
            if place == ("up", "cut"):
                part["muted_cut"] = part["cut"]
        elif isinstance(part[name], list):
            part[name] = [str(F(odds) * factor) for odds in part[name]]
        else:
            part[name] = str(F(part[name]) * factor)
    if source.random() < 0.7:  # often the cells still tell the truth about each other
        sums = [sum(map(F, cell["up"]["odds"])) for cell in data["cells"]]
        decay = max(F(cell["up"]["decay"]) for cell in data["cells"])
        for cell, own in zip(data["cells"], sums, strict=True):
            cell["together"].update(other_odds=str(sum(sums) - own), decay=str(decay))
    cells = data["cells"]
    base = sum(c["down"]["cut"] + c["down"]["muted_cut"] + c["largest"] for c in cells)
    data["most_messages"] = base + 2 * cells[0]["up"]["cut"] + 1
    return data


def test_both_agree_on_random_damage() -> None:
    source, said = random.Random("shared cells"), Counter[bool]()
    for _ in range(250):
        entry = damaged(source, source.choice([PAIR, HOLDING[3]]))
        first = package(entry)
        assert first == second(entry), entry
        answers = as_digits(entry)
        assert answers[0] == answers[1], entry
        said[first] += 1
    assert min(said.values()) > 40  # and neither answer is rare


# Certificates


def test_a_certificate_of_shared_digits_is_checked_by_both() -> None:
    for entry in HOLDING[:2]:
        certificate = json.loads(json.dumps(certify(protocol(entry)).to_dict()))
        assert checker.check(certificate) == protocol(entry).epsilon
        assert verify(certificate).epsilon == protocol(entry).epsilon
        for cell, data in zip(certificate["cells"], entry["cells"], strict=True):
            base = data["down"]["cut"] + data["down"]["muted_cut"] + data["largest"]
            assert cell["kind"] == "shared"
            assert cell["proof"]["most_messages"] == base + 2 * data["up"]["cut"] + 1
            assert cell["proof"]["up"]["rule"] == "shared way up"
            lefts = [F(one["left"]) for one in cell["proof"]["up"]["inequalities"]]
            assert lefts[0] <= 1 < lefts[0] + F(1, 10**6) and max(lefts) <= 1


@pytest.mark.parametrize(
    "entry",
    [
        entry
        for entry in ENTRIES
        if entry["name"].startswith("two digits: ") and entry["cells"] != PAIR["cells"]
    ],
    ids=lambda entry: str(entry["name"]),
)
def test_attacked_certificates_are_refused_by_both(entry: Data) -> None:
    """But for attacks on what stands beside the cells, which a certificate does not hold."""
    certificate = json.loads(json.dumps(certify(protocol(PAIR)).to_dict()))
    certificate["protocol"]["digits"] = entry["cells"]
    assert not certified(certificate)
    with pytest.raises((CertificateError, InputError, LookupError)):
        verify(certificate)


def certified(certificate: Data) -> bool:
    try:
        checker.check(certificate)
    except (Rejected, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False
    return True


def elsewhere() -> dict[str, Data]:
    """Protocols in which a shared cell has no place, as a certificate would hold them."""
    digit, bit = PAIR["cells"]
    half = {"cell": bit, "down": PAIR["losses"][1]}
    sums = {"answer": "sum", "labels": ["a", "b"], "low": "0", "high": "1"}
    return {
        "count": {"cell": bit},
        "integer-sum": {"cell": digit},
        "histogram": {"cell": bit, "labels": ["a", "b"]},
        "quantiles": {"levels": [{**half, "buckets": 2}], "low": "0", "high": "1"},
        "by-group": {**sums, "digits": [half]},
    }


@pytest.mark.parametrize("query", elsewhere())
def test_the_second_program_takes_shared_cells_as_digits_only(query: str) -> None:
    loss = max(map(F, PAIR["losses"])) * 2
    part = {"query": query, "epsilon": str(loss), **elsewhere()[query]}
    with pytest.raises(Rejected, match="only the digits of a real sum"):
        queries.budgets(part)


def test_digits_share_their_way_up_all_or_none() -> None:
    digit, bit = PAIR["cells"]
    bounded = {
        **{name: bit[name] for name in ("users", "largest", "up", "down")},
        "kind": "bounded",
    }
    for digits in ([digit, bounded], [bounded, digit], [digit], [digit, bit, bit]):
        part = {"query": "real-sum", "epsilon": "9", "digits": digits}
        with pytest.raises(Rejected):
            queries.budgets(part)
    for digits in ([digit, bounded], [digit], [digit, bit, bit]):
        cells = tuple(cell_from_dict(data) for data in digits)
        with pytest.raises(ParameterError):
            RealSumProtocol(epsilon=F(9), digits=cells, low=F(0), high=F(1))
