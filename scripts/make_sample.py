"""Writes commute.csv: 10,000 made-up people, how they get to work and how long it takes.

The numbers come from a hash of the row number, so that everybody makes the same file; no real
person is behind any of them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

ROWS = 10_000
WAYS = [
    ("walk", 0.14, 18),
    ("bike", 0.27, 24),
    ("bus", 0.19, 38),
    ("train", 0.16, 52),
    ("car", 0.24, 31),
]


def uniform(row: int, what: str) -> float:
    """A number in [0, 1) from a hash of the row and of what it is for."""
    digest = hashlib.sha256(f"{what} {row}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def person(row: int) -> str:
    """One line of the file."""
    place, number = uniform(row, "way"), 0
    while number < len(WAYS) - 1 and place >= WAYS[number][1]:
        place -= WAYS[number][1]
        number += 1
    way, _, minutes = WAYS[number]
    spread = sum(uniform(row, f"minutes {k}") for k in range(4)) / 2
    time = round(min(minutes * spread, 120.0), 1)
    return f"{int(way == 'bike')},{way},{time}\n"


def main() -> None:
    """Writes the file into the package."""
    lines = ["bikes,way,minutes\n", *(person(row) for row in range(ROWS))]
    (Path(__file__).parents[1] / "src/shuffledp/samples/commute.csv").write_text(
        "".join(lines), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
