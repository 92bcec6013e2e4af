"""Collections at running servers, kept in a private file so that a studio that is started again
finds them. The file holds the task, its plan, the form and the addresses; no token and no answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from shuffledp.documents.files import write_whole
from shuffledp.documents.json_text import MOST_JSON_BYTES, read_json_file
from shuffledp.errors import ParameterError

FILE = "studio-collections.json"
MOST_KEPT = 50
Entry = dict[str, Any]


def data_folder() -> Path:
    """The folder of this person's shuffledp files; created on first use."""
    folder = user_data_path("shuffledp", appauthor=False)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


class Kept:
    """The collections that were started here, in a file that several studios may share."""

    def __init__(self) -> None:
        self._file = data_folder() / FILE

    def all(self) -> list[Entry]:
        """All collections, the newest first."""
        found = read_json_file(self._file) if self._file.exists() else []
        return [one for one in found if isinstance(one, dict)]

    def _write(self, entries: list[Entry]) -> None:
        texts, left = [], MOST_JSON_BYTES - 2
        for text in map(json.dumps, entries[:MOST_KEPT]):
            if len(text) < left:  # a longer file could not be read any more
                left -= len(text) + 1
                texts.append(text)
        write_whole(self._file, f"[{','.join(texts)}]", secret=True)

    def add(self, task_id: str, facts: Mapping[str, Any]) -> None:
        """Keeps a collection, which is then the one that is watched."""
        began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        others = [one for one in self.all() if one["id"] != task_id]
        self._write([{"id": task_id, "began": began, **facts}, *others])
        self.watch(task_id)

    def watch(self, task_id: str | None) -> None:
        """Remembers which collection is watched; None: none."""
        self._write([{**one, "watched": one["id"] == task_id} for one in self.all()])

    def watched(self) -> Entry | None:
        """The collection that was watched last, unless watching was stopped."""
        return next((one for one in self.all() if one.get("watched")), None)

    def entry(self, task_id: str) -> Entry:
        """A collection by the ID of its task."""
        found = next((one for one in self.all() if one["id"] == task_id), None)
        if found is None:
            raise ParameterError("This collection is not on the list; reload the page.")
        return found

    def forget(self, task_id: str) -> None:
        """Takes a collection off the list; at its servers it goes on."""
        self._write([one for one in self.all() if one["id"] != task_id])
