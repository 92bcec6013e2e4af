"""Small files that would take minutes or gigabytes: refused before anything is computed."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from limited_reader import LimitedReader, limited_reader
from service_programs import Programs
from service_trio import (
    Trio,
    as_collector,
)

from shuffledp import plan_count, plan_histogram, plan_integer_sum, plan_quantiles, plan_real_sum
from shuffledp.documents.json_text import read_json
from shuffledp.errors import ParameterError, TooCostly
from shuffledp.numbers.deadline import time_limit
from shuffledp.numbers.exact import exact
from shuffledp.plans.certificate import verify
from shuffledp.plans.plan import Plan
from shuffledp.tasks.canonical import canonical_text
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.sandbox import CheckLimits, check_task
from shuffledp.tasks.task import Task

Json = dict[str, Any]
PLANS: dict[str, Callable[[], Any]] = {
    "count, paper's cell": lambda: plan_count(20, 2, mse_overhead=2, cell="paper"),
    "count, bounded cell": lambda: plan_count(20, 2, mse_overhead=2, cell="bounded"),
    "integer sum": lambda: plan_integer_sum(20, 4, 3, mse_overhead=2),
    "real sum": lambda: plan_real_sum(20, 8, bounds=(0, 1), mse_overhead=4),
    "histogram": lambda: plan_histogram(20, 4, 3, mse_overhead=4),
    "quantiles": lambda: plan_quantiles(20, 8, (0, 1), bins=4, mse_overhead=4),
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """A valid task of every kind, as JSON."""
    key = KeyFolder(tmp_path_factory.mktemp("keys")).new().public
    made = {}
    for name, plan in PLANS.items():
        noise = "none" if name == "quantiles" else "full"
        task = Task.create(plan().to_dict(), key, name, publish_noise=noise)
        made[name] = json.loads(task.canonical())
    return made


@pytest.fixture(scope="module")
def reader() -> Iterator[LimitedReader]:
    with limited_reader() as one:
        yield one


def test_valid_tasks_are_accepted(tasks: dict[str, Json], reader: LimitedReader) -> None:
    for task in tasks.values():
        assert reader.verdict(canonical_text(task), 60) == "accepted"


def plain_text(data: Json) -> str:
    """The text of a task in the canonical form, also where a field is out of its bounds."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def put(data: Json, path: str, value: object) -> Json:
    """The task with another value at a path like "certificate.protocol.epsilon"."""
    changed = copy.deepcopy(data)
    *steps, last = path.split(".")
    at: Any = changed
    for step in steps:
        at = at[step]
    at[last] = value
    return changed


CELL = "certificate.protocol.cell."
HOSTILE_VALUES: list[tuple[str, str, object]] = [
    ("count, paper's cell", "certificate.protocol.epsilon", "1e20000000"),
    ("count, paper's cell", "certificate.protocol.epsilon", str(2**63)),
    ("count, paper's cell", "certificate.protocol.epsilon", "1/" + "9" * 4000),
    ("count, paper's cell", CELL + "up_epsilon", "1e-20000000"),
    ("count, paper's cell", CELL + "down_epsilon", str(2**63)),
    ("count, paper's cell", CELL + "flood_mean", "1e999999"),
    ("count, paper's cell", CELL + "flood_mean", "1/0"),
    ("count, paper's cell", CELL + "input_pairs", 10**18),
    ("count, paper's cell", CELL + "users", 10**19),
    ("count, paper's cell", CELL + "largest", 10**9),
    ("count, paper's cell", "report_size", 2**31),
    ("count, paper's cell", "batch.reports", 2**62),
    ("count, paper's cell", "certificate.users", [1]),
    ("count, paper's cell", "certificate.cells", [{}] * 100_000),
    ("count, paper's cell", "name", "\ud800"),
    ("count, paper's cell", "name", "x" * 10**6),
    ("count, paper's cell", "analyzer_key.public", "0" * 10**6),
    ("count, bounded cell", CELL + "up.cut", 10**9),
    ("count, bounded cell", CELL + "up.muted_cut", -1),
    ("count, bounded cell", CELL + "up.odds", ["1/3"] * 10**6),
    ("count, bounded cell", CELL + "up.decay", "1e-99999999"),
    ("count, bounded cell", CELL + "down.odds", ["1e9999999"]),
    ("real sum", "certificate.protocol.low", "-1e99999999"),
    ("real sum", "certificate.protocol.high", "9" * 390),
    ("histogram", "certificate.protocol.labels", list(range(10**6 + 1))),
    ("histogram", "certificate.protocol.labels", [[]] * 3),
    ("histogram", "certificate.protocol.other", {}),
    ("quantiles", "certificate.protocol.levels", [{}] * 10**4),
]


def short(value: object) -> str:
    """The beginning of a value, for the name of a test."""
    return str(value[:40] if isinstance(value, str | list) else value)[:40]


@pytest.mark.attack("a small task that hangs its verifier")
@pytest.mark.parametrize(("kind", "path", "value"), HOSTILE_VALUES, ids=short)
def test_one_absurd_field(
    tasks: dict[str, Json], reader: LimitedReader, kind: str, path: str, value: object
) -> None:
    begun = time.monotonic()
    verdict = reader.verdict(plain_text(put(tasks[kind], path, value)))
    assert verdict.startswith("refused: "), verdict
    assert time.monotonic() - begun < 10
    assert len(verdict) < 400 and "20000000" not in verdict


@pytest.mark.attack("odd JSON")
@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        '{"a":' * 10**5,
        "[" * 30 + "]" * 30,
        '{"name": Infinity}',
        '{"name": NaN}',
        '{"name": 1e999}',
        '{"report_size": ' + "9" * 10**6 + "}",
        '"' + "\\" * (10**6 + 1),
        '"\\"' * 10**5,
        b"\xff\xfe{}",
        b"",
        "null",
        "[]",
        "{}",
        '{"format": "shuffledp task 3"}',
        " " * (9 << 20),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_odd_json(reader: LimitedReader, text: str | bytes) -> None:
    begun = time.monotonic()
    assert reader.verdict(text).startswith("refused: ")
    assert time.monotonic() - begun < 10


@pytest.mark.attack("odd JSON")
def test_deep_json_is_told_from_brackets_in_texts() -> None:
    assert read_json(json.dumps(["[[{{" * 100, '"\\[' * 50, [1]]), "x")[2] == [1]
    with pytest.raises(ParameterError, match="nested deeper"):
        read_json("[" * 25 + "]" * 25, "x")


@pytest.mark.attack("numbers with long exponents")
@pytest.mark.parametrize("text", ["1e20000000", "1e-20000000", "0e20000000", "1e99999999/3"])
def test_exponents_are_refused_before_they_are_multiplied_out(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ParameterError):
        exact(text, "epsilon")
    assert time.process_time() - begun < 1
    assert exact("1e-3", "epsilon").denominator == 1000


@pytest.mark.attack("a certificate or plan that hangs its verifier")
def test_certificates_and_plans_are_bounded_too(tmp_path: Path) -> None:
    plan = plan_count(20, 2, mse_overhead=2, cell="paper").to_dict()
    assert Plan.from_dict(json.loads(json.dumps(plan))).users == 20
    for path, value in (
        ("certificate.protocol.epsilon", "1e20000000"),
        ("certificate.protocol.cell.users", 10**400),
    ):
        with pytest.raises(ParameterError):
            verify(put(plan, path, value))
    with pytest.raises(ParameterError):
        Plan.from_dict(put(plan, "expected_users", 10**400))
    file = tmp_path / "plan.json"
    file.write_text("[" * 10**6)
    with pytest.raises(ParameterError):
        Plan.load(file)


def slow_task(tasks: dict[str, Json], largest: int = 10**6) -> Json:
    """A task whose every field is allowed and whose proof takes very long: a million changes. With
    140 it is about as long as a task's proof may be."""
    slow = copy.deepcopy(tasks["count, paper's cell"])
    protocol = slow["certificate"]["protocol"]
    protocol["query"] = "integer-sum"
    protocol["epsilon"] = slow["certificate"]["epsilon"] = "20"
    protocol["cell"] |= {
        "largest": largest,
        "up_epsilon": "1",
        "down_epsilon": "1",
        "mute_probability": "1/2",
        "input_pairs": 10,
        "flood_mean": str(10**12),
    }
    return slow


@pytest.mark.attack("a task that takes long to verify, at a client")
def test_a_slow_proof_ends_at_its_time_limit(tasks: dict[str, Json], reader: LimitedReader) -> None:
    verdict = reader.verdict(plain_text(slow_task(tasks)))
    assert verdict.startswith("refused: The proof of this task takes too long"), verdict
    with time_limit(60, "It"), time_limit(0, "This"), pytest.raises(TooCostly, match="This"):
        verify(plan_count(20, 2).to_dict())


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.sampled_from(["", "1e20000000", "-1", "0", "1/0", "1/3", "9" * 500, "\ud800", "NaN"]),
    st.integers(0, 10**40).map(str),
    st.fractions(0, 100).map(str),
    st.lists(st.integers(0, 9), max_size=5),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=3),
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every part of a JSON value."""
    if path:
        yield path
    if isinstance(data, dict | list):
        for step in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[step], (*path, step))


@pytest.mark.attack("fuzzed tasks")
def test_fuzzed_tasks_are_accepted_or_refused(
    tasks: dict[str, Json], reader: LimitedReader, scale: int
) -> None:
    """Valid tasks with a few parts replaced by anything: never another exception, never too long
    and never too much memory (the reader's own limits)."""

    @settings(
        max_examples=60 * scale,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def fuzz(data: st.DataObject) -> None:
        changed = copy.deepcopy(tasks[data.draw(st.sampled_from(sorted(tasks)))])
        for _ in range(data.draw(st.integers(1, 3))):
            *steps, last = data.draw(st.sampled_from(list(places(changed))))
            at: Any = changed
            for step in steps:
                at = at[step]
            at[last] = data.draw(ODD)
        verdict = reader.verdict(plain_text(changed))
        assert verdict == "accepted" or verdict.startswith("refused: "), verdict

    fuzz()


class LiveProbe:
    """Asks /livez all the time, and notes the longest time without an answer."""

    def __init__(self, url: str) -> None:
        self._url, self._stop = url, threading.Event()
        self.longest = 0.0
        self.asked = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> LiveProbe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx2.Client(timeout=60) as client:
            while not self._stop.is_set():
                begun = time.monotonic()
                assert client.get(f"{self._url}/livez").status_code == 200
                self.longest = max(self.longest, time.monotonic() - begun)
                self.asked += 1
                time.sleep(0.02)


@pytest.mark.attack("a task that takes long to verify, at a server")
def test_servers_answer_while_a_task_is_verified(tmp_path: Path, tasks: dict[str, Json]) -> None:
    """The check runs in another process, and one that would take too long is never begun."""
    programs = Programs(Trio(tmp_path))
    with programs.both() as urls:
        for url, largest in itertools.product(urls, (140, 10**6)):
            slow = canonical_text(slow_task(tasks, largest))
            name = hashlib.sha256(slow)
            begun = time.monotonic()
            with LiveProbe(url) as probe:
                answer = httpx2.put(
                    f"{url}/tasks/{name.hexdigest()}",
                    content=slow,
                    headers=as_collector(name.digest()),
                    timeout=90,
                )
            assert answer.status_code == 422, answer.text
            assert ("takes too long" in answer.json()["detail"]) == (largest > 140)
            took = time.monotonic() - begun
            assert probe.longest < max(1, took / 2), (probe.longest, took)
            assert probe.asked > 0 or largest > 140  # a check that is never begun leaves no time


@pytest.mark.attack("a task that takes long to verify, at a server")
def test_a_check_ends_at_its_limit_and_when_the_server_stops(tasks: dict[str, Json]) -> None:
    text = canonical_text(slow_task(tasks, 140))
    name = hashlib.sha256(text).digest()
    with pytest.raises(TaskError, match="does not follow"):  # the twin: with time, it is refused
        check_task(text, name, CheckLimits())
    with pytest.raises(TooCostly, match="verify_seconds"):
        check_task(text, name, CheckLimits(seconds=0))
    began = time.monotonic()
    with pytest.raises(InterruptedError):
        check_task(text, name, CheckLimits(), stop=lambda: time.monotonic() - began > 0.3)
    assert not [one for one in multiprocessing.active_children() if one.name == "task check"]
