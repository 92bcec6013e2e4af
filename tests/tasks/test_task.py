"""A task's id fixes all its parameters, and weakened ones are refused."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logged_tasks import proof_of
from service_trio import TRUSTING, Trio

from shuffledp.cells.base import independent_cell
from shuffledp.cells.bounded import cell as bounded
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.cells.sparse import cell as sparse
from shuffledp.errors import ShuffleDPError
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.service.client.outbox import Outbox
from shuffledp.service.client.sending import Client
from shuffledp.tasks.canonical import canonical_text
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.log import TaskProof
from shuffledp.tasks.task import MOST_PROOF_STEPS, Task, checked_report_size, task_from_json


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Trio(tmp_path).task()


def test_id_is_the_hash_of_the_canonical_text(task: Task) -> None:
    assert task.id == hashlib.sha256(task.canonical()).digest()
    assert task_from_json(task.canonical()).id == task.id
    pretty = json.dumps(json.loads(task.canonical()), indent=3)
    twice = task.canonical().replace(b'"name":', b'"name":"first","name":')
    for other in (pretty, twice, task.canonical() + b"\n", task.canonical()[:-1]):
        with pytest.raises(TaskError):
            task_from_json(other, task.id)


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(data, dict):
        for name, value in data.items():
            yield from leaves(value, (*path, name))
    elif isinstance(data, list):
        for position, value in enumerate(data):
            yield from leaves(value, (*path, position))
    else:
        yield path


def test_every_single_number_is_in_the_id(task: Task) -> None:
    data = json.loads(task.canonical())
    changed = 0
    for path in leaves(data):
        other = json.loads(task.canonical())
        target = other
        for step in path[:-1]:
            target = target[step]
        value = target[path[-1]]
        target[path[-1]] = (
            (not value)
            if isinstance(value, bool)
            else value + 1
            if isinstance(value, int)
            else f"{value}1"
        )
        with pytest.raises(ShuffleDPError):
            task_from_json(canonical_text(other), task.id)
        changed += 1
    assert changed > 20


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("certificate", "protocol", "cell", "flood_mean"), "1/2"),
        (("certificate", "protocol", "cell", "input_pairs"), 0),
        (("certificate", "protocol", "cell", "mute_probability"), "1/1000000"),
        (("certificate", "epsilon"), "1"),
        (("report_size",), 10),
        (("batch", "reports"), 19),
        (("padding",), "exact"),
    ],
)
def test_a_weakened_task_is_refused(
    task: Task, where: tuple[str, ...], value: str | int, tmp_path: Path
) -> None:
    """A client re-checks the certificate before it sends anything."""
    data = json.loads(task.canonical())
    target = data
    for step in where[:-1]:
        target = target[step]
    target[where[-1]] = value
    weak = task_from_json(canonical_text(data))
    with pytest.raises(ShuffleDPError):
        weak.verify()
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(201)

    with pytest.raises(ShuffleDPError):
        Client(
            weak,
            "http://127.0.0.1:1",
            "token",
            tmp_path / "outbox",
            policy=TRUSTING,
            proof=proof_of(weak),  # a collector that signs it
            transport=httpx2.MockTransport(answer),
        ).send(1)
    assert not sent and Outbox(tmp_path / "outbox").stored(weak.id) is None


def test_signatures_are_checked_before_anything_is_proved(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else anyone could keep a device busy with proofs."""
    proved: list[bytes] = []
    monkeypatch.setattr(Task, "verify", lambda self: proved.append(self.id))
    other = replace(task, question="Another one?")

    def client(proof: TaskProof) -> Client:
        return Client(task, "http://s", "t", tmp_path, policy=TRUSTING, proof=proof)

    with pytest.raises(ShuffleDPError):
        client(proof_of(other)).check()
    assert not proved
    signed = client(proof_of(task))
    signed.check()
    signed.check()
    assert proved == [task.id]  # twin: a signed task is proved, once


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("paper", {"input_pairs": 65_535, "largest": 1, "flood_mean": "1000000000000"}),
        ("bounded", {"up": {"cut": 65_535, "muted_cut": 65_535}}),
    ],
)
def test_no_client_starts_a_proof_that_takes_too_long(
    kind: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    """The same limit as in JavaScript: `clients/js/src/task/proving.ts`."""
    task = Trio(tmp_path).task(cell=kind)
    task.check_size()  # twin: a plain task is within the limit
    data = json.loads(task.canonical())
    cell = data["certificate"]["protocol"]["cell"]
    for name, value in changed.items():
        cell[name] = {**cell[name], **value} if isinstance(value, dict) else value
    slow = task_from_json(canonical_text(data))
    start = time.process_time()
    with pytest.raises(TaskError, match="too long for a device"):
        slow.verify()
    with pytest.raises(TaskError, match="too long for a device"):
        Client(slow, "http://s", "t", tmp_path)
    assert time.process_time() - start < 1


def test_the_limits_of_proofs_are_those_of_the_javascript_client() -> None:
    sources = Path(__file__).parents[2] / "clients" / "js" / "src"
    for file, wanted in (
        ("task/proving.ts", f"MOST_PROOF_STEPS = {MOST_PROOF_STEPS // 10**6}e6;"),
        ("cells/bounded.ts", f"STEPS_PER_CUT = {bounded.STEPS_PER_CUT};"),
        ("cells/bounded.ts", f"STEP_BITS = {bounded.STEP_BITS};"),
        ("cells/branched.ts", f"STEPS_PER_CUT = {sparse.STEPS_PER_CUT};"),
    ):
        assert wanted in (sources / file).read_text()


def test_exact_padding_fits_everything_a_user_can_send(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    exact = trio.task(cell="bounded")
    assert exact.padding == "exact"
    assert exact.report_size == sum(
        independent_cell(cell).most_messages or 0 for cell in exact.protocol.cells
    )
    data = json.loads(exact.canonical()) | {"report_size": exact.report_size - 1}
    with pytest.raises(TaskError, match="overflow"):
        task_from_json(canonical_text(data)).verify()
    data = json.loads(exact.canonical()) | {"padding": "2^-64"}
    with pytest.raises(TaskError, match="have the padding 'exact'"):
        task_from_json(canonical_text(data)).verify()


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_other_json_is_not_a_task(data: Any) -> None:
    with pytest.raises(TaskError):
        task_from_json(json.dumps(data))


def test_a_task_of_a_larger_k_is_fine(task: Task) -> None:
    """More padding than needed costs bytes, not privacy."""
    data = json.loads(task.canonical()) | {"report_size": task.report_size + 5}
    task_from_json(canonical_text(data)).verify()


def test_a_report_that_would_be_too_large_is_refused() -> None:
    slow = Fraction(1, 10_000)
    cell = PaperCell(
        users=1000,
        largest=1,
        up_epsilon=slow,
        down_epsilon=slow,
        mute_probability=Fraction(1, 100),
        input_pairs=3,
        flood_mean=Fraction(5),
    )
    with pytest.raises(TaskError, match="at most 65,535; plan with padded"):
        checked_report_size(CountProtocol(Fraction(1), cell), 1000)
