"""CSV whose cells come from people: numbers stay numbers."""

from __future__ import annotations

import csv
import io

from shuffledp.documents.csv_text import csv_text
from shuffledp.tasks.results import results_csv


def published(label: str) -> dict[str, object]:
    """What the analyzer publishes for a batch, as far as CSV shows it."""
    bucket = {"label": label, "estimate": -1.5, "interval": [-3, 2]}
    result = {"query": "histogram", "buckets": [bucket], "confidence": 0.95, "epsilon": 1.0}
    return {"number": 1, "reports": 20, "anomaly": -0.25, "implausible": False, "result": result}


def test_numbers_and_other_texts_stay_as_they_are() -> None:
    row = [-5, -2.5, 1e-9, "-5", "+3.5e-7", "bus", "a=b", "", "'=1"]
    text = csv_text(["a"] * len(row), [row])
    assert text.splitlines()[1] == "-5,-2.5,1e-09,-5,+3.5e-7,bus,a=b,,'=1"


def test_a_marked_export_keeps_its_numbers() -> None:
    heading, row = csv.reader(io.StringIO(results_csv([published("bus")], trial="made up")))
    assert heading[-1] == "trial" and row[-1] == "made up" and "-1.5" in row
