"""Writes vectors/sparse.json: sparse cells that are private, and attacks that must be refused; and
vectors/sparse_draws.json: what users send for given random words.

python vectors/make_sparse.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp import SeededEntropy
from shuffledp.cells.sparse.cell import SparseBuckets, SparseCell
from shuffledp.cells.sparse.search import plan_sparse
from shuffledp.numbers.entropy import Entropy

Data = dict[str, Any]
Damage = Callable[[Data], None]
CELLS = {
    "few buckets": (1000, 20, "1", 8, 50),
    "many users": (10**6, 10**4, "1", 25, 1000),
    "as many buckets as users": (10**6, 10**6, "1", 25, 100),
    "more buckets than users": (100, 5000, "2", 12, 10),
    "one bucket": (500, 1, "1", 10, 100),
    "two users": (2, 3, "1", 3, 1),
    "one message": (1000, 100, "1", 1, 100),
    "little budget": (10**5, 1000, "1/10", 45, 1000),
    "much budget": (10**4, 100, "5", 25, 10),
}
ATTACKED = ("few buckets", "many users", "as many buckets as users", "two users")


def entry(name: str, cell: SparseCell) -> Data:
    return {
        "name": name,
        "holds": True,
        "users": cell.users,
        "buckets": cell.buckets,
        "most_messages": cell.most_messages,
        "epsilon": str(cell.epsilon),
        "cell": cell.to_dict(),
    }


def moved(name: str, part: Fraction) -> Damage:
    """A part of one branch's chance goes to the data branch: the three still add up to 1."""

    def damage(data: Data) -> None:
        cell = data["cell"]
        lost = Fraction(cell[name]) * part
        cell[name] = str(Fraction(cell[name]) - lost)
        cell["data"] = str(Fraction(cell["data"]) + lost)

    return damage


def put(**changes: Any) -> Damage:
    return lambda data: data["cell"].update(changes)


def added(name: str, more: int) -> Damage:
    """Another whole number, everywhere in the entry."""

    def damage(data: Data) -> None:
        data["cell"][name] += more
        if name in data:
            data[name] += more

    return damage


def shorter(data: Data) -> None:
    data["cell"]["cut"] -= 1
    data["most_messages"] -= 1


def planned_for(more_users: int, more_buckets: int) -> Damage:
    """The chances of a cell for other numbers: its urn has other weights."""

    def damage(data: Data) -> None:
        cell = data["cell"]
        other = plan_sparse(
            max(1, cell["users"] * (100 + more_users) // 100),
            max(1, cell["buckets"] * (100 + more_buckets) // 100),
            cell["epsilon"],
            max_messages=data["most_messages"],
            error_at=50,
        ).to_dict()
        data["cell"] = {**other, "users": cell["users"], "buckets": cell["buckets"]}

    return damage


THOUSANDTH = Fraction(1, 1000)
ATTACKS: dict[str, Damage] = {
    "muted 0.1 % too rarely": moved("muted", THOUSANDTH),
    "jumps 0.1 % too rarely": moved("jump", THOUSANDTH),
    "hardly any jumps": moved("jump", 1 - THOUSANDTH),
    "no jumps": lambda data: moved("jump", Fraction(1))(data),
    "a smaller share of the jumps": lambda data: put(
        share=str(Fraction(data["cell"]["share"]) * (1 - THOUSANDTH))
    )(data),
    "a larger share of the jumps": lambda data: put(
        share=str((Fraction(data["cell"]["share"]) + 1) / 2)
    )(data),
    "a share above 1": put(share="19/10"),
    "a share of 0": put(share="0"),
    "a decay of 1": put(decay="1"),
    "noise that falls faster": lambda data: put(
        decay=str(Fraction(data["cell"]["decay"]) * (1 - THOUSANDTH))
    )(data),
    "a shorter cut": shorter,
    "one message less claimed": lambda data: data.update(most_messages=data["most_messages"] - 1),
    "twice the buckets": lambda data: added("buckets", data["cell"]["buckets"])(data),
    "one bucket more in the cell alone": put(buckets=10**6 + 1),
    "fewer users": lambda data: data.update(users=data["users"] - 1),
    "an urn for half the buckets": planned_for(0, -50),
    "a smaller epsilon": put(epsilon="999/1000"),
    "a smaller epsilon claimed": lambda data: data.update(epsilon="1/2"),
    "chances that do not add up to 1": lambda data: put(
        muted=str(Fraction(data["cell"]["muted"]) + THOUSANDTH)
    )(data),
    "a negative chance": lambda data: moved("muted", Fraction(2))(data),
    "a cut that is no whole number": put(cut="24"),
}


class Recorded(Entropy):
    """Words of a fixed generator, written down as they are taken; the first ones may be given."""

    def __init__(self, seed: str, first: Sequence[int]) -> None:
        super().__init__()
        self.words_taken: list[str] = []
        self._source, self._first = SeededEntropy(seed), list(first)

    def bits(self, count: int) -> int:
        assert count == 64
        word = self._first.pop(0) if self._first else self._source.bits(64)
        self.words_taken.append(f"{word:016x}")
        return word


def draws() -> list[Data]:
    """What a user sends for given random words; the first word decides about the branch."""
    found = []
    for name in ("few buckets", "more buckets than users", "two users", "one message"):
        users, buckets, epsilon, messages, count = CELLS[name]
        cell = plan_sparse(users, buckets, epsilon, max_messages=messages, error_at=count)
        group = SparseBuckets(cell=cell)
        edge = int(cell.data * 2**64)
        for run in range(12):
            first = ([], [2**64 - 1], [edge], [edge - 1, 2**64 - 1])[run % 4]
            code = (run * 7) % buckets
            entropy = Recorded(f"{name} {run}", first)
            tokens = group.tokens(code, entropy)
            found.append(
                {
                    "cell": cell.to_dict(),
                    "code": code,
                    "words": entropy.words_taken,
                    "tokens": tokens,
                }
            )
    return found


def main() -> None:
    entries = []
    for name, (users, buckets, epsilon, messages, count) in CELLS.items():
        cell = plan_sparse(users, buckets, epsilon, max_messages=messages, error_at=count)
        entries.append(entry(name, cell))
        for attack, damage in ATTACKS.items() if name in ATTACKED else ():
            damaged = copy.deepcopy(entries[-1] if entries[-1]["holds"] else entry(name, cell))
            damage(damaged)
            entries.append({**damaged, "name": f"{name}: {attack}", "holds": False})
    # the inequalities hold literally, and the cell is not private: φ must be at most 1
    wide = {
        "kind": "sparse", "users": 2, "buckets": 2, "epsilon": "1", "decay": "9/10", "cut": 1,
        "share": "19/10", "data": "7/100", "muted": "909/1000", "jump": "21/1000",
    }  # fmt: skip
    entries.append(
        {
            **{"name": "two users: a share of 1.9 that both inequalities accept", "holds": False},
            **{"users": 2, "buckets": 2, "most_messages": 2, "epsilon": "1", "cell": wide},
        }
    )
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("sparse.json").write_text(text + "\n", encoding="utf-8")
    text = json.dumps(draws(), indent=1)
    Path(__file__).with_name("sparse_draws.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
