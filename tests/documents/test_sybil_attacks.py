"""The figures about Sybil attacks are those that the script computes."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts_modules import script

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.attack("a Sybil attack that moves a result")
def test_the_table_is_what_the_script_prints() -> None:
    page = (ROOT / "docs" / "sybil-attacks.md").read_text("utf-8")
    made = script("sybil_attacks")
    lines = made.table()
    assert made.honest_tail() in " ".join(page.split())
    assert "\n".join(lines) in page
    assert any("no mark" in line for line in lines) and any("marked (" in line for line in lines)
