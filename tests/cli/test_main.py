"""One sentence and exit code 2 for mistakes; simulate and version."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import run

from shuffledp.cli.main import GROUPS, MODULES, Parser, parser


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


def test_the_overview_lists_every_command_in_80_columns() -> None:
    known = parser()
    assert isinstance(known, Parser)
    lines = known.format_help().splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if re.match(r"  [a-z]", line)]
    assert {*known._below.choices} <= {*listed}


SERVER = ("--shuffler", "http://127.0.0.1:1")
MISTAKES = [
    ("plan", "count", "--users", "1000", "--epsilon", "0"),
    ("plan", "count", "--users", "1000", "--epsilon", "-1"),
    ("plan", "count", "--users", "1000", "--epsilon", "nan"),
    ("plan", "count", "--users", "1000", "--epsilon", "abc"),
    ("plan", "count", "--users", "0", "--epsilon", "1"),
    ("plan", "count", "--users", "1000"),
    ("plan", "count", "--users", "1000", "--epsilon", "1", "--rmse", "1", "--mse-overhead", "1"),
    ("plan", "count", "--users", "1000", "--epsilon", "1", "--rmse", "0.1"),
    ("plan", "real-sum", "--users", "1000", "--epsilon", "1", "--bounds", "1"),
    ("plan", "real-sum", "--users", "1000", "--epsilon", "1", "--bounds", "2,1"),
    ("plan", "histogram", "--users", "1000", "--epsilon", "1", "--labels", "a,a"),
    ("plan", "quantiles", "--users", "1000", "--epsilon", "1", "--max-messages", "5"),
    ("plan", "nothing"),
    ("nothing",),
    ("verify", "no-such-file.json"),
    ("count", "no-such-file.csv", "--epsilon", "1"),
    ("count", "FILE", "--column", "nope", "--epsilon", "1"),
    ("count", "FILE", "--column", "km", "--epsilon", "1"),
    ("count", "FILE", "--column", "flag", "--epsilon", "1", "--users", "301"),
    ("count", "FILE", "--column", "flag", "--epsilon", "1", "--plot", "/no/such/folder/x.png"),
    ("histogram", "FILE", "--column", "way", "--labels", "walk,car", "--epsilon", "1"),
    ("mean", "FILE", "--column", "way", "--bounds", "0,1", "--epsilon", "1"),
    ("mean", "FILE", "--column", "km", "--bounds", "0,1", "--epsilon", "1"),
    ("ledger", "show", "no-such-ledger.json"),
    ("simulate", "--users", "10", "--epsilon", "1", "--true-value", "11"),
    ("plan", "count", "--users", "1000", "--epsilon", "1", "--output", "/no/such/folder/x.json"),
    ("keys", "new", "FILE"),
    ("issuer", "new-key", "FILE"),
    ("init", "FILE", "--role", "collector", "--name", "x"),
    ("shuffler", "enrol", *SERVER, "--count", "0", "--output", "-", "--token", "t"),
    ("issuer", "enrol", "--issuer", "x", "--count", "-1", "--output", "-", "--token", "t"),
    ("task", "list", "--server", "127.0.0.1:1", "--token", "t"),
]


@pytest.mark.parametrize("words", MISTAKES, ids=" ".join)
def test_mistakes_get_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], csv: str, words: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *(csv if word == "FILE" else word for word in words))
    assert code == 2 and not out
    assert "Traceback" not in err and err.count("\n") == 1 and err.strip().endswith(".")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--question", "Tea?"], {"question": "Tea?", "browsers": 1, "port": 0}),
        (["--browsers", "3"], {"browsers": 3}),
        (["--port", "8600"], {"port": 8600}),
        (["--allow-origin", "http://localhost:5173"], {"origins": ["http://localhost:5173"]}),
    ],
)
def test_options_of_the_survey_page_serve_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    asked: dict[str, object],
) -> None:
    served: dict[str, object] = {}
    monkeypatch.setattr(
        "shuffledp.service.survey.run_survey", lambda *_, **options: served.update(options)
    )
    assert run(capsys, "demo", *words)[0] == 0
    assert asked.items() <= served.items()


def test_a_command_imports_only_its_own_module() -> None:
    """Importing all of them takes longer than most commands."""
    known = parser("keys")
    assert isinstance(known, Parser)
    assert [*known._below.choices] == ["keys"]
    assert [*MODULES] == [name for names in GROUPS.values() for name in names]
    shared = parser("restore")
    assert isinstance(shared, Parser)
    assert {*shared._below.choices} == {"backup", "restore"}
