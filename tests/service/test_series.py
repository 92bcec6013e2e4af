"""Tasks that follow each other: made ahead, forecast, and read as a time series."""

from __future__ import annotations

import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from service_programs import Programs
from service_trio import COLLECTOR, Trio, bearing

from shuffledp.cli.main import main
from shuffledp.sealed.clock import DAY_SECONDS
from shuffledp.sealed.issuer_keys import IssuerKeyFolder
from shuffledp.sealed.keys import KeyFolder
from shuffledp.sealed.reports import encrypt_report
from shuffledp.sealed.task import task_from_json
from shuffledp.sealed.task_tokens import TokenIssuer

BEGIN = "2031-01-06"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A call that makes four weekly tasks under two keys; each costs ε = 2."""
    trio = Trio(tmp_path)
    keys = KeyFolder(tmp_path / "keys")
    keys.new()
    for place, key in enumerate(keys.all()):
        (tmp_path / f"key-{place}.json").write_text(json.dumps(key.public.to_dict()))
    (tmp_path / "task.json").write_bytes(trio.task("dark mode", cell="bounded").canonical())
    return [
        "task", "series", str(tmp_path / "task.json"), "--every", "week", "--begin", BEGIN,
        "--until", "2031-02-03", "--folder", str(tmp_path / "season"),
        "--key", str(tmp_path / "key-0.json"), "--key", str(tmp_path / "key-1.json"),
    ]  # fmt: skip


def test_a_series_has_fresh_ids_dates_and_keys(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--device-budget", "8", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["count"], said["epsilon_each"], said["epsilon_in_all"]) == (4, "2", "8")
    assert said["most_epsilon_per_period"] == "8"  # all four fit into 30 days
    files = [Path(one["file"]) for one in said["tasks"]]
    tasks = [task_from_json(file.read_bytes()) for file in files]
    assert [task.id.hex() for task in tasks] == [one["task"] for one in said["tasks"]]
    assert len({task.id for task in tasks}) == 4
    assert [task.name for task in tasks][:2] == ["dark mode 2031-01-06", "dark mode 2031-01-13"]
    assert all(task.expires - task.not_before == 7 * DAY_SECONDS for task in tasks)
    assert all(one.expires == two.not_before for one, two in itertools.pairwise(tasks))
    assert [task.key.key_id for task in tasks] == [1, 1, 2, 2]
    for task in tasks:
        task.verify()
    assert main([*words, "--device-budget", "8"]) == 2
    assert "holds task files already" in capsys.readouterr().err


def test_a_series_beyond_the_budget_is_refused(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--device-budget", "7.99"]) == 2
    assert "7.99 is declared" in capsys.readouterr().err
    assert not (tmp_path / "season").exists()
    assert main([*words, "--device-budget", "7.99", "--beyond-budget"]) == 0
    assert "8 of" in capsys.readouterr().out
    assert main([*words[:-2], "--device-budget", "8", "--until", "2031-01-06"]) == 2
    assert "1 to 1,000 tasks" in capsys.readouterr().err


def test_every_task_of_a_series_has_an_issuer_key_of_its_own(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The issuer gives a key to one task: a series with one key could not be registered."""
    assert main([*words, "--device-budget", "8", "--issuer-key", "none.json"]) == 2
    assert "has no issuer" in capsys.readouterr().err
    keys = IssuerKeyFolder(tmp_path / "issuer-keys")
    made = [keys.new() for _ in range(4)]
    files = [tmp_path / f"issuer-{place}.json" for place in range(4)]
    for file, key in zip(files, made, strict=True):
        file.write_text(json.dumps({"issuer_key": key.spki.hex()}))
    issuer = TokenIssuer("https://issuer.example", made[0], attested=True)
    task = Trio(tmp_path).task("dark mode", cell="bounded", issuer=issuer)
    (tmp_path / "task.json").write_bytes(task.canonical())

    def ask(*names: Path) -> int:
        more = [word for name in names for word in ("--issuer-key", str(name))]
        return main([*words, "--device-budget", "8", *more])

    for given in ([], files[:1], files[:3], [*files[:3], files[0]]):
        assert ask(*given) == 2
        assert "an issuer key of its own" in capsys.readouterr().err
    assert ask(*files) == 0
    tasks = [task_from_json(file.read_bytes()) for file in sorted((tmp_path / "season").iterdir())]
    assert [task.issuer for task in tasks] == [replace(issuer, key=key) for key in made]


def test_results_by_date(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--device-budget", "8"]) == 0
    files = sorted((tmp_path / "season").iterdir())
    tasks = [task_from_json(file.read_bytes()) for file in files]
    programs = Programs(Trio(tmp_path))
    with programs.both() as (shuffler, analyzer):
        for task in tasks:
            programs.register(task)
        tokens = programs.enrol(20)
        capsys.readouterr()
        look = ["task", "current", "--shuffler", shuffler, "--json", "--name"]
        assert main([*look, "dark mode"]) == 0
        current = json.loads(capsys.readouterr().out)
        assert [one["task"] for one in current] == [task.id.hex() for task in tasks]
        close = f"{shuffler}/tasks/{tasks[3].id.hex()}/close"
        httpx.post(close, headers=bearing(COLLECTOR), timeout=60).raise_for_status()
        assert main([*look, "dark"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 3
        assert main([*look, "light"]) == 0
        assert json.loads(capsys.readouterr().out) == []
        for task in tasks[:2]:  # the same tokens every week
            with httpx.Client(base_url=shuffler, timeout=60) as devices:
                for token in tokens:
                    answer = devices.post(
                        f"/tasks/{task.id.hex()}/reports",
                        content=encrypt_report(task, 1),
                        headers=bearing(token),
                    )
                    assert answer.status_code == 201
            programs.results(task)
        capsys.readouterr()
        ask = ["result", "--series", str(tmp_path / "season"), "--analyzer", analyzer]
        assert main([*ask, "--csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [row["from"][:10] for row in rows] == ["2031-01-06", "2031-01-13"]
        assert all(
            float(row["low"]) <= float(row["estimate"]) <= float(row["high"]) for row in rows
        )
        assert main([*ask, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [len(one["results"]) for one in found] == [1, 1, 0, 0]
        assert main(ask) == 0
        shown = capsys.readouterr().out
        assert "2031-01-13" in shown and shown.count("not published") == 2
    assert main(["result", "--series", str(tmp_path), "--analyzer", analyzer]) == 2
    assert "no task files" in capsys.readouterr().err
