"""What a device has answered: listed, exported and wiped, without a way round the budget."""

from __future__ import annotations

import io
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from logged_tasks import proof_of

from shuffledp.cli.main import main
from shuffledp.queries.count.planner import plan_count
from shuffledp.service.client.device import Device
from shuffledp.service.client.one_time import OneTimeToken
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import AlreadyAnswered, PolicyRefused, Unreachable
from shuffledp.tasks.clock import DAY_SECONDS, system_clock
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.task import Operators, Task
from shuffledp.tasks.tokens import IssuerKeyFolder, TokenIssuer

OPERATORS = Operators("Example App", "Mixer Ltd", "Some University")


@cache
def plan() -> dict[str, Any]:
    return plan_count(100, 1, mse_overhead=2, cell="bounded").to_dict()


def made(folder: Path, name: str, **options: Any) -> Task:
    keys = KeyFolder(folder / "keys")
    key = (keys.all() or [keys.new()])[-1].public
    asked = f"Do you use {name}?"
    return Task.create(plan(), key, name, question=asked, operators=OPERATORS, **options)


def answer(task: Task, box: Path, status: int = 201, now: float | None = None) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status))
    clock = system_clock if now is None else lambda: now
    with Client(
        task,
        task.shuffler,
        "t",
        box,
        proof=proof_of(task),
        attempts=1,
        clock=clock,
        transport=transport,
    ) as client:
        client.send(1)


def test_history_says_what_was_sent_when_and_to_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box = tmp_path / "box"
    words = ["--outbox", str(box)]
    assert main(["device", "history", *words]) == 0
    assert "has sent nothing" in capsys.readouterr().out
    answer(made(tmp_path, "dark mode"), box)
    with pytest.raises(Unreachable):
        answer(made(tmp_path, "bikes"), box, 503)
    assert main(["device", "history", *words, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["question"] == "Do you use dark mode?" and first["epsilon"] == "1"
    assert first["operators"]["shuffler"] == "Mixer Ltd" and first["state"] == "sent"
    assert first["shuffler"] == "http://127.0.0.1:8801" and first["bytes"] > 800
    assert second["state"] == "waiting" and abs(second["when"] - system_clock()) < 600
    assert main(["device", "history", *words]) == 0
    shown = capsys.readouterr().out
    assert "Do you use bikes?" in shown and "Mixer Ltd" in shown and "never stored" in shown
    assert main(["device", "export", *words, "--output", str(tmp_path / "mine.json")]) == 0
    exported = json.loads((tmp_path / "mine.json").read_text("utf-8"))
    assert exported["reports"] == [first, second]
    assert set(exported["keys"]["http://127.0.0.1:8801"]) == {
        "encryption",
        "collector",
        "shuffler",
        "analyzer",
    }


def test_wiping_asks_and_frees_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    box = tmp_path / "box"
    tasks = [made(tmp_path, f"thing {number}") for number in range(5)]
    for task in tasks[:4]:
        answer(task, box)
    before = (box / "device.json").read_text("utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("no\n"))
    assert main(["device", "wipe", "--outbox", str(box)]) == 2
    assert (box / "device.json").read_text("utf-8") == before
    capsys.readouterr()
    assert main(["device", "wipe", "--outbox", str(box), "--yes"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 reports" in said and "count against your budget" in said and "4 tasks" in said
    left = (box / "device.json").read_text("utf-8")
    assert "thing" not in left and "Mixer" not in left
    device, policy = Device(box), ClientPolicy()
    assert device.spent(policy.period_days) == 4
    assert [row["state"] for row in device.history()] == ["wiped"] * 4
    with pytest.raises(PolicyRefused, match="spent 4 of the 4"):
        answer(tasks[4], box)
    with pytest.raises(AlreadyAnswered):
        answer(tasks[0], box)


def test_ids_stay_until_their_tasks_expire(tmp_path: Path) -> None:
    now = system_clock()
    box = tmp_path / "box"
    task = made(tmp_path, "thing", expires=int(now) + DAY_SECONDS)
    answer(task, box)
    assert Device(box).wipe() == (1, 0, 1)
    assert task.id.hex() in (box / "device.json").read_text("utf-8")
    later = Device(box, lambda: now + 2 * DAY_SECONDS)
    assert later.wipe() == (1, 0, 0)
    assert not list(box.glob("*.done")) and later.spent(30) == 1
    assert task.id.hex() not in (box / "device.json").read_text("utf-8")
    assert later.keys() and later.wipe(keys=True) == (1, 0, 0) and not later.keys()


def test_reports_that_wait_are_left_alone(tmp_path: Path) -> None:
    box = tmp_path / "box"
    task = made(tmp_path, "thing")
    with pytest.raises(Unreachable):
        answer(task, box, 503)
    assert Device(box).wipe() == (0, 1, 1)
    assert Device(box).history()[0]["state"] == "waiting"
    taken = httpx2.MockTransport(lambda _: httpx2.Response(201))
    with Client(task, task.shuffler, "t", box, transport=taken) as client:
        client.resume()
    assert Device(box).spent(30) == 1 and Device(box).wipe() == (1, 0, 1)


def test_tokens_are_exported_by_their_tasks_and_wiped_when_these_have_expired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = system_clock()
    box = tmp_path / "box"
    key = IssuerKeyFolder(tmp_path / "issuer-keys").new()
    issuer = TokenIssuer("https://issuer.example", key, attested=False)
    task = made(tmp_path, "thing", expires=int(now) + DAY_SECONDS, issuer=issuer)
    request = OneTimeToken(task, "enrolment", box).request()
    (box / "other.token").write_text("{}")  # not readable: it stays
    assert main(["device", "export", "--outbox", str(box), "--output", "-"]) == 0
    shown = capsys.readouterr().out
    assert json.loads(shown)["tokens"] == sorted([task.id.hex(), "other"])
    assert request.hex() not in shown
    Device(box).wipe()
    assert OneTimeToken(task, "enrolment", box).request() == request  # it can still be answered
    Device(box, lambda: now + 2 * DAY_SECONDS).wipe()
    assert Device(box).tokens() == ["other"] and not list(box.glob(f"{task.id.hex()}*"))
