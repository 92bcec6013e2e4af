"""Writes vectors/bounded.json: bounded cells that are private, and attacks that must be refused.

python vectors/make_bounded.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from shuffledp.cells.bounded.cell import BoundedCell, Direction
from shuffledp.cells.bounded.search import Side, cheapest_bounded_cell
from shuffledp.cells.search import CellTarget
from shuffledp.numbers.exact import round_to
from shuffledp.plans.target import laplace_variance

Data = dict[str, Any]
CELLS = {
    "count": (10**4, 1, "1", "1"),
    "count of few": (100, 1, "1", "1"),
    "count of a trillion": (10**12, 1, "1", "1"),
    "count with little budget": (10**6, 1, "1/10", "1/10"),
    "bucket": (10**4, 1, "2/5", "3/5"),
    "integers": (10**4, 5, "1", "1"),
    "digit": (10**4, 15, "1/2", "1/2"),
    "two users": (2, 1, "1", "1"),
}


def direction(side: Direction) -> Data:
    return {
        "epsilon": str(side.epsilon),
        "decay": str(side.decay),
        "cut": side.cut,
        "muted_cut": side.muted_cut,
        "odds": [str(odds) for odds in side.odds],
        **({"ratio": str(side.ratio)} if side.ratio < 1 else {}),
    }


def entry(name: str, cell: BoundedCell, up: Fraction, down: Fraction) -> Data:
    sides = {"up": direction(cell.up), "down": direction(cell.down)}
    data = {"kind": "bounded", "users": cell.users, "largest": cell.largest, **sides}
    claims = {"users": cell.users, "most_messages": cell.most_messages}
    return {"name": name, "holds": True, "up": str(up), "down": str(down), **claims, "cell": data}


def in_side(side: str, damage: Callable[[Data], None]) -> Callable[[Data], None]:
    return lambda data: damage(data["cell"][side])


def lower_last_digit(data: Data) -> None:
    """One unit of the twelfth digit off the decay."""
    data["decay"] = str(Fraction(data["decay"]) - Fraction(1, 10**12))


def lower_odds(data: Data) -> None:
    less = 1 - Fraction(1, 10**6)
    data["odds"] = [str(Fraction(odds) * less) for odds in data["odds"]]


def scale_odds(data: Data, factor: Fraction) -> None:
    """The odds of both directions, so that users of both values are still muted equally often."""
    for side in ("up", "down"):
        odds = data["cell"][side]["odds"]
        data["cell"][side]["odds"] = [str(Fraction(one) * factor) for one in odds]


def lower_ratios(data: Data) -> None:
    """κ a tenth too small in both directions, with odds that are large enough for it."""
    for side in ("up", "down"):
        ratio = Fraction(data["cell"][side]["ratio"]) * Fraction(9, 10)
        data["cell"][side]["ratio"] = str(ratio)
    scale_odds(data, Fraction(2))


def unequal_totals(data: Data) -> None:
    """Larger odds in one direction alone, so that the totals of the two values differ."""
    odds = data["cell"]["up"]["odds"]
    data["cell"]["up"]["odds"] = [str(Fraction(one) * Fraction(11, 10)) for one in odds]


def for_any_value(cell: BoundedCell) -> BoundedCell:
    """Longer cuts with odds that do not depend on the value: what was planned before 0.3."""

    def side(given: Direction) -> Direction:
        cut, muted_cut = given.cut + 1, given.muted_cut + 1
        muting = Side(cell.users, 1, float(given.decay), cut + 4).muting(cut, muted_cut)
        assert muting is not None
        odds = round_to(muting.first_odds * (1 + 1e-8), 10, up=True)
        return replace(given, cut=cut, muted_cut=muted_cut, odds=(odds,), ratio=Fraction(1))

    return replace(cell, up=side(cell.up), down=side(cell.down))


def shorter(name: str) -> Callable[[Data], None]:
    def damage(data: Data) -> None:
        data[name] -= 1

    return damage


def shorter_everywhere(data: Data) -> None:
    """One less in a cut, and in the claim as well."""
    data["cell"]["up"]["cut"] -= 1
    data["most_messages"] -= 1


def two_users(data: Data) -> None:
    data["users"] = data["cell"]["users"] = 2


ATTACKS: dict[str, Callable[[Data], None]] = {
    "decay one unit too small, up": in_side("up", lower_last_digit),
    "decay one unit too small, down": in_side("down", lower_last_digit),
    "odds a millionth too small, up": in_side("up", lower_odds),
    "odds a millionth too small, down": in_side("down", lower_odds),
    "cut one less": shorter_everywhere,
    "cut one less, the same claim": in_side("down", shorter("cut")),
    "muted cut one less": in_side("down", shorter("muted_cut")),
    "odds missing": in_side("down", lambda data: data.update(odds=[])),
    "odds of 0": in_side("up", lambda data: data.update(odds=["0"] * len(data["odds"]))),
    "too few users": two_users,
    "another number of users": lambda data: data.update(users=10**9),
    "fewer messages claimed": lambda data: data.update(most_messages=data["most_messages"] - 1),
    "longer cut, the same claim": lambda data: data["cell"]["up"].update(
        cut=data["cell"]["up"]["cut"] + 1
    ),
    "smaller loss allowed": lambda data: data.update(down="1/20"),
    "smaller loss claimed": in_side("up", lambda data: data.update(epsilon="1/20")),
    "no noise": in_side("up", lambda data: data.update(decay="0")),
}


BY_VALUE_ATTACKS: dict[str, Callable[[Data], None]] = {
    "ratio a tenth too small": lower_ratios,
    "ratio of 0": in_side("up", lambda data: data.update(ratio="0")),
    "ratio above 1": in_side("up", lambda data: data.update(ratio="11/10")),
    "no ratio in one direction": in_side("up", lambda data: data.pop("ratio")),
    "unequal totals": unequal_totals,
    "odds at 0.9 of the rule": lambda data: scale_odds(data, Fraction(9, 10)),
}


def main() -> None:
    entries = []
    for name, (users, largest, up, down) in CELLS.items():
        losses = Fraction(up), Fraction(down)
        mse = Fraction(3, 2) * laplace_variance((losses[0] + losses[1]) / 2 / largest)
        task = CellTarget(
            users=users,
            expected=users,
            largest=largest,
            up=losses[0],
            down=losses[1],
            mse=mse,
            padded=1,
        )
        cell = cheapest_bounded_cell(task)
        whole = entry(name, cell, *losses)
        entries.append(whole)
        if name == "count":
            entries.append(entry("count with odds for any value", for_any_value(cell), *losses))
        attacks = ATTACKS if name in ("count", "integers") else {}
        for attack, damage in (attacks | (BY_VALUE_ATTACKS if name == "count" else {})).items():
            damaged = copy.deepcopy(whole)
            damage(damaged)
            entries.append(damaged | {"name": f"{name}: {attack}", "holds": False})
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("bounded.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
