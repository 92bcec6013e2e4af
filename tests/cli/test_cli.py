"""The command line: JSON for programs, one sentence and exit code 2 for mistakes."""

import json
from pathlib import Path

import pytest

from shuffledp.cli.main import main

CSV = "flag,km,way\n" + "".join(
    f"{i % 2},{i % 10},{'bike' if i % 3 else 'walk'}\n" for i in range(300)
)


@pytest.fixture
def csv(tmp_path: Path) -> str:
    path = tmp_path / "data.csv"
    path.write_text(CSV)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        code = main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    "words",
    [
        ("count",),
        ("integers", "--largest", "5"),
        ("histogram", "--buckets", "a,b,c"),
        ("sum", "--rmse", "5"),
        ("quantiles", "--bounds", "0,10", "--bins", "8"),
        ("count", "--relative-error", "0.01"),
        ("count", "--max-messages", "20"),
        ("count", "--expected", "2000", "--rmse", "5"),
        ("sum", "--radix", "3,3", "--mse-overhead", "30"),
        ("histogram", "--buckets", "3", "--mse-overhead", "8", "--padded"),
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
    assert code == 0 and "messages" in out and "certified" in out
    assert ("--padded plans for fewer" in " ".join(out.split())) != ("--padded" in words)
    assert f"{data['report_size']:,} messages in every report" in out


def test_a_plan_goes_to_a_file_and_is_certified_from_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    run(capsys, "plan", "count", "--users", "100", "--epsilon", "1", "--output", str(path))
    code, out, _ = run(capsys, "certify", str(path))
    assert code == 0 and "certified" in out
    code, out, _ = run(capsys, "certify", str(path), "--json")
    assert json.loads(out)["loss"] == "1"
    data = json.loads(path.read_text())
    data["certificate"]["protocol"]["cell"]["flood_mean"] = "3"
    path.write_text(json.dumps(data))
    code, out, err = run(capsys, "certify", str(path))
    assert code == 2 and "not certified" in err and not out


def test_the_printed_recipe_stands_beside(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "plan", "count", "--users", "1e6", "--epsilon", "0.1")
    assert "erratum 3" in out
    _, out, _ = run(capsys, "plan", "count", "--users", "900", "--epsilon", "0.01")
    assert "erratum 4" in out


@pytest.mark.parametrize(
    ("words", "estimates"),
    [
        (("count", "--column", "flag"), 1),
        (("count", "--column", "way", "--equals", "bike"), 1),
        (("count", "--column", "km", "--equals", "3"), 1),
        (("integers", "--column", "km", "--largest", "9"), 1),
        (("sum", "--column", "km", "--bounds", "0,9"), 1),
        (("mean", "--column", "km", "--bounds", "0,5", "--clamp"), 1),
    ],
)
def test_queries(
    capsys: pytest.CaptureFixture[str], csv: str, words: tuple[str, ...], estimates: int
) -> None:
    name, *rest = words
    code, out, _ = run(capsys, name, csv, "--epsilon", "4", *rest, "--json")
    data = json.loads(out)
    assert code == 0 and data["interval"][0] <= data["estimate"] <= data["interval"][1]
    assert data["users"] == 300 and data["certificate"]["epsilon"] == "4"
    code, out, _ = run(capsys, name, csv, "--epsilon", "4", *rest)
    assert code == 0 and "every row is taken for one user" in out


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
        "--buckets",
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


def test_simulate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    common = ("simulate", "--users", "100", "--epsilon", "1", "--runs", "300", "--seed", "1")
    code, out, _ = run(capsys, *common, "--json")
    first = json.loads(out)
    assert code == 0 and abs(first["rmse"] / first["forecast_rmse"] - 1) < 0.2 and first["seeded"]
    assert json.loads(run(capsys, *common, "--json")[1])["rmse"] == first["rmse"]
    picture = str(tmp_path / "s.png")
    code, out, _ = run(capsys, *common, "--per-user", "--largest", "3", "--plot", picture)
    assert code == 0 and "exact" in out and Path(picture).exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert "python-flint" in json.loads(run(capsys, "version", "--json")[1])
    assert run(capsys, "--version")[1].startswith("shuffledp ")


MISTAKES = [
    ("plan", "count", "--users", "1000", "--epsilon", "0"),
    ("plan", "count", "--users", "1000", "--epsilon", "-1"),
    ("plan", "count", "--users", "1000", "--epsilon", "nan"),
    ("plan", "count", "--users", "1000", "--epsilon", "abc"),
    ("plan", "count", "--users", "0", "--epsilon", "1"),
    ("plan", "count", "--users", "1000"),
    ("plan", "count", "--users", "1000", "--epsilon", "1", "--rmse", "1", "--mse-overhead", "1"),
    ("plan", "count", "--users", "1000", "--epsilon", "1", "--rmse", "0.1"),
    ("plan", "sum", "--users", "1000", "--epsilon", "1", "--bounds", "1"),
    ("plan", "sum", "--users", "1000", "--epsilon", "1", "--bounds", "2,1"),
    ("plan", "histogram", "--users", "1000", "--epsilon", "1", "--buckets", "a,a"),
    ("plan", "quantiles", "--users", "1000", "--epsilon", "1", "--max-messages", "5"),
    ("plan", "nothing"),
    ("nothing",),
    (),
    ("certify", "no-such-file.json"),
    ("count", "no-such-file.csv", "--epsilon", "1"),
    ("count", "FILE", "--column", "nope", "--epsilon", "1"),
    ("count", "FILE", "--column", "km", "--epsilon", "1"),
    ("count", "FILE", "--column", "flag", "--epsilon", "1", "--users", "301"),
    ("count", "FILE", "--column", "flag", "--epsilon", "1", "--plot", "/no/such/folder/x.png"),
    ("histogram", "FILE", "--column", "way", "--buckets", "walk,car", "--epsilon", "1"),
    ("mean", "FILE", "--column", "way", "--bounds", "0,1", "--epsilon", "1"),
    ("mean", "FILE", "--column", "km", "--bounds", "0,1", "--epsilon", "1"),
    ("ledger", "show", "no-such-ledger.json"),
    ("simulate", "--users", "10", "--epsilon", "1", "--true-value", "11"),
    ("plan", "count", "--users", "1000", "--epsilon", "1", "--output", "/no/such/folder/x.json"),
]


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_mistakes_get_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], csv: str, words: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *(csv if word == "FILE" else word for word in words))
    assert code == 2 and not out
    assert "Traceback" not in err and err.count("\n") == 1 and err.strip().endswith(".")


def test_a_file_that_is_no_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    code, _, err = run(capsys, "certify", str(path))
    assert code == 2 and "no valid JSON" in err
