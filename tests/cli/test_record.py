"""`shuffledp record`, of a task and of a plan, as JSON and as a page."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from command_line import run

from shuffledp.plans.plan import Plan
from shuffledp.queries.count.planner import plan_count
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.task import Operators, Task


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    plan_count(500, 1).save(path)
    return path


def test_the_record_of_a_task_says_who_what_and_how_to_check(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    plan: Path,
) -> None:
    task = Task.create(
        Plan.load(plan).to_dict(),
        KeyFolder(tmp_path / "keys").new().public,
        "dark <mode>",
        operators=Operators("App", "Mixer Ltd", "University"),
    )
    path, page = tmp_path / "task.json", tmp_path / "record.html"
    path.write_bytes(task.canonical())
    words = ("record", str(path), "--intended-use", "defaults of the next version")
    code, out, _ = run(capsys, *words, "--json")
    record = json.loads(out)
    assert code == 0 and record["privacy"]["epsilon"] == "1" and record["privacy"]["delta"] == "0"
    assert record["verification"]["task_id"] == task.id.hex()
    assert [one["operator"] for one in record["parties"]] == ["App", "Mixer Ltd", "University"]
    assert record["deployment"]["intended_use"] == "defaults of the next version"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    code, out, _ = run(capsys, "record", "-", *words[2:], "--json")
    assert code == 0 and json.loads(out) == record
    code, out, _ = run(capsys, *words, "--output", str(page))
    text = page.read_text("utf-8")
    assert code == 0 and "Mixer Ltd" in out and max(map(len, out.splitlines())) <= 80
    assert "dark &lt;mode&gt;" in text and "<mode>" not in text and task.id.hex() in text


def test_the_record_of_a_plan(capsys: pytest.CaptureFixture[str], plan: Path) -> None:
    code, out, _ = run(capsys, "record", str(plan), "--name", "racks", "--json")
    record = json.loads(out)
    assert code == 0 and record["deployment"]["name"] == "racks"
    assert record["collection"]["users_required"] == 500
    data = json.loads(plan.read_text("utf-8"))
    data["certificate"]["protocol"]["cell"]["up"]["odds"] = ["1/1000000000"]
    plan.write_text(json.dumps(data))
    code, out, err = run(capsys, "record", str(plan))
    assert code == 3 and not out and "not certified" in err
    plan.write_text("{}")
    code, out, err = run(capsys, "record", str(plan))
    assert code == 2 and not out and "neither a task nor a plan" in err
