"""Cells that share their way up, drawn as docs/protocol.md §7 says, in the plainest way."""

from __future__ import annotations

import itertools

from naive_laws import Data, F, Law, Words, bernoulli, cut_negative_binomial, finite


def uniform(size: int) -> Law:
    return finite([F(1)] * size)


def jump(chance_of: list[F], words: Words) -> int | None:
    """Which of these odds was drawn; None if the value is kept, which has the odds 1."""
    total = sum(chance_of, start=F(0))
    return finite(chance_of).draw(words) if bernoulli(total / (1 + total)).draw(words) else None


def upwards(cells: list[Data], values: list[int], words: Words) -> tuple[list[int], list[int]]:
    """(the values that go down, what is added to each)."""
    cut, k = cells[0]["up"]["cut"], len(cells)
    own = [(cell, y) for cell in range(k) for y in range(1, cells[cell]["largest"] + 1)]
    odds = [F(cells[cell]["up"]["odds"][y - 1]) for cell, y in own]
    branch = jump(odds + [F(text) for text in cells[0]["together"]["stray_odds"]], words)
    added = [0] * k
    if branch is None:
        return values, added
    known: dict[int, int] = {}
    if branch < len(own):
        cell, y = own[branch]
        known[cell], added[cell] = y - 1, cut + 1
    else:
        for cell, part in stray(k, cut, branch - len(own) + 2, words):
            added[cell] = part
    return [
        known[cell] if cell in known else uniform(one["largest"] + 1).draw(words)
        for cell, one in enumerate(cells)
    ], added


def stray(k: int, cut: int, parts: int, words: Words) -> list[tuple[int, int]]:
    choices = list(itertools.combinations(range(k), parts))
    chosen = choices[uniform(len(choices)).draw(words)]
    places = [uniform(cut).draw(words) + 1 for _ in range(parts - 1)]
    while len(set(places)) < len(places):
        places = [uniform(cut).draw(words) + 1 for _ in range(parts - 1)]
    ends = [0, *sorted(places), cut + 1]
    return [(cell, ends[i + 1] - ends[i]) for i, cell in enumerate(chosen)]


def noise_upwards(cells: list[Data], words: Words) -> list[int]:
    cut = cells[0]["up"]["cut"]
    laws = [
        cut_negative_binomial(F(1, cell["users"]), F(cell["up"]["decay"]), cut) for cell in cells
    ]
    noise = [law.draw(words) for law in laws]
    while sum(noise) > cut:
        noise = [law.draw(words) for law in laws]
    return noise


def downwards(cell: Data, value: int, words: Words) -> int:
    """What is left of a value, with all that is sent in any case."""
    down, cut = cell["down"], cell["down"]["cut"]
    branch = jump([F(text) for text in down["odds"]], words)
    if branch is not None:
        value, cut = cell["largest"] - down["cut"] - (branch + 1), down["muted_cut"]
    noise = cut_negative_binomial(F(1, cell["users"]), F(down["decay"]), cut).draw(words)
    return int(down["cut"] + down["muted_cut"] + value - noise)


def shared_cells(held: list[tuple[Data, int]], words: Words) -> list[tuple[int, int]]:
    """How many +1 and −1 each cell sends, given the cells and what they hold."""
    cells = [cell for cell, _ in held]
    values, added = upwards(cells, [value for _, value in held], words)
    noise = noise_upwards(cells, words)
    return [
        (downwards(cell, values[place], words) + added[place] + noise[place], 0)
        for place, cell in enumerate(cells)
    ]
