"""Tasks that follow each other: made ahead, forecast, and read as a time series."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from browsers import Browser
from service_programs import Programs
from service_trio import COLLECTOR, Trio, as_collector, bearing

from shuffledp.cli.main import main
from shuffledp.service.http.series_page import render_series, scale_of
from shuffledp.tasks.clock import DAY_SECONDS
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import task_from_json
from shuffledp.tasks.tokens import IssuerKeyFolder, TokenIssuer

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
    assert "already contains task files" in capsys.readouterr().err


def test_a_series_beyond_the_budget_is_refused(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--device-budget", "7.99"]) == 2
    assert "more than the declared 7.99" in capsys.readouterr().err
    assert not (tmp_path / "season").exists()
    assert main([*words, "--device-budget", "7.99", "--beyond-budget"]) == 0
    assert "8 of" in capsys.readouterr().out
    assert main([*words[:-2], "--device-budget", "8", "--until", "2031-01-06"]) == 2
    assert "1 to 1,000 tasks" in capsys.readouterr().err


def test_every_task_of_a_series_has_its_own_issuer_key(
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
        assert "its own issuer key" in capsys.readouterr().err
    assert ask(*files) == 0
    tasks = [task_from_json(file.read_bytes()) for file in sorted((tmp_path / "season").iterdir())]
    assert [task.issuer for task in tasks] == [replace(issuer, key=key) for key in made]


def _look_at(browser: Browser, page: str, rows: list[dict[str, str]]) -> None:
    """The page of a series says what its CSV says, and fits wide and narrow windows."""
    file = httpx2.get(f"{page}/results.csv")
    assert file.headers["Content-Disposition"].startswith("attachment")
    assert list(csv.DictReader(io.StringIO(file.text))) == rows
    for dark, width in ((False, 1100), (True, 400)):
        browser.dark(dark)
        browser.narrow(width)
        browser.open(page)
        assert browser.run("document.querySelector('h1').innerText") == "dark mode"
        assert browser.run("document.querySelectorAll('svg.series .dot').length") == 2
        assert browser.run("document.querySelectorAll('svg.series .join').length") == 1
        dates = "[...document.querySelectorAll('tbody th')].map(cell => cell.innerText)"
        assert browser.run(dates) == ["2031-01-06", "2031-01-13", "2031-01-20", "2031-01-27"]
        shown = browser.run("document.querySelector('tbody').innerText")
        assert all(f"{float(row['clipped']):,.2f}" in shown for row in rows)
        assert shown.count("not published") == 2
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        named = "document.querySelector('svg.series').getAttribute('aria-label')"
        assert "2 results" in browser.run(named)
        assert len(browser.picture(f"series-{width}")) > 5000
    assert not [line for line in browser.complaints() if "SEVERE" in line or "CSP" in line]
    browser.narrow(0)
    browser.dark(False)


def test_one_series_is_not_mixed_with_another(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by a name that begins with the other's, nor by the same name and other dates; and a place
    is given once."""
    trio = Trio(tmp_path)
    assert main([*words, "--device-budget", "8"]) == 0
    (tmp_path / "task.json").write_bytes(trio.task("dark", cell="bounded").canonical())
    begins = {"dark": BEGIN, "later": "2031-01-07"}
    for folder, begin in begins.items():
        again = [*words, "--device-budget", "8", "--begin", begin]
        again[again.index("--folder") + 1] = str(tmp_path / folder)
        assert main(again) == 0
    found = {
        folder: [
            task_from_json(file.read_bytes()) for file in sorted((tmp_path / folder).iterdir())
        ]
        for folder in ("season", *begins)
    }
    ids = {folder: {task.series_id for task in tasks} for folder, tasks in found.items()}
    assert all(len(one) == 1 for one in ids.values()) and len(set.union(*ids.values())) == 3
    first = found["season"][0]
    assert first.series is not None
    other = replace(first, name="another name")  # the same place of the same series
    assert other.series_id == first.series_id and other.id != first.id
    for changed in (
        replace(first, question="another question"),
        replace(first, repeat=True),
        replace(first, series=replace(first.series, tasks=5)),
        replace(first, series=replace(first.series, place=2)),
        replace(first, series=replace(first.series, name="dark")),
    ):
        assert changed.series_id != first.series_id
    capsys.readouterr()

    async def walk() -> None:
        async with trio.running():
            for tasks in found.values():
                for task in tasks:
                    await trio.register(task)
            for folder, tasks in found.items():
                answer = await trio.to_analyzer.get(f"/series/{tasks[0].series_id}/results")
                said = answer.json()
                assert [one["task"] for one in said["members"]] == [one.id.hex() for one in tasks]
                assert said["tasks"] == 4 and said["name"] == tasks[0].series.name  # type: ignore[union-attr]
                page = await trio.to_analyzer.get(f"/series/{tasks[0].series_id}")
                assert "Nothing is published yet" in page.text, folder
            twice = await trio.to_analyzer.put(
                f"/tasks/{other.id.hex()}",
                content=other.canonical(),
                headers=as_collector(other.id),
            )
            assert (twice.status_code, twice.json()["type"][-12:]) == (409, "series-place")
            head = (await trio.to_analyzer.get("/log/head")).json()
            assert head["size"] == 12  # the refused task is not in the log
            assert (await trio.to_analyzer.get(f"/series/{'0' * 64}")).status_code == 404
            status = (await trio.to_analyzer.get("/status")).json()
            assert {one["series"]["place"] for one in status["tasks"]} == {1, 2, 3, 4}
            assert f"/series/{first.series_id}" in (await trio.to_analyzer.get("/")).text

    asyncio.run(walk())


def test_round_numbers_at_the_lines() -> None:
    scale = scale_of(-3.0, 91.0)
    assert scale.ticks == (-50.0, 0.0, 50.0, 100.0)
    assert scale.height(100.0) < scale.height(-50.0)
    for low, high in ((0.0, 0.0), (7.0, 7.0), (1e-9, 2e-9), (-1e12, 1e12)):
        found = scale_of(low, high)
        assert found.low <= low <= high <= found.high and 2 <= len(found.ticks) <= 7


def test_a_picture_has_gaps_marks_and_nothing_unescaped() -> None:
    def published(estimate: float, implausible: bool) -> dict[str, Any]:
        line = {"label": "<b>", "estimate": estimate, "interval": [estimate - 1, estimate + 1]}
        result = {"query": "histogram", "buckets": [line], "confidence": 0.95, "epsilon": "1"}
        return {
            "number": 1,
            "reports": 9,
            "anomaly": 0.0,
            "implausible": implausible,
            "result": result,
        }

    members = [
        {"place": place, "not_before": place * DAY_SECONDS, "forgotten": 0, "results": results}
        for place, results in enumerate(
            ([published(1, False)], [], [published(2, False)], [published(3, True)]), start=1
        )
    ]
    facts = {"series": "ab" * 32, "name": "<i>", "question": "<u>", "query": "histogram"}
    costs = {"epsilon": "1", "epsilon_in_all": "4", "confidence": 0.95}
    dates = {"every": "day", "seconds": DAY_SECONDS, "tasks": 4, "begin": DAY_SECONDS}
    page = render_series({**facts, **costs, **dates, "members": members})
    assert not any(tag in page for tag in ("<b>", "<i>", "<u>"))
    assert page.count('class="join"') == 1  # none over the day without a result
    assert page.count("doubtful") == 1 and "implausible" in page
    assert page.count("not published") == 1


def test_results_by_date(
    tmp_path: Path, browser: Browser, words: list[str], capsys: pytest.CaptureFixture[str]
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
        httpx2.post(close, headers=bearing(COLLECTOR), timeout=60).raise_for_status()
        look_series = ["task", "current", "--shuffler", shuffler, "--json", "--series"]
        for wanted, many in ((tasks[0].series_id, 3), ("dark mode", 3), ("dark", 0)):
            assert main([*look_series, wanted]) == 0
            assert len(json.loads(capsys.readouterr().out)) == many
        assert main([*look, "dark"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 3
        assert main([*look, "light"]) == 0
        assert json.loads(capsys.readouterr().out) == []
        for task in tasks[:2]:  # the same tokens every week
            with httpx2.Client(base_url=shuffler, timeout=60) as devices:
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
        assert all(float(row["low"]) <= float(row["clipped"]) <= float(row["high"]) for row in rows)
        assert main([*ask, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [len(one["results"]) for one in found] == [1, 1, 0, 0]
        assert main(ask) == 0
        shown = capsys.readouterr().out
        assert "2031-01-13" in shown and shown.count("not published") == 2
        by_id = [*ask[:2], tasks[0].series_id, *ask[3:]]
        assert main([*by_id, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == found
        (tmp_path / "season" / "0002.task.json").unlink()  # a task that the folder does not know
        assert main(ask) == 2
        assert "not in" in capsys.readouterr().err
        _look_at(browser, f"{analyzer}/series/{tasks[0].series_id}", rows)
    assert main(["result", "--series", str(tmp_path), "--analyzer", analyzer]) == 2
    assert "no task files" in capsys.readouterr().err
