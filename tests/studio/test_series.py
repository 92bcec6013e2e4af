"""A question that is asked again every week: its tasks, and the trend on the public page."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shuffledp.errors import ParameterError
from shuffledp.service.client.collector import enrol
from shuffledp.service.demo import local_servers, send_all
from shuffledp.service.tokens import EACH_PREFIX
from shuffledp.studio.collecting import (
    Purpose,
    ServerUrls,
    collector_key,
    make_task,
    series_of,
)
from shuffledp.studio.exports import EXPORTS
from shuffledp.studio.jobs import plan_json
from shuffledp.studio.public_page import public_page
from shuffledp.studio.questions import plan_of
from shuffledp.studio.running import Running
from shuffledp.tasks.clock import DAY_SECONDS
from shuffledp.tasks.keys import KeyFolder

FORM: dict[str, Any] = {
    "question": "count",
    "users": "20",
    "epsilon": "2",
    "error": "10",
    "confidence": "95",
    "find": "messages",
    "publish_noise": True,
}
WEEKLY = {"every": "week", "times": "3"}


def test_a_week_follows_the_other_and_once_is_once(tmp_path: Path) -> None:
    text, key = plan_json(plan_of(FORM, "bounded")), KeyFolder(tmp_path).new().public
    purpose = Purpose(name="Bikes", question="Do you bike?")
    task = make_task(text, key, purpose, publish_noise=True, shuffler="http://127.0.0.1:1")
    assert series_of(task, {"every": ""}) == [task]
    weeks = series_of(task, WEEKLY)
    assert len({one.series_id for one in weeks}) == 1 and len({one.id for one in weeks}) == 3
    begins = [one.not_before for one in weeks]
    assert [later - begins[0] for later in begins] == [0, 7 * DAY_SECONDS, 14 * DAY_SECONDS]
    with pytest.raises(ParameterError, match="How many times"):
        series_of(task, {**WEEKLY, "times": "0"})


def test_a_trial_is_not_taken_for_the_collection_that_was_watched_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one can be watched again, or taken off the list while the trial goes on."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    text, key = plan_json(plan_of(FORM, "bounded")), KeyFolder(tmp_path).new().public
    urls = ServerUrls("http://127.0.0.1:1", "http://127.0.0.1:2")
    kept, tried = (
        make_task(text, key, Purpose(name=name), publish_noise=True, shuffler=urls.shuffler)
        for name in ("Kept", "Tried")
    )
    asked = {"form": FORM, "plan": text, "publish_noise": True, "batches": "1"}
    monkeypatch.setattr("shuffledp.studio.running.connect", lambda *_: (urls, kept))
    monkeypatch.setattr("shuffledp.studio.running.Trial.start", lambda _: (urls, tried))
    running = Running()
    running.connect(asked)
    assert [one["watched"] for one in running.collections()] == [True]
    running.start_trial(asked, text)
    assert [one["watched"] for one in running.collections()] == [False]
    running.forget({"id": kept.id.hex()})
    assert running.collections() == [] and running._collection == (urls, tried)
    running.close()


def test_the_results_of_a_series_are_shown_by_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All weeks are registered; this one's devices answer; the next week's result is made up, since
    its task takes no reports before it begins."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    text, running = plan_json(plan_of(FORM, "bounded")), Running()
    purpose = {"name": "Bikes", "question": "Do you bike?", "collector": "Town"}
    asked = {"form": FORM, "purpose": purpose, "plan": text, "publish_noise": True, **WEEKLY}
    with local_servers(tmp_path) as servers:
        asked |= {"shuffler": servers.shuffler, "analyzer": servers.analyzer}
        asked |= {f"{role}_token": one for role, one in servers.collector_tokens.items()}
        running.connect(asked)
        assert running.progress()["results"] == []
        task = running.collected().task
        assert task is not None and task.series is not None and task.series.tasks == 3
        reports = task.batch.reports
        tokens = enrol(servers.shuffler, servers.operator_token, reports, EACH_PREFIX)
        keys = {**servers.signing_keys, "collector": collector_key()}
        send_all(replace(servers, signing_keys=keys), task, [1] * reports, tokens, lambda _: None)
        for _ in range(600):
            if running.progress()["results"]:
                break
            time.sleep(0.1)
        collected = running.collected()
        (shown,) = running.progress()["results"]
        again = Running().collected()  # a studio that is started again finds the series
    assert [one["task"] for one in again.results] == [task.id.hex()]
    (first,) = collected.results
    day = task.name.rpartition(" ")[2]
    assert shown["when"] == day and first["place"] == 1
    later = {**first, "place": 2, "not_before": first["not_before"] + 7 * DAY_SECONDS}
    two = collected._replace(results=[first, later])
    page = public_page({"purpose": purpose}, two, ["results.csv"])
    assert "From week to week" in page and page.count('class="trend"') == 1
    assert f'<th scope="col">{day}</th>' in page and "in the newest week" in page
    table = EXPORTS["results.csv"][1]({}, two).decode().splitlines()
    assert len(table) == 3 and table[0].startswith("from,") and table[1].startswith(day)
    assert EXPORTS["results.png"][1]({}, two).startswith(b"\x89PNG")
