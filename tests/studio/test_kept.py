"""The list of collections that a studio keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from shuffledp.documents.json_text import MOST_JSON_BYTES
from shuffledp.studio import kept


def test_the_list_never_grows_beyond_what_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise no studio would start again: it reads the list first."""
    monkeypatch.setattr(kept, "data_folder", lambda: tmp_path)
    for number in range(4):
        kept.Kept().add(str(number), {"task": "x" * (MOST_JSON_BYTES // 3)})
    assert [one["id"] for one in kept.Kept().all()] == ["3", "2"]
    assert kept.Kept().watched() == kept.Kept().entry("3")
    kept.Kept().add("4", {"task": '"' * (MOST_JSON_BYTES // 2)})  # too long by itself
    assert [one["id"] for one in kept.Kept().all()] == ["3", "2"]
