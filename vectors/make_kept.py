"""Writes vectors/kept.json: sparse cells beside exact ones that are private, and attacks that must
be refused.

python vectors/make_kept.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp.cells.sparse.cell import KeptCell
from shuffledp.cells.sparse.kept_search import KeptTask, plan_kept

Data = dict[str, Any]
Damage = Callable[[Data], None]
CELLS = {
    "few buckets": (1000, 20, "1/2", "1/2", 9, 50),
    "many users": (10**6, 10**4, "1/2", "1/2", 41, 100),
    "as many buckets as users": (10**6, 10**6, "2/5", "3/5", 41, 100),
    "two users": (2, 3, "1", "1/2", 3, 1),
    "one message": (1000, 100, "1/2", "1/2", 1, 100),
}
THOUSANDTH = Fraction(1, 1000)


def planned(users: int, buckets: int, up: str, down: str, messages: int, count: int) -> KeptCell:
    task = KeptTask(
        users=users,
        buckets=buckets,
        up=Fraction(up),
        down=Fraction(down),
        expected=users,
        count=count,
    )
    return plan_kept(task, messages)


def entry(name: str, cell: KeptCell) -> Data:
    return {
        "name": name,
        "holds": True,
        "users": cell.users,
        "buckets": cell.buckets,
        "most_messages": cell.most_messages,
        "up": str(cell.up),
        "down": str(cell.down),
        "cell": cell.to_dict(),
    }


def moved(name: str, part: Fraction) -> Damage:
    """A part of one branch's chance goes to the data branch."""

    def damage(data: Data) -> None:
        cell = data["cell"]
        lost = Fraction(cell[name]) * part
        cell[name] = str(Fraction(cell[name]) - lost)
        cell["data"] = str(Fraction(cell["data"]) + lost)

    return damage


def times(name: str, factor: Fraction) -> Damage:
    return lambda data: data["cell"].update({name: str(Fraction(data["cell"][name]) * factor)})


def put(**changes: Any) -> Damage:
    return lambda data: data["cell"].update(changes)


def shorter(data: Data) -> None:
    data["cell"]["cut"] -= 1
    data["most_messages"] -= 2


def wider(data: Data) -> None:
    data["cell"]["buckets"] *= 2
    data["buckets"] *= 2


ATTACKS: dict[str, Damage] = {
    "jumps 0.1 % too rarely": moved("jump", THOUSANDTH),
    "no jumps": moved("jump", Fraction(1)),
    "half of the muted send their value": moved("muted", Fraction(1, 2)),
    "noise that falls faster": times("decay", 1 - THOUSANDTH),
    "a decay of 1": put(decay="1"),
    "a shorter cut": shorter,
    "twice the buckets": wider,
    "one bucket more in the cell alone": lambda data: put(buckets=data["buckets"] + 1)(data),
    "one message less claimed": lambda data: data.update(most_messages=data["most_messages"] - 1),
    "the messages of a cell that drops its noise": lambda data: data.update(
        most_messages=data["cell"]["cut"] + 1
    ),
    "a smaller loss upwards": times("up", 1 - THOUSANDTH),
    "a smaller loss upwards claimed": lambda data: data.update(up="1/10"),
    "a smaller loss downwards claimed": lambda data: data.update(down="1/10"),
    "fewer users": lambda data: data.update(users=data["users"] - 1),
    "chances that do not add up to 1": times("muted", 1 + THOUSANDTH),
    "a negative chance": moved("muted", Fraction(2)),
    "a cut that is no whole number": put(cut="24"),
}


def main() -> None:
    entries = []
    for name, numbers in CELLS.items():
        good = entry(name, planned(*numbers))
        entries.append(good)
        for attack, damage in ATTACKS.items() if name != "one message" else ():
            damaged = copy.deepcopy(good)
            damage(damaged)
            entries.append({**damaged, "name": f"{name}: {attack}", "holds": False})
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("kept.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
