"""The texts of vectors/client.json about digits that share their way up which must be refused, each
because of one thing."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

from client_refusals import case, put
from client_shared import DITHERED, SHARED, cells_of
from client_tasks import BEGIN, text_of
from naive_laws import Data, F

from shuffledp.tasks.task import Task, task_from_json

DIGITS = "certificate.protocol.digits"

Change = Callable[[list[Data]], object]
"""What is changed in the digits."""


def fitting(digits: list[Data]) -> None:
    """Makes what the cells say about each other true again."""
    totals = [sum((F(odds) for odds in cell["up"]["odds"]), start=F(0)) for cell in digits]
    codes = math.prod(cell["largest"] + 1 for cell in digits)
    decay = max(F(cell["up"]["decay"]) for cell in digits)
    for cell, total in zip(digits, totals, strict=True):
        cell["together"] |= {
            "cells": len(digits),
            "others": codes // (cell["largest"] + 1),
            "decay": str(decay),
            "other_odds": str(sum(totals) - total),
        }


def with_digits(task: Task, change: Change, fits: bool = True) -> str:
    """The task with other digits, and everything else in agreement with them."""
    digits = copy.deepcopy(cells_of(task))
    change(digits)
    if fits:
        fitting(digits)
    claims = {
        f"certificate.cells.{place}.proof.most_messages": cell["largest"]
        + cell["down"]["cut"]
        + cell["down"]["muted_cut"]
        + 2 * cell["up"]["cut"]
        + 1
        for place, cell in enumerate(digits)
    }
    return put(task, {DIGITS: digits, **claims, "report_size": task.report_size + 50})


def times(text: str, factor: F) -> str:
    return str(F(text) * factor)


def lower(digits: list[Data], place: int, side: str, y: int) -> None:
    """One of the odds, lower by a millionth."""
    odds = digits[place][side]["odds"]
    odds[y] = times(odds[y], F(999_999, 10**6))


def strays(digits: list[Data], change: Callable[[list[str]], object]) -> None:
    for cell in digits:
        change(cell["together"]["stray_odds"])


def less_stray(parts: int) -> Change:
    def change(odds: list[str]) -> None:
        odds[parts - 2] = times(odds[parts - 2], F(999_999, 10**6))

    return lambda digits: strays(digits, change)


def more_cells(strays: int) -> Change:
    """As if there were one more, with odds that are large enough for it, and so many more of
    them."""

    def change(digits: list[Data]) -> None:
        for cell in digits:
            cell["together"]["cells"] += 1
            cell["together"]["stray_odds"] = ["1"] * (len(digits) - 1 + strays)

    return change


def short_way(digits: list[Data]) -> None:
    """A way up that is shorter than there are cells, with odds that are large enough for it."""
    for cell in digits:
        cell["up"] |= {"cut": 2, "muted_cut": 2, "odds": ["1000"] * cell["largest"]}
        cell["together"]["stray_odds"] = ["1000"] * (len(digits) - 1)


def slowest(digits: list[Data]) -> int:
    return max(range(len(digits)), key=lambda place: F(digits[place]["up"]["decay"]))


def narrow(digits: list[Data]) -> Data:
    """A cell whose noise upwards is not the widest."""
    return digits[(slowest(digits) + 1) % len(digits)]


def wider(digits: list[Data]) -> None:
    """All cells name a decay above the largest one, with odds that are large enough for it."""
    for cell in digits:
        cell["together"] |= {"decay": "99/100", "stray_odds": ["1000"] * (len(digits) - 1)}


def together(place: int, **values: Any) -> Change:
    return lambda digits: digits[place]["together"].update(values)


def missing(digits: list[Data]) -> None:
    del digits[0]["together"]


def bounded(place: int) -> Change:
    """One digit as a bounded cell of the same numbers."""

    def change(digits: list[Data]) -> None:
        del digits[place]["together"]
        digits[place]["kind"] = "bounded"

    return change


PLAIN: list[tuple[str, Change]] = [
    ("a shared cell that says nothing of the others", missing),
    ("an unknown field of the cells together", together(0, later=1)),
    ("an unknown field of a shared cell", lambda digits: digits[0].update(later=1)),
    ("a bounded digit before shared ones", bounded(0)),
    ("a bounded digit after a shared one", bounded(1)),
    ("one cell together", together(0, cells=1)),
    ("25 cells together", together(0, cells=25)),
    ("no combination of the others", together(0, others=0)),
    ("a largest decay of 1", together(0, decay="1")),
    ("a largest decay of 0", together(0, decay="0")),
    ("other odds of 0", together(0, other_odds="0")),
    ("other odds as a number", together(0, other_odds=1)),
    ("stray odds of 0", lambda digits: strays(digits, lambda odds: odds.__setitem__(0, "0"))),
    ("one of the stray odds missing", lambda digits: strays(digits, list.pop)),
    ("one of the stray odds too many", lambda digits: strays(digits, lambda o: o.append("1"))),
    ("another number of cells than there are digits", more_cells(1)),
    ("another number of cells than digits and stray odds", more_cells(0)),
    ("fewer combinations of the others than there are", together(0, others=1)),
    (
        "a decay together that is not the largest",
        lambda digits: narrow(digits)["together"].update(decay=narrow(digits)["up"]["decay"]),
    ),
    ("a decay together above the largest", wider),
    ("lower odds of the others than they have", together(1, other_odds="1/1000000")),
    (
        "different stray odds",
        lambda digits: digits[1]["together"].update(stray_odds=["1"] * (len(digits) - 1)),
    ),
    (
        "different cuts upwards",
        lambda digits: digits[2]["up"].update(
            cut=digits[2]["up"]["cut"] + 1, muted_cut=digits[2]["up"]["cut"] + 1
        ),
    ),
]
"""What is wrong, without anything else being changed."""

FITTING: list[tuple[str, Change]] = [
    (
        "a muted cut below the cut upwards",
        lambda digits: digits[0]["up"].update(muted_cut=digits[0]["up"]["cut"] - 4),
    ),
    ("a way up shorter than there are cells", short_way),
    ("shared digits for different users", lambda digits: digits[1].update(users=201)),
    ("noise upwards that falls too fast", lambda d: d[slowest(d)]["up"].update(decay="1/3")),
    ("odds of an own jump lower by a millionth, first digit", lambda d: lower(d, 0, "up", 0)),
    ("odds of an own jump lower by a millionth, second value", lambda d: lower(d, 1, "up", 1)),
    ("odds downwards of a shared cell lower by a millionth", lambda d: lower(d, 0, "down", 0)),
    ("stray odds lower by a millionth, two parts", less_stray(2)),
    ("stray odds lower by a millionth, three parts", less_stray(3)),
]
"""What is wrong, where everything else fits."""


def alone(task: Task, protocol: Data, **claims: Any) -> str:
    """A protocol with the first digit's cell alone, and a certificate that claims just that."""
    data = json.loads(task.canonical())
    own = data["certificate"]["cells"][0] | {
        name: claims.pop(name) for name in ("copies", "down") if name in claims
    }
    data["report_size"] = 1000
    for name, value in {"protocol": protocol, "cells": [own], **claims}.items():
        data["certificate"][name] = value
    return text_of(data)


def claimed(task: Task) -> list[tuple[str, str]]:
    """Claims, sizes and questions that do not follow from the digits or do not fit them."""
    one, given = cells_of(task)[0], json.loads(task.canonical())["certificate"]["protocol"]
    loss = one["up"]["epsilon"]
    counted = {"query": "integer-sum", "epsilon": "2", "cell": one}
    chosen = {**counted, "query": "histogram", "labels": ["a", "b", "c"], "other": None}
    return [
        ("a shared cell claimed to be bounded", put(task, {"certificate.cells.1.kind": "bounded"})),
        ("reports too small for shared cells", put(task, {"report_size": task.report_size - 1})),
        ("shared cells without exact padding", put(task, {"padding": "2^-64"})),
        (
            "a shared cell in an integer sum",
            alone(task, counted, rule="max(up, down)", loss="2", down="2"),
        ),
        (
            "a shared cell in a histogram",
            alone(task, chosen, rule="up + down", loss="2", copies=3, down=str(2 - F(loss))),
        ),
        ("one shared digit alone", alone(task, {**given, "digits": [one]}, loss=loss)),
    ]


def shared_refused(tasks: dict[str, Task]) -> list[Data]:
    """Every case, in the form of `refused`."""
    task, dithered = tasks[SHARED], tasks[DITHERED]
    same = with_digits(task, lambda digits: None)
    task_from_json(same, hashlib.sha256(same.encode()).digest()).verify()  # nothing is wrong yet
    cases = [(SHARED, why, with_digits(task, change, fits=False)) for why, change in PLAIN]
    cases += [(SHARED, why, with_digits(task, change)) for why, change in FITTING]
    cases += [(SHARED, why, text) for why, text in claimed(task)]
    short = put(dithered, {"report_size": dithered.report_size - 1})
    cases.append((DITHERED, "reports too small for the public dither", short))
    return [
        case("proof", why, name, hashlib.sha256(text.encode()).hexdigest(), BEGIN, text)
        for name, why, text in cases
    ]
