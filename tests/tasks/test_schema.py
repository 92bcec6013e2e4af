"""The published JSON Schemas are the bounds that the program checks."""

from __future__ import annotations

import importlib
import importlib.util
import json
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest
from service_needs import missing
from service_trio import Trio

from shuffledp.documents.schema import Either, Listing, Nothing, Rational, Record, Text, Whole
from shuffledp.errors import ParameterError
from shuffledp.tasks.task import TASK
from shuffledp.tasks.wire import MOST_REPORT_SIZE

ROOT = Path(__file__).resolve().parents[2]


def script() -> ModuleType:
    """scripts/schemas.py as a module."""
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "scripts" / "schemas.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_published_files_are_up_to_date() -> None:
    texts: dict[str, str] = script().texts()
    for name, text in texts.items():
        published = (ROOT / "docs" / "schema" / name).read_text("utf-8")
        assert published == text, f"{name} is old: run scripts/schemas.py"
    size = json.loads(texts["task.json"])["properties"]["report_size"]
    assert size["maximum"] == MOST_REPORT_SIZE == 65_535


@pytest.mark.parametrize("cell", ["paper", "bounded"])
def test_both_readers_agree_about_a_real_task(tmp_path: Path, cell: str) -> None:
    if importlib.util.find_spec("jsonschema") is None:
        missing("jsonschema", "pip install jsonschema")
    jsonschema = importlib.import_module("jsonschema")
    task = json.loads(Trio(tmp_path).task(cell=cell).canonical())
    published = json.loads((ROOT / "docs" / "schema" / "task.json").read_text("utf-8"))
    reader = jsonschema.Draft202012Validator(published)
    TASK.check(task, "task")
    assert reader.is_valid(task)
    changes: tuple[dict[str, object], ...] = (
        {"report_size": MOST_REPORT_SIZE + 1},
        {"report_size": "7"},
        {"name": ""},
        {"repeat": 1},
        {"unknown": 1},
        {"analyzer_key": {}},
        {"batch": []},
    )
    for change in changes:
        assert not reader.is_valid(task | change)
        with pytest.raises(ParameterError):
            TASK.check(task | change, "task")


def test_bounds_are_met_exactly_and_errors_do_not_repeat_the_data() -> None:
    third = Rational(Fraction(1), Fraction(3))
    third.check("1", "x")
    third.check("9/3", "x")
    for text in ("0", "10/3", "1/0", "1e0", "1.5", "+1", " 1", "1/-2", "١"):
        with pytest.raises(ParameterError):
            third.check(text, "x")
    record = Record({"a": Whole(0, 9)}, {"b": Listing(Either((Text(3), Nothing())), 0, 2)})
    record.check({"a": 9, "b": ["abc", None]}, "x")
    for data in ({}, {"a": 10}, {"a": True}, {"a": 1, "b": ["secret"]}, {"a": 1, "secret": 1}):
        with pytest.raises(ParameterError) as caught:
            record.check(data, "x")
        assert "secret" not in str(caught.value)
