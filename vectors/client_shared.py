"""The part of vectors/client.json about digits that share their way up: tasks, and words that make
rare things happen."""

from __future__ import annotations

import itertools
import json

from client_tasks import make_task
from naive_laws import Data, F, Law, cut_negative_binomial, finite
from naive_shared import uniform

from shuffledp import certify
from shuffledp.queries.real_sum.digits import SumTask
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp.queries.real_sum.shared_digits import shared_sum
from shuffledp.tasks.task import Task

SHARED, DITHERED = "real sum, shared", "real sum, shared with a dither"
LAST = (1 << 64) - 1


def shared_tasks() -> dict[str, Task]:
    """Three digits, and two with a public dither."""
    found = {}
    for name, radix, dither in ((SHARED, (2, 3, 2), 1), (DITHERED, (3, 2), 4)):
        asked = SumTask(
            users=200,
            expected=200,
            epsilon=F(2),
            mse=F(40),
            padded=True,
            radix=radix,
            dither=dither,
        )
        choice = shared_sum(asked)
        assert choice is not None, name
        protocol = RealSumProtocol(
            epsilon=F(2), digits=choice.cells, low=F(-1), high=F(5, 2), dither=dither
        )
        found[name] = make_task(certify(protocol).to_dict(), name)
    return found


# Values


def word_of(law: Law, k: int) -> int:
    """A word that gives k by itself: in the middle of its interval."""
    begin = int(law.scaled(k - 1, 64)) + 1 if k else 0
    return (begin + int(law.scaled(k, 64)) - 1) // 2


class Recipe:
    """The words that lead a user's draws where a case wants them; a rounding word comes first."""

    def __init__(self, cells: list[Data]) -> None:
        self.cells, self.cut = cells, cells[0]["up"]["cut"]
        self.own = [(at, y) for at, one in enumerate(cells) for y in range(one["largest"])]
        texts = [cells[at]["up"]["odds"][y] for at, y in self.own]
        texts += cells[0]["together"]["stray_odds"]
        self.odds = [F(text) for text in texts]

    def kept(self) -> list[int]:
        return [0]

    def own_jump(self, cell: int, y: int, others: int = 0) -> list[int]:
        """Digit `cell` jumps to y = 1.., the others take this value or their largest one."""
        branch = word_of(finite(self.odds), self.own.index((cell, y - 1)))
        rest = [one for at, one in enumerate(self.cells) if at != cell]
        return [LAST, branch, *(self.uniform(one, others) for one in rest)]

    def stray(self, support: tuple[int, ...], *places: list[int]) -> list[int]:
        """A stray jump of these digits, with these attempts at places 0..Z−1."""
        parts, k = len(support), len(self.cells)
        choices = list(itertools.combinations(range(k), parts))
        words = [LAST, word_of(finite(self.odds), len(self.own) + parts - 2)]
        words.append(word_of(uniform(len(choices)), choices.index(support)))
        words += [word_of(uniform(self.cut), place) for tried in places for place in tried]
        return words + [self.uniform(one, place) for place, one in enumerate(self.cells)]

    def uniform(self, cell: Data, value: int) -> int:
        return word_of(uniform(cell["largest"] + 1), min(value, cell["largest"]))

    def noise(self, *drawn: int) -> list[int]:
        """The noise upwards of each digit."""
        return [
            word_of(
                cut_negative_binomial(F(1, one["users"]), F(one["up"]["decay"]), self.cut), many
            )
            for one, many in zip(self.cells, drawn, strict=True)
        ]

    def down(self, cell: int, y: int | None, noise: int) -> list[int]:
        """The way down of a digit: kept or jump y = 1.., then its noise."""
        one, down = self.cells[cell], self.cells[cell]["down"]
        odds = [F(text) for text in down["odds"]]
        words, cut = [0], down["cut"]
        if y is not None:
            words, cut = [LAST, word_of(finite(odds), y - 1)], down["muted_cut"]
        law = cut_negative_binomial(F(1, one["users"]), F(down["decay"]), cut)
        return [*words, word_of(law, min(noise, cut))]


def recipes(cells: list[Data]) -> dict[str, list[int]]:
    """Words by what they make happen; the first one is that of the rounding."""
    cook = Recipe(cells)
    k, cut, rounding = len(cells), cook.cut, [1 << 40]
    calm = cook.noise(*[0] * k)
    found = {
        "everything is kept": cook.kept() + calm,
        "the largest noise upwards": cook.kept() + cook.noise(cut, *[0] * (k - 1)),
        "noise upwards of Z in two digits": cook.kept()
        + cook.noise(*[0] * (k - 2), cut // 2, cut - cut // 2),
        "noise upwards of Z + 1, drawn again": cook.kept()
        + cook.noise(cut, *[0] * (k - 2), 1)
        + calm,
        "noise upwards drawn again twice": cook.kept()
        + cook.noise(*[cut] * k)
        + cook.noise(*[0] * (k - 2), 1, cut)
        + cook.noise(*[1] * k),
    }
    for cell, one in enumerate(cells):
        for y in range(1, one["largest"] + 1):
            words = cook.own_jump(cell, y, others=y - 1)
            found[f"digit {cell}: own jump {y}"] = words + calm
            quiet = [word for before in range(cell) for word in cook.down(before, None, 0)]
            downwards = cook.down(cell, y, 0)
            found[f"digit {cell}: jump {y} downwards"] = cook.kept() + calm + quiet + downwards
        most = cook.down(cell, one["largest"], 1 << 16)
        quiet = [word for before in range(cell) for word in cook.down(before, None, 1 << 16)]
        found[f"digit {cell}: own jump, largest noise, jump downwards"] = (
            cook.own_jump(cell, one["largest"], others=1 << 16)
            + cook.noise(*[cut * (at == cell) for at in range(k)])
            + quiet
            + most
        )
    for parts in range(2, k + 1):
        for support in itertools.combinations(range(k), parts):
            places = [(cut - 1 - at) if at % 2 == 0 else at for at in range(parts - 1)]
            found[f"stray jump of digits {list(support)}"] = cook.stray(support, places) + calm
    if k > 2:
        same, other = [cut - 1] * (k - 1), [*range(k - 1)]
        again = cook.stray(tuple(range(k)), same, other)
        found["stray jump with equal places, drawn again"] = again + cook.noise(1, *[0] * (k - 1))
    return {name: rounding + words for name, words in found.items()}


def cells_of(task: Task) -> list[Data]:
    found: list[Data] = json.loads(task.canonical())["certificate"]["protocol"]["digits"]
    return found
