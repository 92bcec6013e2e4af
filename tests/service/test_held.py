"""Held batches and lost ledgers on the command line, and what `task show` forecasts."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from service_deliveries import batch_of, deliver_to, made_reports
from service_programs import Programs
from service_trio import ANALYZER_OPERATOR, USERS, Trio

from shuffledp.service.errors import Refused

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command and gives what it printed, without line breaks."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for name in ("task", "serve", "result"):
        importlib.import_module(f"shuffledp.cli.{name}").add_to(commands)

    def command(*words: object) -> str:
        args = parser.parse_args([str(word) for word in words])
        args.run(args)
        return " ".join(str(capsys.readouterr().out).split())

    return command


def test_held_batches_are_shown_and_discarded(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEDP_OPERATOR_TOKEN", ANALYZER_OPERATOR)
    trio = Trio(tmp_path)
    task, programs = trio.task(), Programs(trio)
    (tmp_path / "task.json").write_bytes(task.canonical())
    messages, _, _ = made_reports(task, 1)
    batch, body = batch_of(task, messages[0] * USERS)
    with programs.both() as (_, analyzer):
        programs.register(task)
        deliver_to(analyzer, batch, body)
        shown = ""
        for _ in range(1200):
            shown = run("result", "--task", tmp_path / "task.json", "--analyzer", analyzer)
            if "is held" in shown:
                break
            time.sleep(0.05)
        assert batch.hex() in shown and "shares of noise" in shown
        words = ["analyzer", "discard", "--analyzer", analyzer, "--batch"]
        with pytest.raises(Refused, match="No such batch"):
            run(*words, "ff" * 16, "--reason", "x")
        assert "discarded" in run(*words, batch.hex(), "--reason", "it was copied")
        shown = run("result", "--task", tmp_path / "task.json", "--analyzer", analyzer)
        assert "is discarded: it was copied" in shown
        assert "0 lines" in run("analyzer", "restore-ledger", "--analyzer", analyzer)
    assert "batch held" in programs.log() and "shares of noise" in programs.log()


def test_a_task_says_its_slack_and_its_error(tmp_path: Path, run: Run) -> None:
    trio, file = Trio(tmp_path), tmp_path / "task.json"
    errors = []
    for noise in ("none", "full"):
        task = trio.task(publish_noise=noise, batch={"reports": USERS + 5})
        file.write_bytes(task.canonical())
        found = json.loads(run("task", "show", file, "--json"))
        assert (found["bad_messages_tolerated"], found["publish_noise"]) == (5, noise)
        errors.append(found["forecast_rmse"])
        shown = run("task", "show", file)
        assert "at most 5 bad messages" in shown
        assert ("full set of noise" in shown) == (noise == "full")
    assert errors[0] < errors[1] < 2 * errors[0]
