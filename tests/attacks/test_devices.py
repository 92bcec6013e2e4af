"""Collectors that ask a device for too much, and what others see of its value."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from logged_tasks import proof_of

from shuffledp.cli.main import main, parser
from shuffledp.cli.send import given_policy, given_value
from shuffledp.errors import ParameterError
from shuffledp.queries.count.planner import plan_count
from shuffledp.service.client import retries
from shuffledp.service.client.device import Device
from shuffledp.service.client.policy import ClientPolicy
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import AlreadyAnswered, DeviceRecordLost, PolicyRefused, Unreachable
from shuffledp.tasks.clock import DAY_SECONDS
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.rules import BatchRule
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import read_upload

MakeTask = Callable[..., Task]


@cache
def plan(users: int, epsilon: int) -> dict[str, Any]:
    return plan_count(users, epsilon, mse_overhead=2, cell="paper").to_dict()


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Makes tasks under one analyzer key."""
    key = KeyFolder(tmp_path / "keys").new().public

    def make(name: str = "t", users: int = 100, epsilon: int = 1, **options: Any) -> Task:
        rule = BatchRule(**{"reports": users, **options.pop("batch", {})})
        return Task.create(plan(users, epsilon), options.pop("key", key), name, rule, **options)

    return make


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)


class Shuffler:
    """Takes every report and keeps it, as a hostile one would."""

    def __init__(self, status: int = 201) -> None:
        self.seen: list[bytes] = []
        self.status = status

    def client(self, task: Task, box: Path, **options: Any) -> Client:
        def answer(request: httpx2.Request) -> httpx2.Response:
            self.seen.append(request.read())
            return httpx2.Response(self.status)

        transport = httpx2.MockTransport(answer)
        options.setdefault("proof", proof_of(task))
        return Client(task, "http://s", "token", box, transport=transport, attempts=2, **options)


@pytest.mark.attack("many tasks with n = 1 and one token")
def test_sixty_tasks_for_one_user_get_nothing(
    make_task: MakeTask, tmp_path: Path, scale: int
) -> None:
    shuffler = Shuffler()
    for number in range(60 * min(scale, 2)):
        with (
            shuffler.client(make_task(str(number), users=1), tmp_path / "box") as client,
            pytest.raises(PolicyRefused, match="least_users"),
        ):
            client.send(1)
    assert not shuffler.seen


@pytest.mark.attack("epsilon = 20 with n = 1")
def test_a_task_that_gives_the_value_away_is_refused(make_task: MakeTask, tmp_path: Path) -> None:
    shuffler = Shuffler()
    with pytest.raises(PolicyRefused, match="ε = 20, but this device allows 2"):
        shuffler.client(make_task(users=1, epsilon=20), tmp_path).send(1)
    with pytest.raises(PolicyRefused, match="ε = 20"):
        shuffler.client(make_task(users=100, epsilon=20), tmp_path).send(1)
    assert not shuffler.seen and not list(tmp_path.glob("*.report"))


@pytest.mark.attack("many tasks that are small enough each")
def test_the_budget_is_shared_by_all_tasks(make_task: MakeTask, tmp_path: Path) -> None:
    shuffler, refused = Shuffler(), []
    for number in range(12):
        try:
            shuffler.client(make_task(str(number)), tmp_path / "box").send(1)
        except PolicyRefused as error:
            refused.append(str(error))
    assert len(shuffler.seen) == 4 and len(refused) == 8
    assert all("wait at least 30 days" in text and "spent 4 of the 4" in text for text in refused)


def test_the_budget_comes_back_after_the_period(make_task: MakeTask, tmp_path: Path) -> None:
    """Twin: honest tasks are answered, again after 30 days."""
    now = [1_000_000.0]
    device, policy = Device(tmp_path, lambda: now[0]), ClientPolicy()
    for number in range(4):
        device.charge(make_task(str(number)), bytes([number]) * 16, policy)
    with pytest.raises(PolicyRefused):
        device.charge(make_task("5"), b"5" * 16, policy)
    now[0] += 30 * DAY_SECONDS
    device.charge(make_task("5"), b"5" * 16, policy)
    assert device.spent(30) == 1 and len(device.charges()) == 5
    now[0] -= 40 * DAY_SECONDS  # a clock that is set back frees nothing
    with pytest.raises(PolicyRefused):
        device.charge(make_task("6"), b"6" * 16, policy)


RACER = """
import sys, httpx2
from pathlib import Path
from shuffledp.tasks.task import task_from_json
from shuffledp.tasks.log import TaskProof
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import PolicyRefused
sent = 0
transport = httpx2.MockTransport(lambda request: httpx2.Response(201))
tasks = [task_from_json(Path(path).read_bytes()) for path in sys.argv[2:]]
proofs = [TaskProof.from_json(Path(path + ".proof").read_bytes()) for path in sys.argv[2:]]
print("ready", flush=True)
sys.stdin.readline()
for task, proof in zip(tasks, proofs):
    try:
        Client(task, "http://s", "token", sys.argv[1], proof=proof, transport=transport).send(1)
        sent += 1
    except PolicyRefused:
        pass
print(sent)
"""


@pytest.mark.attack("programs that race for the device's budget")
def test_programs_cannot_race_past_the_budget(make_task: MakeTask, tmp_path: Path) -> None:
    racers = []
    for racer in range(2):
        files = []
        for number in range(6):
            files.append(tmp_path / f"{racer}-{number}.json")
            task = make_task(f"{racer} {number}")
            files[-1].write_bytes(task.canonical())
            Path(f"{files[-1]}.proof").write_text(proof_of(task).to_json())
        words = [sys.executable, "-c", RACER, str(tmp_path / "box"), *map(str, files)]
        racers.append(
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    for racer_process in racers:
        assert racer_process.stdout is not None
        assert racer_process.stdout.readline() == "ready\n"
    for racer_process in racers:
        assert racer_process.stdin is not None
        racer_process.stdin.write("go\n")
        racer_process.stdin.flush()
    sent = [int(racer_process.communicate(timeout=60)[0]) for racer_process in racers]
    assert sum(sent) == 4
    assert Device(tmp_path / "box").spent(30) == 4


def test_a_report_is_paid_for_once_and_before_it_leaves(
    make_task: MakeTask, tmp_path: Path
) -> None:
    """Twin: retries send the same report and cost nothing more."""
    task, paid = make_task(), []

    def answer(request: httpx2.Request) -> httpx2.Response:
        charged = {charge.report for charge in Device(tmp_path).charges()}
        paid.append(read_upload(request.read()).report_id.hex() in charged)
        return httpx2.Response(503 if len(paid) < 5 else 201)

    def client() -> Client:
        transport = httpx2.MockTransport(answer)
        return Client(
            task, "http://s", "t", tmp_path, attempts=2, proof=proof_of(task), transport=transport
        )

    with pytest.raises(Unreachable):
        client().send(1)
    with pytest.raises(Unreachable):
        client().resume()
    client().resume()
    with pytest.raises(AlreadyAnswered):
        client().send(0)
    assert paid == [True] * 5 and Device(tmp_path).spent(30) == 1


@pytest.mark.attack("tasks that ask again and again, or leave short")
def test_repeats_and_short_batches_need_leave(make_task: MakeTask, tmp_path: Path) -> None:
    shuffler = Shuffler()
    again = make_task("again", repeat=True)
    short = make_task("short", batch={"top_up": "missing", "at_least": 5, "wait_seconds": 1})
    with pytest.raises(PolicyRefused, match="allow_repeat"):
        shuffler.client(again, tmp_path).send(1)
    with pytest.raises(PolicyRefused, match="allow_short_batches"):
        shuffler.client(short, tmp_path).send(1)
    assert not shuffler.seen
    policy = ClientPolicy(allow_repeat=True, allow_short_batches=True)
    shuffler.client(short, tmp_path, policy=policy).send(1)
    for _ in range(2):
        shuffler.client(again, tmp_path, policy=policy).send(1)
    with pytest.raises(PolicyRefused, match="spent ε = 2 on this task"):
        shuffler.client(again, tmp_path, policy=policy).send(1)
    assert len(shuffler.seen) == 3


@pytest.mark.attack("a task under another analyzer's key")
def test_another_key_than_the_remembered_one_is_refused(
    make_task: MakeTask, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shuffler = Shuffler()
    foreign = KeyFolder(tmp_path / "foreign").new().public
    shuffler.client(make_task("first"), tmp_path / "box").send(1)
    assert "trust on first use" in caplog.text
    with pytest.raises(
        PolicyRefused, match="a different key from the one this device has remembered"
    ):
        shuffler.client(make_task("second", key=foreign), tmp_path / "box").send(1)
    shuffler.client(make_task("third"), tmp_path / "box").send(1)
    pinned = ClientPolicy(analyzer_keys=(foreign.raw.hex(),))
    with pytest.raises(PolicyRefused, match="does not name"):
        shuffler.client(make_task("fourth"), tmp_path / "box", policy=pinned).send(1)
    shuffler.client(make_task("second", key=foreign), tmp_path / "box", policy=pinned).send(1)
    assert len(shuffler.seen) == 3


@pytest.mark.attack("a device's record that disappears")
def test_a_lost_record_stops_the_device(make_task: MakeTask, tmp_path: Path) -> None:
    shuffler = Shuffler()
    shuffler.client(make_task("a"), tmp_path / "box").send(1)
    (tmp_path / "box" / "device.json").unlink()
    with pytest.raises(DeviceRecordLost, match="begin-anew"):
        shuffler.client(make_task("b"), tmp_path / "box").send(1)
    (tmp_path / "box" / "device.json").write_text('{"format": "shuffledp device 2", "charges": 3}')
    with pytest.raises(DeviceRecordLost, match="cannot be read"):
        shuffler.client(make_task("b"), tmp_path / "box").send(1)
    (tmp_path / "box" / "device.json").unlink()
    assert main(["device", "begin-anew", "--outbox", str(tmp_path / "box")]) == 0
    assert main(["device", "begin-anew", "--outbox", str(tmp_path / "box")]) == 2
    shuffler.client(make_task("b"), tmp_path / "box").send(1)
    assert len(shuffler.seen) == 2


@pytest.mark.attack("a value in the list of processes")
def test_a_value_need_not_stand_in_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["send", "--task", "t", "--shuffler", "http://s"]
    monkeypatch.delenv("SHUFFLEDP_VALUE", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\n"))
    assert given_value(parser().parse_args([*words, "--value", "-"])) == "1"
    with pytest.raises(ParameterError, match="standard input"):
        given_value(parser().parse_args(words))
    monkeypatch.setenv("SHUFFLEDP_VALUE", "0")
    assert given_value(parser().parse_args(words)) == "0"
    assert capsys.readouterr().err == ""
    assert given_value(parser().parse_args([*words, "--value", "1"])) == "1"
    assert "list of processes" in capsys.readouterr().err


def test_a_policy_comes_from_a_file_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, key = tmp_path / "policy.json", tmp_path / "key.json"
    public = KeyFolder(tmp_path / "keys").new().public
    key.write_text(json.dumps(public.to_dict()))
    assert main(["device", "policy", "--least-users", "5000", "--analyzer-key", str(key)]) == 0
    file.write_text(capsys.readouterr().out)
    words = ["send", "--task", "t", "--shuffler", "s", "--policy", str(file)]
    policy = given_policy(parser().parse_args([*words, "--most-epsilon-per-task", "1/2"]))
    assert policy == ClientPolicy(
        least_users=5000,
        most_epsilon_per_task=Fraction(1, 2),
        analyzer_keys=(public.raw.hex(),),
    )
    for wrong in ('{"least": 3}', "[", '{"least_users": 0}', '{"analyzer_keys": ["x"]}', "[]"):
        file.write_text(wrong)
        with pytest.raises(ParameterError):
            ClientPolicy.load(file)


def test_what_was_spent_is_shown(
    make_task: MakeTask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Shuffler().client(make_task(), tmp_path / "box").send(1)
    assert main(["device", "show", "--outbox", str(tmp_path / "box"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["spent"], shown["remaining"], shown["reports"]) == ("1", "3", 1)
    assert main(["device", "show", "--outbox", str(tmp_path / "box")]) == 0
    files = [file for file in (tmp_path / "box").iterdir() if file.is_file()]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files) and len(files) >= 3
