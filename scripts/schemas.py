"""Writes docs/schema: JSON Schemas of tasks, plans, certificates and results, and OpenAPI 3.1
documents of the servers.

The bounds are those that the program itself checks (`shuffledp.documents.schema`). The answers are
described next to the routes (`shuffledp.service.http.operations`). A test compares the files with
both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shuffledp.documents.schema import Schema
from shuffledp.plans.certificate import CERTIFICATE
from shuffledp.plans.plan import PLAN
from shuffledp.service.analyzer.app import Analyzer
from shuffledp.service.analyzer.config import AnalyzerConfig
from shuffledp.service.http.operations import openapi_document
from shuffledp.service.http.role import Role
from shuffledp.service.issuer.app import Issuer
from shuffledp.service.issuer.config import IssuerConfig
from shuffledp.service.relay.app import Relay
from shuffledp.service.relay.config import RelayConfig
from shuffledp.service.shuffler.app import Shuffler
from shuffledp.service.shuffler.config import ShufflerConfig
from shuffledp.tasks.keys import PUBLIC_KEY
from shuffledp.tasks.log import TASK_PROOF
from shuffledp.tasks.results import PUBLISHED
from shuffledp.tasks.task import TASK

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"
SCHEMAS: dict[str, tuple[str, Schema]] = {
    "task": ("A task", TASK),
    "proof": ("The proof that a task is signed and logged", TASK_PROOF),
    "plan": ("A plan", PLAN),
    "certificate": ("A certificate", CERTIFICATE),
    "key": ("The public half of an analyzer's key", PUBLIC_KEY),
    "result": ("A published result", PUBLISHED),
}


def servers() -> list[Role]:
    """All servers with a store, which are not started."""
    return [Shuffler(ShufflerConfig()), Analyzer(AnalyzerConfig()), Issuer(IssuerConfig())]


def texts() -> dict[str, str]:
    """The text of each file by its name."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    files: dict[str, dict[str, Any]] = {
        f"{name}.json": {**head, "title": title, **schema.json_schema()}
        for name, (title, schema) in SCHEMAS.items()
    }
    described: list[Role | Relay] = [*servers(), Relay(RelayConfig())]
    for role in described:
        document = openapi_document(role.name, role.about, role.operations())
        files[f"{role.name}.openapi.json"] = document
    return {
        name: json.dumps(data, indent=1, ensure_ascii=False) + "\n" for name, data in files.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in texts().items():
        (FOLDER / file).write_text(text, "utf-8")
