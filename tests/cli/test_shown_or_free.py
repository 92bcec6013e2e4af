"""A query on the command line costs nothing, or its result is shown or can be shown again."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run

from shuffledp import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.json", 1)


def words(csv: str, ledger: Ledger, *more: str) -> list[str]:
    asked = ["count", csv, "--column", "flag", "--epsilon", "0.1"]
    return [*asked, "--ledger", str(ledger.path), *more]


def check_kept(ledger: Ledger, error: str) -> None:
    """One charge, and the sentence says how its result is shown again."""
    (entry,) = ledger.entries()
    assert entry.result is not None
    assert "ledger was charged" in error and "ledger show" in error and error.count("\n") == 1


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_a_full_output(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    csv: str,
    ledger: Ledger,
    form: tuple[str, ...],
) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code, _, err = run(capsys, *words(csv, ledger, *form))
    assert code == 2
    check_kept(ledger, err)


def test_a_pipe_that_nobody_reads(csv: str, ledger: Ledger) -> None:
    """In a separate process, where Python must not complain at its end either."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "shuffledp.cli.main", *words(csv, ledger)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 2
    check_kept(ledger, done.stderr)


def test_a_pipe_that_nobody_reads_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, csv: str, ledger: Ledger
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        code, _, err = run(capsys, *words(csv, ledger, "--json"))
    assert code == 2
    check_kept(ledger, err)


def test_a_closed_output_costs_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, csv: str, ledger: Ledger
) -> None:
    """Python has no standard output then, as after `>&-`."""
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        code, _, err = run(capsys, *words(csv, ledger))
    assert code == 2 and "Standard output is closed" in err
    assert ledger.entries() == []


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_a_terminal_that_knows_only_ascii(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ledger: Ledger,
    tmp_path: Path,
    form: tuple[str, ...],
) -> None:
    path = tmp_path / "cities.csv"
    path.write_text("city,n\n" + "Köln,1\n東京,2\n" * 50, encoding="utf-8")
    asked = ["histogram", str(path), "--column", "city", "--label", "Köln", "--label", "東京"]
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    code, _, err = run(capsys, *asked, "--epsilon", "1", "--ledger", str(ledger.path), *form)
    assert code == 0, err
    shown.flush()
    text = shown.buffer.getvalue().decode("ascii")
    if form:
        assert [row["label"] for row in json.loads(text)["buckets"]] == ["Köln", "東京"]
    else:
        assert "epsilon = 1" in text and "K\\xf6ln" in text


def test_a_picture_onto_a_folder_costs_nothing(
    capsys: pytest.CaptureFixture[str], csv: str, ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "picture.png").mkdir()
    for wrong in (tmp_path / "picture.png", tmp_path / "none" / "x.png", tmp_path / "x.txt"):
        code, out, err = run(capsys, *words(csv, ledger, "--plot", str(wrong)))
        assert code == 2 and not out and err.count("\n") == 1
    assert ledger.entries() == []


@pytest.mark.parametrize(
    ("package", "more"), [("matplotlib", ("--plot", "x.png")), ("pyarrow", ())]
)
def test_a_missing_extra_costs_nothing(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    csv: str,
    ledger: Ledger,
    package: str,
    more: tuple[str, ...],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, out, err = run(capsys, *words(csv, ledger, *more))
    assert code == 2 and not out and f"needs the package {package}" in err
    assert ledger.entries() == []


def test_a_folder_that_takes_no_files_costs_nothing(
    csv: str, ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its permissions allow it, as on a file system that is full or read-only."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    code, _, error = run(capsys, *words(csv, ledger, "--plot", "count.png"))
    assert code == 2 and "cannot be written to" in error and ledger.spent() == 0


def test_a_package_that_does_not_load_costs_nothing(
    csv: str, ledger: Ledger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    code, _, error = run(capsys, *words(csv, ledger, "--plot", "count.png"))
    assert code == 2 and "does not load" in error and ledger.spent() == 0


@pytest.mark.parametrize("place", ["--equals", "--note", "FILE"])
def test_words_that_are_no_text_cost_nothing(
    place: str, csv: str, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal that is not in UTF-8 hands them over; compared with values they would be 0."""
    name = "K\udcf6ln"
    asked = words(name, ledger) if place == "FILE" else words(csv, ledger, place, name)
    code, _, error = run(capsys, *asked)
    assert code == 2 and "UTF-8" in error and ledger.spent() == 0


def test_an_unknown_command_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "integers", "x.csv", "--epsilon", "1")
    assert code == 2 and "no command 'integers'" in error


def test_a_picture_that_fails_late_leaves_the_result(
    capsys: pytest.CaptureFixture[str],
    csv: str,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("shuffledp.plots.results.draw_estimate", fail)
    monkeypatch.setattr("shuffledp.plots.results.plot", fail)
    code, out, err = run(capsys, *words(csv, ledger, "--plot", str(tmp_path / "p.png")))
    assert code == 2 and "count" in out
    check_kept(ledger, err)


def test_the_ledger_shows_results_again(
    capsys: pytest.CaptureFixture[str], csv: str, ledger: Ledger
) -> None:
    path = str(ledger.path)
    code, _, err = run(capsys, "ledger", "show", path, "--entry", "1")
    assert code == 2 and "no entries" in err
    code, out, _ = run(capsys, *words(csv, ledger, "--json", "--note", "for [the] report"))
    first = json.loads(out)
    asked = ["histogram", csv, "--column", "way", "--labels", "walk,bike", "--epsilon", "0.1"]
    assert run(capsys, *asked, "--ledger", path)[0] == 0
    code, out, _ = run(capsys, "ledger", "show", path, "--entry", "1", "--json")
    assert code == 0 and json.loads(out) == first
    code, out, _ = run(capsys, "ledger", "show", path, "--entry", "last")
    assert code == 0 and "walk" in out and "bike" in out and "95% intervals" in out
    code, out, _ = run(capsys, "ledger", "show", path)
    assert "for [the] report" in out and "remaining" in out and "0.8" in out
    ledger.spend("0.1", "by hand")
    for wrong in ("3", "4", "0", "x"):
        code, out, err = run(capsys, "ledger", "show", path, "--entry", wrong)
        assert code == 2 and not out and err.count("\n") == 1


def test_an_interruption_does_not_say_that_nothing_was_charged(
    capsys: pytest.CaptureFixture[str], csv: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shuffledp.cli.query.result_table", interrupt)
    code, _, err = run(capsys, *words(csv, ledger))
    assert code == 130 and len(ledger.entries()) == 1
    assert "ledger show" in err and "charged stays" in err and "nothing" not in err


@pytest.mark.parametrize("form", ["repeated", "json", "file"])
def test_labels_with_commas(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    path, listed = tmp_path / "t.csv", tmp_path / "labels.txt"
    path.write_text('id,way\n1,"on foot, alone"\n2,bike\n' + "3,bike\n" * 98)
    listed.write_text("on foot, alone\nbike\n\n")
    given = {
        "repeated": ["--label", "on foot, alone", "--label", "bike"],
        "json": ["--labels", '["on foot, alone", "bike"]'],
        "file": ["--labels", f"@{listed}"],
    }[form]
    asked = ["histogram", str(path), "--column", "way", "--epsilon", "8", "--json", *given]
    code, out, err = run(capsys, *asked)
    assert code == 0, err
    assert [row["label"] for row in json.loads(out)["buckets"]] == ["on foot, alone", "bike"]


@pytest.mark.parametrize("labels", ["[1", "@none.txt", ""])
def test_wrong_labels(capsys: pytest.CaptureFixture[str], csv: str, labels: str) -> None:
    asked = ["histogram", csv, "--column", "way", "--epsilon", "8", "--labels", labels]
    code, out, err = run(capsys, *asked)
    assert code == 2 and not out and err.count("\n") == 1


def test_labels_of_true_and_false(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,flag\n" + "1,true\n2,false\n" * 50)
    asked = ["histogram", str(path), "--column", "flag", "--labels", "true,false"]
    code, out, err = run(capsys, *asked, "--epsilon", "8", "--json")
    assert code == 0, err
    assert [row["label"] for row in json.loads(out)["buckets"]] == [True, False]


def test_encoding_delimiter_and_seed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_text("Stadt;n\n" + "Köln;1\nBonn;2\n" * 50, encoding="latin-1")
    asked = ["count", str(path), "--column", "Stadt", "--equals", "Köln", "--epsilon", "8"]
    code, _, err = run(capsys, *asked, "--delimiter", ";")
    assert code == 2 and "--encoding" in err
    asked += ["--delimiter", ";", "--encoding", "latin-1", "--seed", "5", "--json"]
    first, again = (json.loads(run(capsys, *asked)[1]) for _ in range(2))
    assert first == again and first["seeded"] and 40 < first["estimate"] < 60


@pytest.mark.parametrize("epsilon", ["8", "20"])
def test_simulations_with_hardly_any_noise(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, epsilon: str
) -> None:
    picture = str(tmp_path / "s.png")
    asked = ["simulate", "--users", "1000", "--runs", "20", "--seed", "1", "--epsilon", epsilon]
    code, out, _ = run(capsys, *asked, "--plot", picture)
    assert code == 0 and Path(picture).exists()
    assert "+0.00     1.000" in out
    code, out, err = run(capsys, *asked, "--plot", str(tmp_path))
    assert code == 2 and not out and err.count("\n") == 1
