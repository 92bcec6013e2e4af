"""Changed certificates: `verify` and the independent checker refuse the same files, and in time."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rows import for_each

from shuffledp import certify, verify
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.documents.json_text import read_json
from shuffledp.errors import ShuffleDPError
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp_check import document
from shuffledp_check.bounded import Rejected
from shuffledp_check.certificate import check

ROOT = Path(__file__).parents[2]
VECTORS = [
    entry["certificate"]
    for entry in json.loads((ROOT / "vectors/certificates.json").read_text("utf-8"))
    if entry["holds"] and len(json.dumps(entry)) < 12_000
]
SECONDS = 20.0
"""Of processor time, at most, for one certificate and both programs; most take milliseconds."""
Place = tuple[Any, Any]
"""A list or an object, and an index or a name in it."""


def verdicts(text: str) -> tuple[Fraction | None, Fraction | None]:
    """ε as each program certifies it; None where it refuses. Any other error is a failure."""
    try:
        ours: Fraction | None = verify(read_json(text, "The certificate")).epsilon
    except ShuffleDPError:
        ours = None
    try:
        theirs: Fraction | None = check(document.read(text.encode("utf-8", "surrogatepass")))
    except Rejected:
        theirs = None
    return ours, theirs


def places(data: Any) -> Iterator[Place]:
    """Every place of a certificate, its nested ones included."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for name, value in list(items):
        yield data, name
        if isinstance(value, dict | list):
            yield from places(value)


def other_number(number: int, chance: random.Random) -> Any:
    return chance.choice(
        [
            number + 1,
            number - 1,
            2 * number,
            0,
            1,
            -number,
            65_535,
            10**9,
            10**30,
            float(number),
            number + 0.5,
            True,
            str(number),
            None,
        ]
    )


def other_text(text: str, chance: random.Random) -> Any:
    try:
        exact = Fraction(text)
    except (ValueError, ZeroDivisionError):
        return chance.choice([text + " ", text[1:], text.upper(), "", "é" * 600, 1, None, "\ud800"])
    top, bottom = exact.numerator, exact.denominator
    return chance.choice(
        [
            f" {text}",
            f"{text} ",
            f"{2 * top}/{2 * bottom}",
            f"+{text}",
            f"{top}/{bottom}",
            f"{text}/1",
            f"{text}e0",
            f"{top}_0",
            f"-{text}",
            str(2 * exact),
            str(exact / 2),
            str(exact * Fraction(99, 100)),
            str(exact * Fraction(101, 100)),
            str(exact + Fraction(1, 10**40)),
            str(exact - Fraction(1, 10**40)),
            "0",
            "1",
            "1/0",
            float(exact) if abs(exact) < 10**300 else 1e300,
            top,
            "9" * 401,
        ]
    )


def other_value(value: Any, chance: random.Random) -> Any:
    if type(value) is int:
        return other_number(value, chance)
    if type(value) is str:
        return other_text(value, chance)
    if isinstance(value, list) and value:
        several: list[Callable[[], Any]] = [
            lambda: value[1:],
            lambda: [*value, value[0]],
            lambda: value[::-1],
            lambda: [],
            lambda: value[0],
        ]
        return chance.choice(several)()
    if isinstance(value, dict):
        return chance.choice([{**value, "more": 1}, list(value), None, {}])
    return chance.choice([0, "", [], {}, False, True])


def mutated(certificate: Any, others: list[Any], chance: random.Random) -> Any:
    """The certificate with one or two places changed, left out or taken from another one."""
    data = copy.deepcopy(certificate)
    for _ in range(chance.choice([1, 1, 1, 2])):
        inside, name = chance.choice(list(places(data)))
        kind = chance.random()
        if kind < 0.1:
            del inside[name]
        elif kind < 0.2:
            donor = [where for where in places(chance.choice(others)) if where[1] == name]
            if donor:
                there, same = chance.choice(donor)
                inside[name] = copy.deepcopy(there[same])
        else:
            inside[name] = other_value(inside[name], chance)
    return data


def run(seed: int, size: int) -> dict[bool, int]:
    """How many mutated certificates were refused and accepted, both programs agreeing."""
    chance, found = random.Random(seed), {True: 0, False: 0}
    for number in range(size):
        data = mutated(chance.choice(VECTORS), VECTORS, chance)
        text = json.dumps(data)
        began = time.process_time()
        ours, theirs = verdicts(text)
        assert time.process_time() - began < SECONDS, text
        assert ours == theirs, (seed, number, text)
        found[ours is not None] += 1
    return found


def test_the_certificates_themselves_are_accepted_by_both() -> None:
    assert len(VECTORS) >= 12
    for certificate in VECTORS:
        ours, theirs = verdicts(json.dumps(certificate))
        assert ours == theirs == Fraction(certificate["epsilon"])


@pytest.mark.parametrize("seed", range(4))
def test_both_programs_refuse_the_same_mutated_certificates(seed: int) -> None:
    found = run(seed, 600)
    assert found[False] > 400 and found[True] > 40  # some changes are harmless: a label, a digit


@pytest.mark.parametrize("seed", range(100, 110))
def test_both_programs_refuse_the_same_of_many_mutated_certificates(seed: int) -> None:
    assert sum(run(seed, 1_000).values()) == 1_000


def changed(change: Callable[[dict[str, Any]], object], query: str = "count") -> dict[str, Any]:
    found = (one for one in VECTORS if one["protocol"]["query"] == query)
    data: dict[str, Any] = copy.deepcopy(next(found))
    change(data)
    return data


def paper_count(**changes: Any) -> dict[str, Any]:
    cell = PaperCell(
        users=4,
        largest=1,
        up_epsilon=Fraction(1),
        down_epsilon=Fraction(1, 2),
        mute_probability=Fraction(1, 2),
        input_pairs=3,
        flood_mean=Fraction(40),
    )
    data = certify(CountProtocol(Fraction(1), cell)).to_dict()
    data["protocol"]["cell"].update(changes)
    return data


def bounded_count(**up: Any) -> dict[str, Any]:
    data: dict[str, Any] = next(
        copy.deepcopy(one)
        for one in VECTORS
        if one["protocol"]["query"] == "count" and one["protocol"]["cell"]["kind"] == "bounded"
    )
    data["protocol"]["cell"]["up"].update(up)
    return data


FORGED = {
    "users that are no whole number": lambda: paper_count(users=4.5),
    "pairs that are no whole number": lambda: paper_count(input_pairs=2.5),
    "users that are true": lambda: paper_count(users=True),
    "a float instead of an exact number": lambda: paper_count(flood_mean=40.0),
    "a space in a number": lambda: paper_count(up_epsilon=" 1"),
    "a number that is not in lowest terms": lambda: paper_count(down_epsilon="2/4"),
    "a long cut": lambda: bounded_count(cut=65_535),
    "two long cuts": lambda: bounded_count(cut=65_535, muted_cut=65_535),
    "a billion pairs": lambda: paper_count(input_pairs=10**9),
    "pairs at the limit of a report": lambda: paper_count(input_pairs=65_535),
    "a million values": lambda: paper_count(largest=10**6),
    "another statement": lambda: changed(lambda data: data.update(statement="approximate")),
    "other neighbours": lambda: changed(lambda data: data.update(neighbours="add one user")),
    "another rule": lambda: changed(lambda data: data.update(rule="up + down")),
    "no cells": lambda: changed(lambda data: data.update(cells=[])),
    "a cell twice": lambda: changed(lambda data: data.update(cells=2 * data["cells"])),
    "another loss of a cell": lambda: changed(lambda data: data["cells"][0].update(up="1/7")),
    "more copies": lambda: changed(lambda data: data["cells"][0].update(copies=2)),
    "a float in a proof": lambda: changed(lambda data: data["cells"][0]["proof"].update(more=0.5)),
    "another proof": lambda: changed(lambda data: data["cells"][0].update(proof={})),
    "a field more": lambda: changed(lambda data: data.update(comment="hello")),
}


@for_each(FORGED)
def test_forged_certificates_are_refused_by_both_in_time(name: str) -> None:
    text, began = json.dumps(FORGED[name]()), time.process_time()
    assert verdicts(text) == (None, None)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(("pairs", "flood", "down"), [(0, 0, 1000), (3, 50, 1)])
def test_a_cell_at_the_largest_epsilon_is_accepted_by_both(
    pairs: int, flood: int, down: int
) -> None:
    """Its margin is too large for a float."""
    cell = PaperCell(
        users=1000,
        largest=1,
        up_epsilon=Fraction(1000),
        down_epsilon=Fraction(down),
        mute_probability=Fraction(1, 2),
        input_pairs=pairs,
        flood_mean=Fraction(flood),
    )
    certificate = certify(CountProtocol(Fraction(1000), cell))
    assert "e+" in certificate.to_dict()["cells"][0]["proof"]["margin"]
    assert "margin 1" in certificate.proofs[0].proof.summary()
    assert verdicts(json.dumps(certificate.to_dict())) == (Fraction(1000), Fraction(1000))
