"""Queries on the command line: JSON for programs, tables for people, pictures, a ledger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import run

from shuffledp.cli.main import joined


@pytest.mark.parametrize(
    ("words", "estimates"),
    [
        (("count", "--column", "flag"), 1),
        (("count", "--column", "way", "--equals", "bike"), 1),
        (("count", "--column", "km", "--equals", "3"), 1),
        (("integer-sum", "--column", "km", "--largest", "9"), 1),
        (("integer-sum", "--column", "km", "--largest", "5", "--clamp"), 1),
        (("real-sum", "--column", "km", "--bounds", "0,9"), 1),
        (("mean", "--column", "km", "--bounds", "0,5", "--clamp"), 1),
    ],
)
def test_queries(
    capsys: pytest.CaptureFixture[str], csv: str, words: tuple[str, ...], estimates: int
) -> None:
    name, *rest = words
    code, out, _ = run(capsys, name, csv, "--epsilon", "4", *rest, "--json")
    data = json.loads(out)
    assert data["query"] == name
    low, high = data["interval"]  # whole numbers for counts, the estimate need not be one
    assert code == 0 and low - 0.01 <= data["clipped"] <= high + 0.01
    assert data["neighbours"] == "replace one user's value; how many users there are is public"
    assert data["certificate"]["neighbours"] == "replace one user's value"
    assert data["users"] == 300 and data["certificate"]["epsilon"] == "4"
    code, out, _ = run(capsys, name, csv, "--epsilon", "4", *rest)
    assert code == 0 and "protects any one user's value" in out and "interval" in out
    assert "public   the number of users, 300 " in out
    assert ("clipped  what lies beyond the bounds" in out) == ("--clamp" in words)
    assert max(map(len, out.splitlines())) <= 80


def test_counts_of_kept_rows_are_not_called_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,flag\n" + "".join(f"{n % 40},{n % 2}\n" for n in range(120)))
    words = (str(path), "--user", "id", "--rows-per-user", "2", "--epsilon", "4")
    _, out, _ = run(capsys, "count", *words, "--column", "flag")
    assert "of 80 kept rows of 40 users" in out
    _, out, _ = run(capsys, "histogram", *words, "--column", "flag", "--labels", "0,1")
    assert out.splitlines()[1].split()[:2] == ["flag", "rows"]


def test_histogram_quantiles_pictures_and_ledger(
    capsys: pytest.CaptureFixture[str], csv: str, tmp_path: Path
) -> None:
    ledger, picture = str(tmp_path / "b.json"), str(tmp_path / "p.png")
    assert run(capsys, "ledger", "create", ledger, "--budget", "3")[0] == 0
    code, out, _ = run(
        capsys,
        "histogram",
        csv,
        "--column",
        "way",
        "--labels",
        "walk,bike",
        "--epsilon",
        "2",
        "--plot",
        picture,
        "--ledger",
        ledger,
    )
    assert code == 0 and "remains" in out and Path(picture).exists()
    code, out, err = run(
        capsys,
        "quantiles",
        csv,
        "--column",
        "km",
        "--bounds",
        "0,10",
        "--epsilon",
        "2",
        "--ledger",
        ledger,
    )
    assert code == 2 and "1 left of 3" in err and not out
    code, out, _ = run(
        capsys,
        "quantiles",
        csv,
        "--column",
        "km",
        "--bounds",
        "0,10",
        "--epsilon",
        "1",
        "--ledger",
        ledger,
        "--json",
        "--bins",
        "10",
        "--at",
        "0.5",
    )
    assert code == 0 and len(json.loads(out)["quantiles"]) == 1
    code, out, _ = run(capsys, "ledger", "show", ledger, "--json")
    assert json.loads(out)["remaining"] == "0"


def test_other_protocols(capsys: pytest.CaptureFixture[str], csv: str, tmp_path: Path) -> None:
    words = ("count", csv, "--column", "flag", "--epsilon", "1", "--protocol", "central")
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0 and json.loads(out)["protocol"] == "central"
    code, out, _ = run(capsys, *words)
    assert code == 0 and "trusting the party that collects the raw values" in " ".join(out.split())
    for extra in (("--per-user",), ("--rmse", "3")):
        code, out, err = run(capsys, *words, *extra)
        assert code == 2 and not out and err.count("\n") == 1
    assert run(capsys, *words, "--plot", str(tmp_path / "x.png"))[0] == 0
    assert (tmp_path / "x.png").exists()


def test_a_histogram_of_numbers(capsys: pytest.CaptureFixture[str], csv: str) -> None:
    words = ("histogram", csv, "--column", "km", "--epsilon", "4", "--labels", "0,1,2")
    code, out, _ = run(capsys, *words, "--other", "else", "--json")
    assert code == 0
    assert [row["label"] for row in json.loads(out)["buckets"]] == [0, 1, 2, "else"]


def test_labels_may_begin_with_a_minus(capsys: pytest.CaptureFixture[str], csv: str) -> None:
    words = ("histogram", csv, "--column", "km", "--epsilon", "4", "--labels", "-1,0,1")
    code, out, err = run(capsys, *words, "--other", "-2", "--json")
    assert code == 0, err
    assert [row["label"] for row in json.loads(out)["buckets"]] == [-1, 0, 1, "-2"]


def test_a_file_whose_name_begins_with_a_minus(
    capsys: pytest.CaptureFixture[str], csv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `--`, nothing is an option; a value after `=` is complete."""
    monkeypatch.chdir(Path(csv).parent)
    Path(csv).rename("-2020.csv")
    for column in (("--column", "flag"), ("--column=flag",)):
        code, out, err = run(
            capsys, "count", *column, "--epsilon", "4", "--json", "--", "-2020.csv"
        )
        assert code == 0 and json.loads(out)["query"] == "count", err
    assert joined(["count", "--column=x", "-1"]) == ["count", "--column=x", "-1"]


def test_a_master_needs_spark(capsys: pytest.CaptureFixture[str], csv: str) -> None:
    words = ("count", csv, "--column", "flag", "--epsilon", "1", "--master", "local[2]")
    code, out, err = run(capsys, *words)
    assert code == 2 and not out and "--engine spark" in err


def test_numbers_of_groups_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    mean = ("mean", "sample:commute", "--column", "minutes", "--bounds", "0,120", "--by", "way")
    groups = ("--groups", "walk,bike,bus,train,car", "--epsilon", "1", "--seed", "3", "-q")
    code, out, _ = run(capsys, *mean, *groups)
    rows = [line.rstrip() for line in out.splitlines()[2:]]
    assert code == 0 and len(rows) == 5
    points = [[place for place, one in enumerate(row) if one == "."] for row in rows]
    assert points == [points[0]] * 5 and len(points[0]) == 3, out
    assert {len(row) for row in rows} == {len(rows[0])}, out


def test_a_wrong_delimiter_gets_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("yes\n1\n0\n")
    code, _, error = run(capsys, "count", str(path), "--epsilon", "8", "--delimiter", "tab")
    assert code == 2 and "delimiter must be one character" in error


def test_labels_of_a_domain_may_contain_commas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text('way,yes\n"a,b",1\nc,0\n')
    asked = ["histogram", str(path), "--epsilon", "8", "--by", "way,yes", "--json"]
    code, out, _ = run(capsys, *asked, "--domain", 'way=["a,b","c"]', "--domain", "yes=0,1")
    labels = [row["labels"] for row in json.loads(out)["buckets"]]
    assert code == 0 and {one["way"] for one in labels} == {"a,b", "c"}
    assert {one["yes"] for one in labels} == {0, 1}
