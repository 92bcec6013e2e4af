"""Labels that are formulas, in the CSV that spreadsheet programs open."""

from __future__ import annotations

import csv
import io

import pytest

from shuffledp.tasks.results import results_csv, series_csv

FORMULAS = [
    '=HYPERLINK("http://evil.example","x")',
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
]


def published(label: str) -> dict[str, object]:
    """What the analyzer publishes for a batch, as far as CSV shows it."""
    bucket = {"label": label, "estimate": -1.5, "interval": [-3, 2]}
    result = {"query": "histogram", "buckets": [bucket], "confidence": 0.95, "epsilon": 1.0}
    return {"number": 1, "reports": 20, "anomaly": -0.25, "implausible": False, "result": result}


@pytest.mark.attack("labels that a spreadsheet runs as formulas")
@pytest.mark.parametrize("label", FORMULAS)
def test_no_label_is_a_formula(label: str) -> None:
    member = {"not_before": 0, "expires": 1, "place": 1, "task": "=task", "results": []}
    member["results"] = [published(label)]
    for text in (results_csv([published(label)]), series_csv([member])):
        _, row = csv.reader(io.StringIO(text, newline=""))
        assert "'" + label.replace("\r", "\n") in row and "\r" not in text
        assert not any(cell.lstrip(" ").startswith(("=", "+", "@", "\t", "\r")) for cell in row)
        assert "-1.5" in row and "-0.25" in row  # numbers stay numbers
