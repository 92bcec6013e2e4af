"""Writes vectors/shared.json: cells that share their way up and are private, and attacks that must
be refused.

python vectors/make_shared.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from make_bounded import lower_last_digit, lower_odds

from shuffledp.cells.digits.cell import SharedCell
from shuffledp.queries.real_sum.digits import SumTask
from shuffledp.queries.real_sum.shared_digits import shared_sum

Data = dict[str, Any]
Damage = Callable[[Data], None]
MILLIONTH = 1 - Fraction(1, 10**6)
GROUPS = {
    "two digits": (100, "1", 8, (3, 2)),
    "three digits": (10**4, "1", 8, (3, 3, 2)),
    "five bits": (10**6, "2", 40, (2, 2, 2, 2, 2)),
    "much budget": (1000, "8", 8, (2, 2)),
    "little budget": (10**4, "1/5", 90, (2, 2)),
}
ATTACKED = ("two digits", "three digits")


def entry(name: str, cells: Sequence[SharedCell]) -> Data:
    return {
        "name": name,
        "holds": True,
        "users": cells[0].users,
        "most_messages": SharedCell.most_together(cells),
        "losses": [str(cell.up.epsilon) for cell in cells],
        "cells": [cell.to_dict() for cell in cells],
    }


def in_cell(number: int, side: str, damage: Damage) -> Damage:
    return lambda data: damage(data["cells"][number][side])


def in_all(side: str, damage: Damage) -> Damage:
    def everywhere(data: Data) -> None:
        for cell in data["cells"]:
            damage(cell[side])

    return everywhere


def fitted(damage: Damage) -> Damage:
    """The damage, after which every cell is told the truth about the others' odds."""

    def and_told(data: Data) -> None:
        damage(data)
        sums = [sum(map(Fraction, cell["up"]["odds"])) for cell in data["cells"]]
        for cell, own in zip(data["cells"], sums, strict=True):
            cell["together"]["other_odds"] = str(sum(sums) - own)

    return and_told


def scale_stray(which: slice, factor: Fraction) -> Damage:
    def damage(together: Data) -> None:
        stray = together["stray_odds"]
        stray[which] = [str(Fraction(odds) * factor) for odds in stray[which]]

    return damage


def others_as_one(data: Data) -> None:
    """Odds that would do if the other cells had one value only; the cells say so."""
    for cell in data["cells"]:
        known, up = cell["together"], cell["up"]
        up["odds"] = [str(Fraction(odds) / known["others"]) for odds in up["odds"]]
        known["others"] = 1


def odds_for_one(data: Data) -> None:
    """The same, but the cells say how many values the others have."""
    others = [cell["together"]["others"] for cell in data["cells"]]
    others_as_one(data)
    for cell, number in zip(data["cells"], others, strict=True):
        cell["together"]["others"] = number


def least_decay(data: Data) -> None:
    """The smallest decay of all cells instead of the largest."""
    least = min((cell["up"]["decay"] for cell in data["cells"]), key=Fraction)
    for cell in data["cells"]:
        cell["together"]["decay"] = least


def shorter_together(data: Data) -> None:
    """One less in all cuts upwards, and the right claim."""
    for cell in data["cells"]:
        cell["up"]["cut"] -= 1
        cell["up"]["muted_cut"] -= 1
    data["most_messages"] -= 2


def without_a_digit(data: Data) -> None:
    gone = data["cells"].pop()
    data["losses"].pop()
    data["most_messages"] -= gone["down"]["cut"] + gone["down"]["muted_cut"] + gone["largest"]


def other_users(data: Data) -> None:
    data["users"] = 2
    for cell in data["cells"]:
        cell["users"] = 2


def as_bounded(data: Data) -> None:
    data["cells"][-1]["kind"] = "bounded"
    del data["cells"][-1]["together"]


def less(name: str, by: int = 1) -> Damage:
    return lambda data: data.update({name: data[name] - by})


ATTACKS: dict[str, Damage] = {
    "own odds a millionth too small": fitted(in_cell(0, "up", lower_odds)),
    "own odds of the last cell a millionth too small": fitted(in_cell(-1, "up", lower_odds)),
    "odds downwards a millionth too small": in_cell(-1, "down", lower_odds),
    "one stray odds a millionth too small": in_all("together", scale_stray(slice(0, 1), MILLIONTH)),
    "the last stray odds a millionth too small": in_all(
        "together", scale_stray(slice(-1, None), MILLIONTH)
    ),
    "stray odds of one cell larger": in_cell(0, "together", scale_stray(slice(0, 1), Fraction(2))),
    "no stray odds": in_all("together", lambda data: data.update(stray_odds=[])),
    "stray odds of 0": in_all("together", scale_stray(slice(None), Fraction(0))),
    "one stray odds too many": in_all("together", lambda data: data["stray_odds"].append("1")),
    "others taken as one": fitted(others_as_one),
    "odds for one combination of the others": fitted(odds_for_one),
    "others one less": in_cell(0, "together", less("others")),
    "others of 0": in_cell(0, "together", lambda data: data.update(others=0)),
    "the least decay instead of the largest": least_decay,
    "decay of the group too small": in_all("together", lower_last_digit),
    "decay of the group of 1": in_all("together", lambda data: data.update(decay="1")),
    "other odds too small": in_cell(
        0, "together", lambda data: data.update(other_odds=data["stray_odds"][0])
    ),
    "other odds not fitted": in_cell(
        0, "up", lambda data: data.update(odds=["1"] * len(data["odds"]))
    ),
    "one cell only": in_all("together", lambda data: data.update(cells=1, stray_odds=[])),
    "one cell more": in_all("together", lambda data: data.update(cells=data["cells"] + 1)),
    "unequal cuts": in_cell(0, "up", less("muted_cut")),
    "cuts that differ between cells": in_cell(
        0, "up", lambda data: data.update(cut=data["cut"] + 1, muted_cut=data["cut"] + 1)
    ),
    "cuts one less": shorter_together,
    "cuts one less, the same claim": in_all(
        "up", lambda data: data.update(cut=data["cut"] - 1, muted_cut=data["cut"] - 1)
    ),
    "cuts below the number of cells": in_all("up", lambda data: data.update(cut=1, muted_cut=1)),
    "odds upwards missing": in_cell(0, "up", lambda data: data.update(odds=[])),
    "odds downwards missing": in_cell(0, "down", lambda data: data.update(odds=[])),
    "decay upwards one unit too small": in_cell(0, "up", lower_last_digit),
    "decay downwards one unit too small": in_cell(0, "down", lower_last_digit),
    "smaller loss claimed": in_cell(0, "up", lambda data: data.update(epsilon="1/20")),
    "smaller loss allowed": lambda data: data["losses"].__setitem__(0, "1/20"),
    "muted cut downwards one less": in_cell(0, "down", less("muted_cut")),
    "a digit left out": without_a_digit,
    "a digit twice": lambda data: data["cells"].__setitem__(1, data["cells"][0]),
    "a bounded cell among them": as_bounded,
    "too few users": other_users,
    "users that differ between cells": lambda data: data["cells"][0].update(users=10**9),
    "another number of users": lambda data: data.update(users=10**9),
    "fewer messages claimed": less("most_messages"),
}


def main() -> None:
    entries = []
    for name, (users, epsilon, rmse, radix) in GROUPS.items():
        task = SumTask(
            users=users,
            expected=users,
            epsilon=Fraction(epsilon),
            mse=Fraction(rmse) ** 2,
            relative=None,
            padded=True,
            radix=radix,
            dither=1,
        )
        choice = shared_sum(task)
        if choice is None:
            raise SystemExit(f"No cells were found for {name!r}.")
        cells = [cell for cell in choice.cells if isinstance(cell, SharedCell)]
        whole = entry(name, cells)
        entries.append(whole)
        for attack, damage in ATTACKS.items() if name in ATTACKED else ():
            damaged = copy.deepcopy(whole)
            damage(damaged)
            entries.append(damaged | {"name": f"{name}: {attack}", "holds": False})
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("shared.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
