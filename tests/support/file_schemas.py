"""Published schemas of file formats, as the package check-jsonschema carries them."""

from __future__ import annotations

import importlib
import importlib.resources
import json
from typing import Any


def faults(schema: str, data: Any) -> list[str]:
    """What a schema, for example "compose-spec", says against a document."""
    # only here: it takes seconds, and every process imports this module to collect its tests
    jsonschema: Any = importlib.import_module("jsonschema")
    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    rules = json.loads((folder / f"{schema}.json").read_text("utf-8"))
    checker = jsonschema.validators.validator_for(rules)(rules)
    return [str(error.message) for error in checker.iter_errors(data)]
