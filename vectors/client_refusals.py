"""The texts of vectors/client.json that must be refused, each because of one thing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from client_tasks import BEGIN, END, KEY, text_of
from naive_laws import Data, F

from shuffledp.tasks.task import Task

CELL = "certificate.protocol.cell."
CLAIM = "certificate.cells.0."
COUNT, SUM, PAPER = "count, bounded", "integer sum, bounded", "count, paper"
REAL = "real sum, bounded"

Changes = dict[str, Any] | Callable[[Task], str]
"""Other values by their paths, or what makes the whole text anew."""


def put(task: Task, values: dict[str, Any]) -> str:
    """The task's text with other values at these paths."""
    data = json.loads(task.canonical())
    for path, value in values.items():
        at, steps = data, path.split(".")
        for step in steps[:-1]:
            at = at[int(step) if isinstance(at, list) else step]
        at[int(steps[-1]) if isinstance(at, list) else steps[-1]] = value
    return text_of(data)


def rewritten(**how: Any) -> Callable[[Task], str]:
    """The same data in another form."""
    return lambda task: json.dumps(json.loads(task.canonical()), **how)


def replaced(old: str, new: str) -> Callable[[Task], str]:
    return lambda task: task.canonical().decode().replace(old, new)


def out_of_order(task: Task) -> str:
    backwards = dict(sorted(json.loads(task.canonical()).items(), reverse=True))
    return json.dumps(backwards, separators=(",", ":"), ensure_ascii=False)


CLOSE = {"separators": (",", ":"), "sort_keys": True}
TEXTS: list[tuple[str, Changes]] = [
    ("white space between the parts", rewritten(sort_keys=True, ensure_ascii=False)),
    ("white space at the end", lambda task: task.canonical().decode() + "\n"),
    ("names out of order", out_of_order),
    ("escaped letters", rewritten(**CLOSE)),
    ("a name twice, with the same value", replaced('"padding":', '"padding":"exact","padding":')),
    ("cut off", lambda task: task.canonical().decode()[:-1]),
    ("a whole number written as a float", replaced('"key_id":3', '"key_id":3.0')),
    ("a float", {"report_size": 17.5}),
    ("minus zero", replaced('"at_least":0', '"at_least":-0')),
    ("an unknown version", {"format": "shuffledp task 99"}),
    ("an unknown version of the certificate", {"certificate.format": "shuffledp certificate 99"}),
    ("another statement", {"certificate.statement": "differential privacy"}),
    ("other neighbours", {"certificate.neighbours": "add or remove one user"}),
    ("an unknown field", {"later": 1}),
    ("an unknown field of a cell", {CELL + "later": 1}),
    ("an unknown field of a direction", {CELL + "up.later": 1}),
    ("a field that is not ASCII", {"später": 1}),
    ("an unknown suite", {"suite": "HPKE P-256 HKDF-SHA256 AES-128-GCM"}),
    ("an unknown kind of cell", {CELL + "kind": "central"}),
    ("an unknown query", {"certificate.protocol.query": "median"}),
    ("an unknown top-up", {"batch.top_up": "some"}),
    ("an unknown order", {"order": "random"}),
    ("an unknown padding", {"padding": "none"}),
    ("an unknown noise", {"publish_noise": "some"}),
    ("a number for true", {"repeat": 1}),
    ("a fraction in another form", {"certificate.protocol.epsilon": "1.0"}),
    ("a fraction that is not in lowest terms", {CELL + "up.decay": "183939720586/500000000000"}),
    ("a fraction with a denominator of 1", {CELL + "up.epsilon": "1/1"}),
    ("a fraction with a denominator of 0", {CELL + "up.decay": "1/0"}),
    ("a fraction as a number", {CELL + "up.epsilon": 1}),
    ("a whole number as a text", {CELL + "users": "100"}),
    ("a key that is too short", {"analyzer_key.public": "00" * 31}),
    ("a key of capital letters", {"analyzer_key.public": KEY.raw.hex().upper()}),
    ("a key without a number", {"analyzer_key.key_id": 0}),
    ("a key of no epoch", {"analyzer_key.epoch": 0}),
    ("a shuffler without https", {"shuffler": "http://shuffler.example"}),
    ("a shuffler with a slash at its end", {"shuffler": "https://shuffler.example/"}),
    ("a shuffler with an empty part", {"shuffler": "https://shuffler.example//v1"}),
    ("a shuffler of capital letters", {"shuffler": "https://Shuffler.example"}),
    ("a shuffler with a password", {"shuffler": "https://me:you@shuffler.example"}),
    ("a shuffler with a query", {"shuffler": "https://shuffler.example/v1?a=b"}),
    ("a shuffler of 301 characters", {"shuffler": "https://" + "a" * 293}),
    ("no name", {"name": ""}),
    ("a name of 101 characters", {"name": "ä" * 101}),
    ("a question of two lines", {"question": "one\ntwo"}),
    ("a question with a control character", {"question": "one\u0085two"}),
    ("a question that turns the writing round", {"question": "\u202eno"}),
    ("a question that isolates writing", {"question": "\u2066no"}),
    ("no question", {"question": ""}),
    ("a question of 1,001 characters", {"question": "🙂" * 1001}),
    ("no operators", {"operators": {}}),
    ("expires when it begins", {"expires": BEGIN}),
    ("a report of 65,536 messages", {"report_size": 65_536}),
]
"""Texts that are no tasks, made from the first count."""

LONG = [f"{10**395 + 7**place}/{10**394 + 3**place}" for place in range(400, 405)]
"""Fractions that are short enough each, without a short common denominator."""


ONE = F(1)


def claims(epsilon: str) -> Data:
    """Everything that a count says about ε, upwards and downwards."""
    own = {f"certificate.{name}": epsilon for name in ("epsilon", "loss", "protocol.epsilon")}
    return {**own, CLAIM + "down": epsilon}


def cell(task: Task) -> Data:
    found: Data = task.certificate["protocol"]["cell"]
    return found


def weaker_odds(side: str) -> Callable[[Task], str]:
    """All odds of a direction, lower by a millionth."""

    def text(task: Task) -> str:
        odds = [str(F(one) * F(999_999, 10**6)) for one in cell(task)[side]["odds"]]
        return put(task, {f"{CELL}{side}.odds": odds})

    return text


def both_odds(factor: F, ratio: F = ONE) -> Callable[[Task], str]:
    """All odds and ratios of a count multiplied: users of both values are muted equally often."""

    def text(task: Task) -> str:
        changes: Data = {}
        for side in ("up", "down"):
            given = cell(task)[side]
            changes[f"{CELL}{side}.odds"] = [str(F(one) * factor) for one in given["odds"]]
            changes[f"{CELL}{side}.ratio"] = str(F(given["ratio"]) * ratio)
        return put(task, changes)

    return text


def cuts(cut: int, muted_cut: int, odds: str) -> Callable[[Task], str]:
    """Other cuts and odds upwards that do not depend on the value, beside a way down that is
    private, and a most number of messages that agrees with them."""

    def text(task: Task) -> str:
        data = json.loads(task.canonical())
        known = data["certificate"]["protocol"]["cell"]
        for side, new in (("up", (cut, muted_cut, odds)), ("down", (9, 9, "1000"))):
            known[side].pop("ratio")
            known[side] |= {"cut": new[0], "muted_cut": new[1], "odds": [new[2]]}
        claim = data["certificate"]["cells"][0]["proof"]
        claim["most_messages"] = cut + muted_cut + 19
        claim["down"]["rule"] = "equal cuts"
        data["report_size"] = 50
        return text_of(data)

    return text


def sum_cuts(cut: int, muted_cut: int, messages: int) -> Data:
    """Other cuts of an integer sum, with odds that are large enough for all else."""
    return {
        CELL + "up.cut": cut,
        CELL + "up.muted_cut": muted_cut,
        CELL + "up.odds": ["1000"] * 5,
        CLAIM + "proof.most_messages": messages,
        "report_size": 100,
    }


def at_path(task: Task, path: str) -> Any:
    at = json.loads(task.canonical())
    for step in path.split("."):
        at = at[step]
    return at


def one_less(path: str) -> Callable[[Task], str]:
    return lambda task: put(task, {path: at_path(task, path) - 1})


def one_more(path: str) -> Callable[[Task], str]:
    return lambda task: put(task, {path: at_path(task, path) + 1})


def half_the_flood(task: Task) -> str:
    return put(task, {CELL + "flood_mean": str(F(cell(task)["flood_mean"]) / 2)})


def two_claims(task: Task) -> str:
    return put(
        task, {"certificate.cells": [json.loads(task.canonical())["certificate"]["cells"][0]] * 2}
    )


NUMBERS: list[tuple[str, str, Changes]] = [
    ("odds lower by a millionth", COUNT, both_odds(F(999_999, 10**6))),
    ("odds at nine tenths of the rule", COUNT, both_odds(F(9, 10))),
    ("a ratio a tenth below the decay", COUNT, both_odds(F(2), F(9, 10))),
    ("a ratio of 0", COUNT, {CELL + "up.ratio": "0"}),
    ("a ratio of 1", COUNT, {CELL + "up.ratio": "1", CELL + "down.ratio": "1"}),
    ("a ratio above 1", COUNT, {CELL + "up.ratio": "2"}),
    ("a ratio for values above 1", SUM, {CELL + "up.ratio": "1/2", CELL + "down.ratio": "1/2"}),
    ("users of one value muted more often", COUNT, {CELL + "up.odds.0": "1000"}),
    ("odds upwards lower by a millionth", COUNT, weaker_odds("up")),
    ("odds downwards lower by a millionth", COUNT, weaker_odds("down")),
    ("odds lower by a millionth, equal cuts", SUM, weaker_odds("down")),
    ("noise that falls too fast", COUNT, {CELL + "up.decay": "1/3"}),
    ("noise that does not fall", COUNT, {CELL + "up.decay": "1"}),
    ("noise that is cut earlier", COUNT, {CELL + "up.cut": 3}),
    ("a muted cut above the cut", COUNT, cuts(2, 6, "1")),
    # for these two a script of docs/mathematics.md §12 in fractions gave numbers that only the
    # inequality in question does not allow
    ("a share above 1", COUNT, cuts(9, 5, "724277897/100000000000000")),
    ("only the last index fails", COUNT, cuts(3, 2, "24586729/1000000000")),
    (
        "two users, different cuts",
        COUNT,
        {
            CELL + "users": 2,
            "certificate.users": 2,
            **{f"{CELL}{side}.odds.0": "1000" for side in ("up", "down")},
        },
    ),
    ("a muted cut below D - 1", SUM, sum_cuts(17, 3, 47)),
    ("a cut below the muted cut + D", SUM, sum_cuts(10, 6, 43)),
    ("one of five odds missing", SUM, {CELL + "up.odds": ["1000"] * 4}),
    ("one of the odds too many", COUNT, {CELL + "up.odds": ["1000"] * 2}),
    ("odds of 0", COUNT, {CELL + "up.odds": ["0"]}),
    ("odds without a short common denominator", SUM, {CELL + "up.odds": LONG}),
    ("other users than are claimed", COUNT, {CELL + "users": 50}),
    ("more loss upwards than epsilon", COUNT, {CELL + "up.epsilon": "2"}),
    ("more loss downwards than epsilon", COUNT, {CELL + "down.epsilon": "2"}),
    ("an epsilon above 1,000", COUNT, claims("1001")),
    ("a value above 1 counted", SUM, {"certificate.protocol.query": "count"}),
    ("a smaller epsilon claimed", COUNT, {"certificate.epsilon": "1/2"}),
    ("another loss claimed", COUNT, {"certificate.loss": "1/2"}),
    ("another rule claimed", COUNT, {"certificate.rule": "up + down"}),
    ("another number of users claimed", COUNT, {"certificate.users": 1000}),
    ("another kind claimed", COUNT, {CLAIM + "kind": "paper"}),
    ("other copies claimed", COUNT, {CLAIM + "copies": 2}),
    ("another loss upwards claimed", COUNT, {CLAIM + "up": "1/2"}),
    ("another loss downwards claimed", COUNT, {CLAIM + "down": "1/2"}),
    ("a cell claimed that is not there", COUNT, two_claims),
    ("a label above 2^53 - 1", "histogram, bounded", {"certificate.protocol.labels.5": 2**53}),
    (
        "a label of more digits than any number",
        "histogram, bounded",
        {
            "certificate.protocol.labels.5": 10**40,
        },
    ),
    ("a label twice", "histogram, bounded", {"certificate.protocol.labels.1": "no"}),
    ("hardly any muting", PAPER, {CELL + "mute_probability": "1/1000000000000"}),
    ("one pair less", PAPER, one_less(CELL + "input_pairs")),
    ("half the flood", PAPER, half_the_flood),
    (
        "digits for different users",
        REAL,
        {
            "certificate.protocol.digits.1.users": 199,
        },
    ),
    *(
        (f"a dither of {dither} values", REAL, {"certificate.protocol.dither": dither})
        for dither in (0, -1, 1, 65)
    ),
    ("a dither as a text", REAL, {"certificate.protocol.dither": "3"}),
    ("a dither of a count", COUNT, {"certificate.protocol.dither": 3}),
    ("a dither of quantiles", "quantiles, bounded", {"certificate.protocol.dither": 3}),
    ("a dither that reports have no room for", REAL, one_more("certificate.protocol.dither")),
    ("reports that are too small, exact padding", COUNT, one_less("report_size")),
    ("reports that are too small, paper's cell", PAPER, one_less("report_size")),
    ("exact padding of a cell without a most", PAPER, {"padding": "exact"}),
    ("a reserve for cells that have a most", COUNT, {"padding": "2^-64"}),
    ("a reserve for bounded buckets", "histogram, bounded", {"padding": "2^-64"}),
    ("batches of fewer than the users", COUNT, {"batch.reports": 99}),
    ("leaves early without a top-up", COUNT, {"batch.at_least": 5}),
    ("waits without a top-up", COUNT, {"batch.wait_seconds": 5}),
    (
        "leaves with more than it holds",
        COUNT,
        {"batch.top_up": "missing", "batch.at_least": 1_000_000},
    ),
    ("a top-up for quantiles", "quantiles, bounded", {"batch.top_up": "full"}),
    ("publish noise for quantiles", "quantiles, bounded", {"publish_noise": "full"}),
]
"""Tasks whose numbers are not private, or do not fit together."""


WEEK = "count, in a series"
SERIES: list[tuple[str, Changes]] = [
    ("a series of other steps", {"series.every": "month"}),
    ("a series without a name", {"series.name": ""}),
    ("a series of no tasks", {"series.tasks": 0}),
    ("a series of 1,001 tasks", {"series.tasks": 1001}),
    ("an unknown field of a series", {"series.id": "00"}),
    ("a place before the first", {"series.place": 0}),
    ("a place after the last", {"series.place": 4}),
    ("a task that is longer than its step", {"expires": BEGIN + 7 * 86_400 + 1}),
    ("a day that lasts a week", {"series.every": "day"}),
]
"""Tasks that do not fit their series."""


def refused(tasks: dict[str, Task]) -> list[Data]:
    """Every case: the task that it was made from, why and by which kind of check it is refused."""
    found = []
    cases = [("text", why, COUNT, changes) for why, changes in TEXTS]
    cases += [("text", why, WEEK, changes) for why, changes in SERIES]
    cases += [("proof", why, name, changes) for why, name, changes in NUMBERS]
    for stage, why, name, changes in cases:
        task = tasks[name]
        text = put(task, changes) if isinstance(changes, dict) else changes(task)
        assert text != task.canonical().decode(), why
        own = hashlib.sha256(text.encode()).hexdigest()
        found.append(case(stage, why, name, own, BEGIN, text))
    count = tasks[COUNT]
    for stage, why, own, now in (
        ("hash", "another id than the hash of the text", "00" * 32, BEGIN),
        ("time", "not valid yet", count.id.hex(), BEGIN - 1),
        ("time", "expired", count.id.hex(), END),
    ):
        found.append(case(stage, why, COUNT, own, now, count.canonical().decode()))
    return found


def case(stage: str, why: str, task: str, own: str, now: int, text: str) -> Data:
    return {"stage": stage, "why": why, "task": task, "id": own, "now": now, "text": text}
