"""`shuffledp plan` and `shuffledp verify`: as JSON, as tables, through a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run


@pytest.mark.parametrize(
    "words",
    [
        ("count",),
        ("integer-sum", "--largest", "5"),
        ("histogram", "--labels", "a,b,c"),
        ("real-sum", "--rmse", "5"),
        ("quantiles", "--bounds", "0,10", "--bins", "8"),
        ("count", "--relative-error", "0.01"),
        ("count", "--max-messages", "20"),
        ("count", "--expected", "2000", "--rmse", "5"),
        ("real-sum", "--radix", "3,3", "--mse-overhead", "30"),
        ("histogram", "--labels", "3", "--mse-overhead", "8", "--padded"),
        ("quantiles", "--bounds", "0,1", "--bins", "4", "--padded"),
    ],
)
def test_plans_as_json_and_as_tables(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    kind, *rest = words
    common = ("plan", kind, "--users", "1000", "--epsilon", "1", *rest)
    code, out, _ = run(capsys, *common, "--json")
    data = json.loads(out)
    assert code == 0
    assert {"epsilon", "users", "messages_per_user", "rmse", "certificate"} <= set(data)
    assert data["epsilon"] == 1 and data["users"] == 1000
    code, out, _ = run(capsys, *common)
    assert code == 0 and "messages" in out and "certified" in out and "cell" not in out
    assert data["query"] == kind
    assert max(len(line) for line in out.splitlines()) <= 80
    assert f"{data['report_size']:,} messages in every report" in out
    code, out, _ = run(capsys, *common, "-v")
    shown = " ".join(out.split())
    assert code == 0 and " cell" in shown
    proved = data["limit_messages_per_user"] is not None
    assert ("lower bound for this design" in shown) == proved == (kind != "real-sum")
    assert ("--padded (padded=True) minimises the size of reports" in shown) != (
        "--padded" in words
    )


def test_a_plan_goes_to_a_file_and_is_certified_from_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    run(capsys, "plan", "count", "--users", "100", "--epsilon", "1", "--output", str(path))
    code, out, _ = run(capsys, "verify", str(path))
    assert code == 0 and "certified" in out
    code, out, _ = run(capsys, "verify", str(path), "--json")
    assert json.loads(out)["loss"] == "1"
    data = json.loads(path.read_text())
    cell = data["certificate"]["protocol"]["cell"]
    cell["up"]["odds"] = ["1/1000000000"]
    path.write_text(json.dumps(data))
    code, out, err = run(capsys, "verify", str(path))
    assert code == 3 and "not certified" in err and not out


def test_a_certificate_with_something_unknown_in_it_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    run(capsys, "plan", "count", "--users", "100", "--epsilon", "1", "--output", str(path))
    data = json.loads(path.read_text())
    data["certificate"]["protocol"]["cell"]["flood_mean"] = "3"
    path.write_text(json.dumps(data))
    code, out, err = run(capsys, "verify", str(path))
    assert code == 2 and "does not know" in err and not out


def test_the_plan_shows_the_printed_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "plan", "count", "--users", "1e6", "--epsilon", "0.1", "-v")
    assert "erratum 3" in out
    _, out, _ = run(capsys, "plan", "count", "--users", "900", "--epsilon", "0.01", "-v")
    assert "erratum 4" in out


def test_a_file_that_is_not_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    code, _, err = run(capsys, "verify", str(path))
    assert code == 2 and "is not valid JSON" in err


def test_the_least_epsilon_for_an_error_and_a_number_of_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = ("--rmse", "3", "--max-messages", "30", "--padded", "--json")
    code, out, _ = run(capsys, "plan", "count", "--users", "1000", *target)
    data = json.loads(out)
    assert code == 0 and data["rmse"] <= 3 and data["report_size"] <= 30
    less = str(0.97 * data["epsilon"])
    code, out, _ = run(
        capsys, "plan", "count", "--users", "1000", "--epsilon", less, *target[:2], *target[4:]
    )
    assert code == 2 or json.loads(out)["report_size"] > 30
    code, _, err = run(capsys, "plan", "count", "--users", "1000", "--rmse", "3")
    assert code == 2 and "max_messages" in err
    code, _, err = run(capsys, "plan", "quantiles", "--users", "1000")
    assert code == 2 and "--epsilon" in err
