"""`make coverage`: what its tests printed, as the tables of docs/coverage.md.

    python scripts/coverage_table.py LOG [LOG …]

A table whose lines are in none of the logs stays as it is.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "coverage.md"
ANSWER = re.compile(
    r"\.?(?P<query>[a-z-]+) (?P<users>\d+) ε=\S+ [a-z ]+: coverage (?P<held>[\d.]+), "
    r"RMSE (?P<rmse>\S+) of (?P<said>\S+) said, bias (?P<bias>[+-][\d.]+) standard errors"
)
WORSE = re.compile(r"\| [\d,]+ \| [\d.]+ \| \d+ \| [a-z ]+ \| [\d.]+: .* \|")
BOUND = re.compile(
    r"\| \d+ \| [\d.]+ \| \d+ \| [a-z ]+ \| [\d.]+ \| [^|]+ \| [\d. +]+ \| [\d.]+ \|"
)
QUANTILES: dict[str, str] = {
    "coverage, mean over all cells": r"quantiles: .*coverage ([\d.]+),",
    "coverage, least of all cells": r"quantiles: .*least ([\d.]+)",
    "root mean squared bias, version 0.1": r"bias ([\d.]+) before",
    "root mean squared bias, now": r"before, ([\d.]+) now",
    "RMSE relative to version 0.1, geometric mean": r"\(geometric\) ([\d.]+) times",
    "cells whose RMSE is more than 3 % above version 0.1's": r"estimator's in (\d+) cells",
    "… at most": r"at most\s+([\d.]+ times); on average",
    "… without the mean over a little more noise": r"without smoothing (\d+) cells",
    "root mean squared bias without it": r"times, bias ([\d.]+); with it",
    "RMSE, mean over all cells": r"mean RMSE is ([\d.]+) instead",
    "… without the mean over a little more noise, again": r"instead of ([\d.]+),",
    "cells that it makes more than 3 % worse, and how much at most": (
        r"in (\d+ cells more than 3 % larger \(at most [\d.]+ times\))"
    ),
    "cells that it makes more than 3 % better": r"in (\d+) more than 3 % smaller",
}
"""What the tests print about all cells together, and how the table says it."""


def answers(log: str) -> list[str]:
    """A line for each query: how often intervals held, and measured errors beside those said."""
    found = list(ANSWER.finditer(log))
    lines = []
    for query in dict.fromkeys(one["query"] for one in found):
        cases = [one for one in found if one["query"] == query]
        held = [float(one["held"]) for one in cases]
        bias = max(abs(float(one["bias"])) for one in cases)
        ratios = [
            _mean_ratio([one for one in cases if one["users"] == users])
            for users in dict.fromkeys(one["users"] for one in cases)
        ]
        numbers = [f"{sum(held) / len(held):.3f}", f"{min(held):.3f}", f"{bias:.1f}"]
        numbers += [f"{ratio:.2f}" for ratio in ratios]
        lines.append(f"| {query} | {len(cases)} | {' | '.join(numbers)} |")
    return lines


def _mean_ratio(cases: list[re.Match[str]]) -> float:
    """The geometric mean of measured over said errors."""
    logs = [math.log(float(one["rmse"]) / float(one["said"])) for one in cases]
    return math.exp(sum(logs) / len(logs))


def quantiles(log: str) -> list[str]:
    """What was measured over all cells."""
    found = ((name, re.search(pattern, log)) for name, pattern in QUANTILES.items())
    return [f"| {name.removesuffix(', again')} | {one[1]} |" for name, one in found if one]


def replaced(page: str, name: str, lines: list[str]) -> str:
    """The page with the rows of one table replaced, unless there are none."""
    begin, end = f"<!-- {name}: written by make coverage -->\n", "<!-- end -->"
    before, found, rest = page.partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"{PAGE} has no table {name}.")
    table, _, after = rest.partition(end)
    if lines:
        table = "\n".join([*table.splitlines()[:3], *lines]) + "\n\n"
    return before + begin + table + end + after


def main() -> None:
    """Writes the tables."""
    log = "\n".join(Path(name).read_text() for name in sys.argv[1:])
    page = PAGE.read_text()
    page = replaced(page, "answers", answers(log))
    page = replaced(page, "quantiles", quantiles(log))
    page = replaced(page, "worse", WORSE.findall(log))
    page = replaced(page, "bound", sorted(BOUND.findall(log)))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
