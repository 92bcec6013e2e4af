"""Writes docs/schema: what tasks, plans and certificates may hold, as JSON Schema.

The bounds are those that the program itself checks (`shuffledp.exact.schema`); a test compares the
files with them.
"""

from __future__ import annotations

import json
from pathlib import Path

from shuffledp.exact.schema import Schema
from shuffledp.planning.schema import PLAN
from shuffledp.privacy.schema import CERTIFICATE
from shuffledp.sealed.schema import PUBLIC_KEY, TASK

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"
SCHEMAS: dict[str, tuple[str, Schema]] = {
    "task": ("A task", TASK),
    "plan": ("A plan", PLAN),
    "certificate": ("A certificate", CERTIFICATE),
    "key": ("The public half of an analyzer's key", PUBLIC_KEY),
}


def texts() -> dict[str, str]:
    """The text of each file by its name."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {
        f"{name}.json": json.dumps(
            {**head, "title": title, **schema.json_schema()}, indent=1, ensure_ascii=False
        )
        + "\n"
        for name, (title, schema) in SCHEMAS.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in texts().items():
        (FOLDER / file).write_text(text, "utf-8")
