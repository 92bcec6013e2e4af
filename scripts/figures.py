"""Makes docs/figures/*.png and the tables of docs/baselines.md from code.

python scripts/figures.py            draws all pictures
python scripts/figures.py --tables   rewrites the tables between the marks in docs/baselines.md
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from document_blocks import steps

from shuffledp.baselines import Setting
from shuffledp.baselines.base import QueryName
from shuffledp.baselines.table import Table, compare
from shuffledp.cli.compare import cells_of, number
from shuffledp.plots.frontier import frontier
from shuffledp.plots.scaling import scaling

DOCS = Path(__file__).resolve().parent.parent / "docs"
HEADINGS = ("protocol", "RMSE", "over central", "messages", "bits per user", "privacy", "trust")

SETTINGS: dict[QueryName, Setting] = {
    "count": Setting.of(10_000, 1, "1e-6"),
    "real-sum": Setting.of(10_000, 1, "1e-6"),
    "histogram": Setting.of(10_000, 1, "1e-6", 16),
}

LARGE_DOMAIN = Setting.of(10**6, 1, "1e-6", 10**6)

WHEN: dict[QueryName, list[tuple[str, str]]] = {
    "count": [
        ("Someone may see all raw values", "central"),
        ("Nobody is trusted at all", "local"),
        ("A shuffler, pure ε, almost the central error", "ours-0.5"),
        ("A shuffler, pure ε, few messages", "ours-8"),
        ("A shuffler, pure ε, below one message, and few users hold a 1", "thinning"),
        ("A shuffler, δ > 0 is acceptable", "gkmp20"),
        ("A shuffler, δ > 0, exactly one bit from everybody", "csuzz19"),
    ],
    "real-sum": [
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
    """A Markdown table with these headings and rows."""
    heads = list(headings)
    lines = [heads, ["---"] * len(heads), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def which_when(tables: dict[QueryName, Table]) -> str:
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


def blocks(queries: Iterable[QueryName] = tuple(SETTINGS)) -> dict[str, str]:
    """Every generated part of docs/baselines.md by the name of its mark."""
    tables = {query: compare(query, SETTINGS[query]) for query in queries}
    made: dict[str, str] = {
        query: markdown(HEADINGS, (cells_of(row) for row in table.rows))
        for query, table in tables.items()
    }
    if set(tables) == set(SETTINGS):
        made["when"] = which_when(tables)
        large = compare("histogram", LARGE_DOMAIN)
        made["domain"] = markdown(HEADINGS, (cells_of(row) for row in large.rows))
    return made


def place_of(text: str, name: str) -> slice:
    """Where a generated part is in the page: between the two marks with its name."""
    pattern = rf"<!-- {name}: [^\n]* -->\n(.*?)\n<!-- end {name} -->"
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise ValueError(f"The page has no marks for {name}; add them where it should stand.")
    return slice(*found.span(1))


def marked(text: str, name: str) -> str:
    """The text between the marks of a generated part."""
    return text[place_of(text, name)]


def write_tables(path: Path) -> None:
    """Rewrites every generated part of a page, between its marks."""
    text = path.read_text(encoding="utf-8")
    for name, block in blocks().items():
        place = place_of(text, name)
        text = text[: place.start] + block + text[place.stop :]
    path.write_text(text, encoding="utf-8")


def draw_gallery(folder: Path) -> None:
    """Runs the Python blocks of docs/gallery.md, whose pictures are the page's."""
    text = (DOCS / "gallery.md").read_text(encoding="utf-8")
    code = "\n".join(step.code for step in steps(text) if step.kind == "python")
    with TemporaryDirectory() as name:
        subprocess.run(
            [sys.executable, "-c", code], cwd=name, check=True, stdout=subprocess.DEVNULL
        )
        for picture in sorted(Path(name).glob("gallery-*.png")):
            shutil.copyfile(picture, folder / picture.name)


def draw(folder: Path) -> None:
    """Draws all pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_gallery(folder)
    for query, setting in SETTINGS.items():
        frontier(compare(query, setting), str(folder / f"frontier-{query}.png"))
        print(folder / f"frontier-{query}.png")
    scaling("count", SETTINGS["count"], "users", str(folder / "scaling-users.png"))
    print(folder / "scaling-users.png")


def main() -> None:
    """Draws the pictures, or rewrites the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="rewrite docs/baselines.md instead")
    if parser.parse_args().tables:
        write_tables(DOCS / "baselines.md")
    else:
        draw(DOCS / "figures")


if __name__ == "__main__":
    main()
