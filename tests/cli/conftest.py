"""A small file for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CSV


@pytest.fixture
def csv(tmp_path: Path) -> str:
    path = tmp_path / "data.csv"
    path.write_text(CSV)
    return str(path)
