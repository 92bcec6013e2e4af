"""docs/security.md lists every attack that is tried, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs/security.md"


def attacks() -> set[str]:
    """The names of all attacks in the tests."""
    found = set()
    for path in HERE.parent.glob("*/test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "attack"
            ):
                found.add(ast.literal_eval(node.args[0]))
    return found


def test_the_documents_tables_are_the_attacks() -> None:
    text = DOCUMENT.read_text("utf-8")
    tables = re.findall(r"\| attack \|[^\n]*\n\|---[^\n]*\n((?:\|[^\n]*\n)+)", text)
    listed = {row.split("|")[1].strip() for table in tables for row in table.splitlines()}
    assert listed == attacks()
