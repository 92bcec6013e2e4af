"""What the studio promises is true: for how many people the error holds, and what a device can
do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp import plan_histogram
from shuffledp.studio.jobs import JOBS, plan_json
from shuffledp.studio.questions import plan_of, reach_of
from shuffledp.studio.words import (
    accuracy_sentence,
    fake_clients_sentences,
    people_sentence,
)

FORM: dict[str, Any] = {
    "question": "count",
    "users": "1000",
    "epsilon": "1",
    "error": "6",
    "confidence": "95",
    "messages": "40",
    "find": "messages",
    "publish_noise": True,
    "pure": False,
}


def test_privacy_holds_for_at_least_and_the_error_for_about() -> None:
    plan = plan_of(FORM, "bounded")
    said = accuracy_sentence(FORM, plan)
    assert said.startswith("If about 1,000 people") and "at least" not in said
    near, far = (reach_of(FORM, plan, people) for people in (1000, 10_000))
    assert near == reach_of(FORM, plan) and far > 1.5 * near
    assert f"±{near:g} of the truth" in said and f"±{far:g} for 10,000" in said
    assert "protected if at least 1,000 honest people" in people_sentence(plan)


def test_a_rehearsal_with_more_rows_than_planned_forecasts_their_error(tmp_path: Path) -> None:
    """With ten times the people, far fewer than 95 % are within the planned error."""
    plan = plan_of(FORM, "bounded")
    file = tmp_path / "rows.csv"
    file.write_text("bikes\n" + "\n".join(["1", "0"] * 5000))
    list(JOBS["look"](path=str(file), chosen={}))
    given = {"form": FORM, "plan": plan_json(plan), "path": str(file), "chosen": {"column": "0"}}
    ready, *runs, last = list(JOBS["rehearse"](**given, runs="150"))
    assert (ready["ready"]["users"], ready["ready"]["planned"]) == (10_000, 1000)
    summary = last["summary"]
    assert summary["within"]["share"] > 0.84  # 96 % are forecast, and 75 % with the plan's error
    assert summary["within"]["error"] > 1.5 * summary["planned"]
    truth = ready["ready"]["truth"][0]
    errors = np.array([abs(run["run"][0][0] - truth) for run in runs])
    assert (errors <= summary["planned"] + 0.5).mean() < 0.92  # the twin: not the plan's error


def test_fake_clients_move_a_histograms_share_until_another_label_is_empty() -> None:
    plan = plan_histogram(10_000, 1, 10, padded=True)
    _, together = fake_clients_sentences(plan)
    share = re.search(r"by ([\d.]+) percentage points", together)
    assert share is not None and 60 < float(share[1]) < 75
