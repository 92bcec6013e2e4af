"""One client whose report is broken, in a task with the default batch."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from service_states import settled
from service_trio import Trio

from shuffledp import plan_count, plan_histogram
from shuffledp.cli.main import main
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.rules import BatchRule, slack_for_bad_clients
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import REPORT_HEADER_BYTES

PLAN = plan_count(60, 2, mse_overhead=2, cell="bounded")


def broken(body: bytes) -> bytes:
    """A report whose every message is spoilt."""
    return body[:REPORT_HEADER_BYTES] + bytes(len(body) - REPORT_HEADER_BYTES)


async def published_with(trio: Trio, task: Task, bad: int) -> str:
    await trio.register(task)
    tokens = await trio.enrol(task.batch.reports)
    for number, token in enumerate(tokens):
        body = encrypt_report(task, 1)
        spoilt = bytearray(broken(body))
        spoilt[REPORT_HEADER_BYTES:] = bytes([number + 1]) * (len(body) - REPORT_HEADER_BYTES)
        sent = bytes(spoilt) if number < bad else body
        assert (await trio.post(task, sent, token)).status_code == 201
    (found,) = await settled(trio, task)
    return str(found["state"])


@pytest.mark.attack("one broken client in a default task")
@pytest.mark.parametrize(("default", "state"), [(True, "published"), (False, "held")])
def test_one_broken_client_does_not_block_a_default_task(
    tmp_path: Path, default: bool, state: str
) -> None:
    async def walk() -> None:
        async with Trio(tmp_path).running() as trio:
            rule = None if default else BatchRule(PLAN.users)  # the twin: no slack
            key = trio.keys.all()[-1].public
            task = Task.create(PLAN.to_dict(), key, "default", rule)
            assert await published_with(trio, task, bad=1) == state

    asyncio.run(walk())


def test_the_default_has_slack_for_one_to_three_bad_clients() -> None:
    assert slack_for_bad_clients(10_000, 31) == 93
    assert slack_for_bad_clients(200, 21) == 50
    assert slack_for_bad_clients(100, 600) == 600


def test_the_command_asks_where_slack_needs_many_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "new", str(tmp_path / "keys")]) == 0
    (tmp_path / "key.json").write_text(capsys.readouterr().out)
    words = ["task", "create", "--key", str(tmp_path / "key.json"), "--name", "x"]
    words += ["--shuffler", "https://s.example", "--json", "--output", str(tmp_path / "task.json")]
    small = plan_histogram(50, 2, 5, mse_overhead=4, cell="bounded")
    for name, plan in (("small", small), ("large", plan_count(1000, 1, padded=True))):
        (tmp_path / f"{name}.json").write_text(json.dumps(plan.to_dict()))
    assert main([*words, "--plan", str(tmp_path / "small.json")]) == 2
    assert "choose --reports" in capsys.readouterr().err
    assert main([*words, "--plan", str(tmp_path / "small.json"), "--reports", "50"]) == 0
    capsys.readouterr()
    assert main([*words, "--plan", str(tmp_path / "large.json")]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["batch"]["reports"] == 1000 + 3 * made["report_size"]
    assert made["bad_messages_tolerated"] == 3 * made["report_size"]
