"""Makes docs/figures/*.png and the tables of docs/rivals.md from code.

python scripts/figures.py            all pictures
python scripts/figures.py --tables   rewrites the tables between the marks in docs/rivals.md
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

from shuffledp.cli.compare import cells_of, number
from shuffledp.plots.results import comparison as plots_compare
from shuffledp.rivals import Task
from shuffledp.rivals.table import Table, compare

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEADINGS = ("protocol", "RMSE", "over central", "messages", "bits per user", "privacy", "trust")

TASKS = {
    "count": Task.of(10_000, 1, "1e-6"),
    "sum": Task.of(10_000, 1, "1e-6"),
    "histogram": Task.of(10_000, 1, "1e-6", 16),
}

WHEN: dict[str, list[tuple[str, str]]] = {
    "count": [
        ("Someone may see all raw values", "central"),
        ("Nobody is trusted at all", "local"),
        ("A shuffler, pure ε, almost the central error", "ours-0.5"),
        ("A shuffler, pure ε, few messages", "ours-8"),
        ("A shuffler, pure ε, below one message, and few users hold a 1", "thinning"),
        ("A shuffler, pure ε, the same number of messages from everybody", "ggkmpv20"),
        ("A shuffler, δ > 0 is acceptable", "gkmp20"),
        ("A shuffler, δ > 0, exactly one bit from everybody", "csuzz19"),
    ],
    "sum": [
        ("Someone may see all raw values", "central"),
        ("Nobody is trusted at all", "local"),
        ("A shuffler, pure ε", "ours-8"),
        ("A shuffler, δ > 0 is acceptable", "bbgn20"),
        ("A shuffler, δ > 0, exactly one message", "bbgn19"),
    ],
    "histogram": [
        ("Someone may see all raw values", "central"),
        ("Nobody is trusted at all", "local-hadamard"),
        ("A shuffler, pure ε", "ours-0.5"),
        ("A shuffler, pure ε, below one message, and buckets are small", "thinning"),
        ("A shuffler, δ > 0 is acceptable", "gkmp20"),
        ("A shuffler, δ > 0, almost one message, or very many buckets", "lwy22"),
    ],
}


def markdown(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    heads = list(headings)
    lines = [heads, ["---"] * len(heads), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def which_when(tables: dict[str, Table]) -> str:
    """The table "which protocol when", its numbers taken from the comparisons."""
    rows = []
    for query, cases in WHEN.items():
        for case, name in cases:
            row = tables[query].row(name)
            assert row is not None, name
            forecast = row.forecast
            error, cost = number(forecast.rmse), number(forecast.messages_per_user)
            rows.append((query, case, row.title, error, cost, row.privacy))
    return markdown(("query", "your situation", "protocol", "RMSE", "messages", "privacy"), rows)


def blocks(queries: Iterable[str] = tuple(TASKS)) -> dict[str, str]:
    """Every generated part of docs/rivals.md by the name of its mark."""
    tables = {query: compare(query, TASKS[query]) for query in queries}
    made = {
        query: markdown(HEADINGS, (cells_of(row) for row in table.rows))
        for query, table in tables.items()
    }
    if set(tables) == set(TASKS):
        made["when"] = which_when(tables)
    return made


def marks(name: str) -> re.Pattern[str]:
    """The marks of a generated part, and what stands between them."""
    return re.compile(rf"(<!-- {name}: [^\n]* -->\n)(.*?)(\n<!-- end {name} -->)", re.DOTALL)


def marked(text: str, name: str) -> str:
    """What stands between a name's marks."""
    found = marks(name).search(text)
    assert found is not None, name
    return found.group(2)


def write_tables(path: Path) -> None:
    """Rewrites the parts between marks."""
    text = path.read_text(encoding="utf-8")
    for name, block in blocks().items():
        text = marks(name).sub(lambda found, block=block: found[1] + block + found[3], text)
    path.write_text(text, encoding="utf-8")


def draw(folder: Path) -> None:
    """All pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for query, task in TASKS.items():
        plots_compare.frontier(compare(query, task), str(folder / f"frontier-{query}.png"))
        print(folder / f"frontier-{query}.png")
    for over in ("users", "epsilon"):
        plots_compare.scaling("count", TASKS["count"], over, str(folder / f"scaling-{over}.png"))
        print(folder / f"scaling-{over}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="rewrite docs/rivals.md instead")
    if parser.parse_args().tables:
        write_tables(DOCS / "rivals.md")
    else:
        draw(DOCS / "figures")


if __name__ == "__main__":
    main()
