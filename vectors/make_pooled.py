"""Writes vectors/pooled.json: pooled cells that are private, and attacks that must be refused;
vectors/pooled_draws.json: what users send for given random words; and vectors/pooled_task.json
and vectors/pooled_levels.json: tasks, in their canonical text.

python vectors/make_pooled.py
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from client_tasks import LABELS, make_task, text_of
from make_sparse import Recorded

from shuffledp import plan_histogram, plan_quantiles
from shuffledp.cells.pooled.cell import PooledBuckets, PooledCell
from shuffledp.cells.pooled.search import search_buckets
from shuffledp.cells.search import CellTarget
from shuffledp.plans.target import laplace_variance

Data = dict[str, Any]
Damage = Callable[[Data], None]
CELLS = {
    # users, buckets, ε, how much the noise may be exceeded, padded
    "few buckets": (1000, 5, "1", "3/2", True),
    "many users": (10**6, 10, "1", "3/2", True),
    "many buckets": (10**4, 100, "1", "3/2", True),
    "planned for averages": (10**4, 10, "1", "3/2", False),
    "two buckets": (500, 2, "1", "3/2", True),
    "two users": (2, 3, "1", "40", True),
    "more buckets than users": (20, 50, "1", "3", True),
    "little budget": (10**4, 4, "1/10", "3/2", True),
    "much budget": (10**4, 10, "5", "3", True),
}
ATTACKED = ("few buckets", "many users", "two users", "more buckets than users")
THOUSANDTH = Fraction(1, 1000)


def planned(name: str) -> PooledCell:
    users, buckets, epsilon, factor, padded = CELLS[name]
    half = Fraction(epsilon) / 2
    target = CellTarget(
        users=users,
        expected=users,
        largest=1,
        up=half,
        down=half,
        mse=laplace_variance(half) * Fraction(factor),
        padded=buckets if padded else 0,
    )
    cell = search_buckets(2 * half, target, None, buckets).cell
    assert isinstance(cell, PooledCell)
    return cell


def entry(name: str, cell: PooledCell) -> Data:
    group = PooledBuckets(cell=cell)
    return {
        "name": name,
        "holds": True,
        "users": cell.users,
        "buckets": cell.buckets,
        "most_messages": group.most_messages,
        "up": str(cell.up.epsilon),
        "down": str(cell.down.epsilon),
        "cell": cell.to_dict(),
    }


def times(side: str, name: str, factor: Fraction) -> Damage:
    """A number of one direction, multiplied."""

    def damage(data: Data) -> None:
        direction = data["cell"][side]
        if name == "odds":
            direction["odds"] = [str(Fraction(direction["odds"][0]) * factor)]
        else:
            direction[name] = str(Fraction(direction[name]) * factor)

    return damage


def put(side: str, **changes: Any) -> Damage:
    return lambda data: data["cell"][side].update(changes)


def shorter(side: str) -> Damage:
    """A noise that is cut one earlier, with the number of messages that follows."""

    def damage(data: Data) -> None:
        direction = data["cell"][side]
        direction["cut"] -= 1
        direction["muted_cut"] = min(direction["muted_cut"], direction["cut"])
        up, down = data["cell"]["up"], data["cell"]["down"]
        below = data["buckets"] * (down["cut"] + down["muted_cut"])
        data["most_messages"] = below + 2 * up["cut"] + 1

    return damage


def twice_the_buckets(data: Data) -> None:
    data["buckets"] *= 2
    data["cell"]["buckets"] *= 2
    down = data["cell"]["down"]
    data["most_messages"] += data["buckets"] // 2 * (down["cut"] + down["muted_cut"])


ATTACKS: dict[str, Damage] = {
    "labels dropped 0.1 % too rarely": times("up", "odds", 1 - THOUSANDTH),
    "labels hardly ever dropped": times("up", "odds", THOUSANDTH),
    "labels never dropped": put("up", odds=["0"]),
    "odds downwards at nine tenths": times("down", "odds", Fraction(9, 10)),
    "a ratio 10 % too small": times("down", "ratio", Fraction(9, 10)),
    "a ratio 0.1 % too small": times("down", "ratio", 1 - THOUSANDTH),
    "a ratio above 1": put("down", ratio="11/10"),
    "noise upwards that falls faster": times("up", "decay", 1 - THOUSANDTH),
    "noise downwards that falls faster": times("down", "decay", 1 - THOUSANDTH),
    "a decay of 1": put("up", decay="1"),
    "a shorter cut upwards": shorter("up"),
    "a shorter cut downwards": shorter("down"),
    "unequal cuts upwards": lambda data: put("up", muted_cut=data["cell"]["up"]["muted_cut"] - 1)(
        data
    ),
    "a ratio upwards": put("up", ratio="1/2"),
    "twice the buckets": twice_the_buckets,
    "one bucket more in the cell alone": lambda data: data["cell"].update(buckets=10**5 + 1),
    "fewer users": lambda data: data.update(users=data["users"] - 1),
    "one message less claimed": lambda data: data.update(most_messages=data["most_messages"] - 1),
    "a smaller loss upwards claimed": lambda data: data.update(up="1/10"),
    "a smaller loss downwards claimed": lambda data: data.update(down="1/10"),
    "a smaller epsilon upwards": times("up", "epsilon", 1 - THOUSANDTH),
    "a smaller epsilon downwards": times("down", "epsilon", 1 - THOUSANDTH),
    "two odds": lambda data: data["cell"]["down"]["odds"].append("1"),
    "a cut that is no whole number": put("up", cut="24"),
    "another kind": lambda data: data["cell"].update(kind="bounded"),
}


def draws() -> list[Data]:
    """What a user sends for given random words; the first word decides whether it is dropped."""
    found = []
    for name in ("few buckets", "two buckets", "two users", "more buckets than users"):
        cell = planned(name)
        group = PooledBuckets(cell=cell)
        edge = int(2**64 / (1 + cell.drop_odds))
        for run in range(10):
            # kept, dropped, at the edge; noise upwards at its largest
            first = ([], [2**64 - 1], [edge - 1], [edge + 1], [0, 2**64 - 1])[run % 5]
            code = (run * 7) % cell.buckets
            entropy = Recorded(f"pooled {name} {run}", first)
            plus, _ = group.randomize(code, entropy)
            found.append(
                {
                    "cell": cell.to_dict(),
                    "code": code,
                    "words": entropy.words_taken,
                    "sent": plus.tolist(),
                }
            )
    return found


def task_texts() -> dict[str, str]:
    """The canonical texts of tasks on pooled cells, by the names of their files."""
    histogram = plan_histogram(
        100, 2, LABELS, other="no", mse_overhead=8, padded=True, cell=PooledCell.kind
    )
    quantiles = plan_quantiles(
        100, 2, (0, 64), bins=64, mse_overhead=8, padded=True, cell=PooledCell.kind
    )
    return {
        "pooled_task": text_of(make_task(histogram.to_dict(), "histogram, pooled").to_dict()),
        "pooled_levels": text_of(make_task(quantiles.to_dict(), "quantiles, pooled").to_dict()),
    }


def main() -> None:
    entries = []
    for name in CELLS:
        whole = entry(name, planned(name))
        entries.append(whole)
        for attack, damage in ATTACKS.items() if name in ATTACKED else ():
            damaged = copy.deepcopy(whole)
            damage(damaged)
            entries.append({**damaged, "name": f"{name}: {attack}", "holds": False})
    text = json.dumps(entries, indent=1, ensure_ascii=False)
    Path(__file__).with_name("pooled.json").write_text(text + "\n", encoding="utf-8")
    text = json.dumps(draws(), indent=1)
    Path(__file__).with_name("pooled_draws.json").write_text(text + "\n", encoding="utf-8")
    for name, text in task_texts().items():
        Path(__file__).with_name(f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
