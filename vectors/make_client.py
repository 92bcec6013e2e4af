"""Writes vectors/client.json: what every client, in whatever language, must do alike.

    python vectors/make_client.py

Tasks are planned and certified by the package. Everything that a client computes from them (draws,
messages, ciphertexts, reports) comes from `naive_client.py` and what it imports, and proofs of
tasks from `naive_proof.py`, which were written from docs/protocol.md and share no code with the
package.
Random words, ephemeral keys and the analyzer's key are hashes of the names of the cases, or chosen
where a case needs rare ones.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from client_proofs import proofs
from client_refusals import refused
from client_shared import SHARED, cells_of, recipes, shared_tasks
from client_shared_refusals import shared_refused
from client_tasks import (
    BEGIN,
    KEY,
    SECRET,
    described,
    frequency_tasks,
    group_tasks,
    make_tasks,
    text_of,
)
from naive_client import report_numbers
from naive_encryption import info_of, report_bytes, sealed
from naive_laws import LAWS, Data, Words

from shuffledp.tasks.task import Task

FILE = Path(__file__).resolve().parent / "client.json"
NOTE = (
    "Made by vectors/make_client.py: tasks by the planner of the package, all draws and messages "
    "by vectors/naive_client.py, ciphertexts by vectors/naive_encryption.py, proofs by "
    "vectors/naive_proof.py, which were written from docs/protocol.md and share no code with the "
    "package. Random words are 16 hexadecimal digits; a case takes exactly the words that it "
    "lists. Keys and tokens in this file are public: never use them."
)
ALL_ONES = (1 << 64) - 1


def stream(name: str) -> Iterator[int]:
    """Endless words that only depend on a name."""
    for number in itertools.count():
        yield int.from_bytes(hashlib.sha256(f"{name} {number}".encode()).digest()[:8], "big")


def chosen(first: list[int], name: str) -> Words:
    """Words that begin with chosen ones."""
    return Words(itertools.chain(first, stream(name)))


def hexes(words: list[int]) -> list[str]:
    return [f"{word:016x}" for word in words]


# Draws

DRAWN_LAWS: list[Data] = [
    {"law": "bernoulli", "probability": "1/2"},
    {"law": "bernoulli", "probability": "1/3"},
    {"law": "bernoulli", "probability": "3/4"},
    {"law": "bernoulli", "probability": "123456789/10000000000000"},
    {"law": "finite", "weights": ["1"]},
    {"law": "finite", "weights": ["1", "1"]},
    {"law": "finite", "weights": ["3", "1", "4"]},
    {"law": "finite", "weights": ["1/7", "2", "1/1000000000", "5/3"]},
    {"law": "cut negative binomial", "shape": "1", "beta": "1/3", "cut": 1},
    {"law": "cut negative binomial", "shape": "1/100", "beta": "3/5", "cut": 0},
    {"law": "cut negative binomial", "shape": "1/100", "beta": "3/5", "cut": 12},
    {"law": "cut negative binomial", "shape": "1/10000", "beta": "4598493/12500000", "cut": 15},
    {"law": "cut negative binomial", "shape": "1/3", "beta": "99/100", "cut": 40},
    {"law": "negative binomial", "shape": "1", "decay": "1"},
    {"law": "negative binomial", "shape": "1/100", "decay": "1/2"},
    {"law": "negative binomial", "shape": "1/1000000", "decay": "21/20"},
    {"law": "negative binomial", "shape": "1/5", "decay": "1/10"},
    {"law": "poisson", "mean": "0"},
    {"law": "poisson", "mean": "1/50"},
    {"law": "poisson", "mean": "7/3"},
    {"law": "poisson", "mean": "123/4567"},
]


def draw_cases(law: Data) -> Iterator[list[int]]:
    """The first words of interesting draws: any, the ends, and those that tie with a cumulative
    probability once or twice."""
    one = LAWS[law["law"]](law)
    for first in stream(f"any {text_of(law)}"):
        yield [first]
        if first % 8 == 0:  # after eight on average
            break
    yield [0]
    yield [ALL_ONES]
    yield [ALL_ONES, 1 << 63]
    for k in range(4):
        prefixes = [int(one.scaled(k, bits)) for bits in (64, 128, 192)]
        if prefixes[0] >= 1 << 64:  # certain to be at most k
            break
        words = [prefix & ALL_ONES for prefix in prefixes]
        yield [words[0], 0]
        yield [words[0], ALL_ONES]
        yield [words[0], *words[1:2], max(words[2] - 1, 0)]
        yield [words[0], *words[1:2], words[2], ALL_ONES]
        yield [max(words[0] - 1, 0)]
        yield [min(words[0] + 1, ALL_ONES)]


def draws() -> list[Data]:
    found = []
    for law in DRAWN_LAWS:
        cases = []
        for number, first in enumerate(draw_cases(law)):
            words = chosen(first, f"draw {text_of(law)} {number}")
            draw = LAWS[law["law"]](law).draw(words)
            cases.append({"words": hexes(words.taken), "draw": draw})
        found.append({"law": law, "cases": cases})
    return found


# Values

VALUES: dict[str, list[Any]] = {
    "count": [0, 1],
    "integer sum": [0, 3, 5],
    "real sum": [-1.0, 0.1, 2.5, 1, 2.4999999999999996, -0.3],
    "real sum without a dither": [-1.0, 0.1, 2.5, 1, 2.4999999999999996, -0.3],
    "histogram": ["yes", "no", 7, "7", "somebody else", 8, 9007199254740991, 'ä "🙂"\\\n'],
    "quantiles": [0.1, 0.7, 0.2, 0.3, 0.4, 0.30000000000000004, 0.25],
    "quantiles of whole numbers": [-3, 0, 1, 2, 20],
    "quantiles of days": ["2024-01-01", "2024-12-31", "2024-04-02"],
    "quantiles of seconds": ["1969-12-31T23:59:59", "1970-01-01T00:00:00"],
    "frequencies": ["a", "ä 🙂", "", "fourteen bytes", "any other text of some length"],
    "frequencies of numbers": [0, 1, 999_999, 123_456, 7],
    "heavy hitters": ["a", "", "zum", "Zürich 42", "日本語", "čaj …", "the end"],
    "histogram with heavy labels": ["b", 7, "7", "a", "ä", "c", "any other"],
    "quantiles on two levels": [0.0, 0.125, 0.99, 1.0],
    "count by group": [["ä", 1], ["", 1], ["", 0]],
    "sparse count by group": [["ä", 1], ["7", 1], ["", 0], ["b", 1]],
    "integer sum by group": [[7, 3], [-1, 1], [0, 0], [0, 2]],
    "real sum by group": [["a", 2.5], ["b", 0.1], ["b", -1], ["a", -0.3]],
    "mean by group": [["7", 10], ["a", 0.1], ["b", 9.999999999999998]],
}
FIRST_WORDS: list[list[int]] = [
    [],
    [ALL_ONES],
    [ALL_ONES, 0],
    [ALL_ONES, ALL_ONES],
    [0] * 4,
    [ALL_ONES, 0, ALL_ONES, ALL_ONES],
    [ALL_ONES] * 4,
]
"""For the first values: any words, and some that mute the first cell, upwards and downwards, with
the largest noise that a muted user draws."""


def values(tasks: dict[str, Task]) -> list[Data]:
    found = []
    for name, task in tasks.items():
        kind = name.partition(",")[0]
        given = VALUES[kind]
        for number in range(max(len(given), len(FIRST_WORDS))):
            value = given[number % len(given)]
            first = FIRST_WORDS[number] if number < len(FIRST_WORDS) else []
            found.append(value_case(name, task, value, first, f"value {name} {number}"))
    return found


def rare_values(tasks: dict[str, Task]) -> list[Data]:
    """A report and an order that are drawn again; a dither that 64 bits leave open."""
    found = []
    task = tasks["count, paper"]
    many = [0, *[ALL_ONES] * 4, 1 << 63, 0, 0]
    found.append(value_case("count, paper", task, 1, many, "drawn again"))
    assert len(found[-1]["words"]) >= 8 + task.report_size + 4, "nothing was drawn again"
    same = tasks["count, bounded"]
    equal = [1 << 40, 1 << 40, 1 << 40, *range(same.report_size - 1), 5]
    found.append(value_case("count, bounded", same, 1, equal, "equal keys"))
    assert len(found[-1]["words"]) == 3 + 2 * same.report_size, "no keys were drawn again"
    for number, tie in enumerate(([0], [ALL_ONES], [ALL_ONES // 3, 0])):
        tied = [ALL_ONES // 3, *tie]  # a third lies between two numbers of 64 bits
        case = value_case(
            "real sum, bounded", tasks["real sum, bounded"], 1.5, tied, f"tie {number}"
        )
        assert case["cells"][-1] == [int(tie == [ALL_ONES]), 0]
        found.append(case)
    return found


def shared_values(tasks: dict[str, Task]) -> list[Data]:
    """Digits that share their way up: any words, and what happens rarely."""
    found = values(tasks)
    for name, task in tasks.items():
        for number, (what, first) in enumerate(recipes(cells_of(task)).items()):
            value = VALUES["real sum"][number % len(VALUES["real sum"])]
            one = value_case(name, task, value, first, f"value {name}, {what}")
            assert len(one["words"]) > len(first), "words were left over"
            found.append({"what": what, **one})
    return found


def value_case(name: str, task: Task, value: Any, first: list[int], words_name: str) -> Data:
    words = chosen(first, words_name)
    sent, numbers = report_numbers(json.loads(task.canonical()), value, words)
    return {
        "task": name,
        "value": value,
        "words": hexes(words.taken),
        "cells": [list(pair) for pair in sent],
        "numbers": numbers,
    }


# Ciphertexts and reports


def ephemeral(name: str, number: int) -> bytes:
    return hashlib.sha256(f"ephemeral {name} {number}".encode()).digest()


def encryption(tasks: dict[str, Task]) -> Data:
    task = tasks["count, bounded"]
    info = info_of(task.id, KEY.to_dict())
    cases = []
    for number in (0, 1, 2, 2**31 - 1, 0xFFFFFFFF):
        secret = ephemeral("case", number)
        message = sealed(number, KEY.raw, info, secret)
        cases.append({"number": number, "ephemeral": secret.hex(), "message": message.hex()})
    return {
        "task": "count, bounded",
        "analyzer_secret": SECRET.hex(),
        "analyzer_key": KEY.to_dict(),
        "info": info.hex(),
        "cases": cases,
    }


def reports(tasks: dict[str, Task], chosen_values: dict[str, Any]) -> list[Data]:
    found = []
    for name, value in chosen_values.items():
        task, token = tasks[name], f"each-vector-{name.partition(',')[0]}"
        words = chosen([], f"report {name}")
        _, numbers = report_numbers(json.loads(task.canonical()), value, words)
        secrets = [ephemeral(name, place) for place in range(task.report_size)]
        info = info_of(task.id, KEY.to_dict())
        messages = [
            sealed(number, KEY.raw, info, secret)
            for number, secret in zip(numbers, secrets, strict=True)
        ]
        half = hashlib.sha256(token.encode()).digest()[:8]
        report_id = half + hashlib.sha256(f"report id {name}".encode()).digest()[:8]
        body = report_bytes(json.loads(task.canonical()), task.id, report_id, messages)
        found.append(
            {
                "task": name,
                "value": value,
                "token": token,
                "authorization": f"Bearer {token}",
                "url": f"{task.shuffler}/tasks/{task.id.hex()}/reports",
                "report_id": report_id.hex(),
                "words": hexes(words.taken),
                "ephemeral": [secret.hex() for secret in secrets],
                "body": body.hex(),
            }
        )
    return found


CANONICAL: list[Data] = [
    {},
    {"b": 1, "a": [True, False, None, -9007199254740991, 9007199254740991, 0]},
    {"Z": "", "a_b": "", "a": "", "A": "", "a1": ""},
    {"text": '" \\ / \b \f \n \r \t \u0000 \u001f \u007f \u2028 é 🙂'},
    {"deep": [[[{"x": {}}]], []]},
]


def canonical() -> list[Data]:
    """Data and its canonical text: hexadecimal digits of its UTF-8."""
    texts = [text_of(data) for data in CANONICAL]
    return [
        {"data": data, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        for data, text in zip(CANONICAL, texts, strict=True)
    ]


def client_vectors() -> Data:
    """Everything in vectors/client.json."""
    tasks, frequent, grouped = make_tasks(), frequency_tasks(), group_tasks()
    sharing = shared_tasks()
    return {
        "format": "shuffledp client vectors 1",
        "note": NOTE,
        "now": BEGIN,
        "canonical": canonical(),
        "tasks": [described(name, task) for name, task in tasks.items()],
        "refused": refused(tasks),
        "draws": draws(),
        "values": [*values(tasks), *rare_values(tasks)],
        "encryption": encryption(tasks),
        "reports": reports(tasks, {"count, bounded": 1, "histogram, paper": "yes"}),
        "proofs": proofs(tasks),
        "frequencies": {
            "tasks": [described(name, task) for name, task in frequent.items()],
            "values": values(frequent),
        },
        "groups": {
            "tasks": [described(name, task) for name, task in grouped.items()],
            "values": values(grouped),
        },
        "shared": {
            "tasks": [described(name, task) for name, task in sharing.items()],
            "refused": shared_refused(sharing),
            "values": shared_values(sharing),
            "reports": reports(sharing, {SHARED: 0.1}),
        },
    }


def file_text(data: Data) -> str:
    """The file's text, with each case on a line of its own."""
    parts = []
    for name, part in data.items():
        lines = part if isinstance(part, list) else [part]
        shown = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        shown = f"[\n{shown}\n]" if isinstance(part, list) else shown
        parts.append(f"{json.dumps(name)}: {shown}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(file_text(client_vectors()), "utf-8")
