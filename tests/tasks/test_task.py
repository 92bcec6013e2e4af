"""A task's id fixes all its parameters, and weakened ones are refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_trio import Trio

from shuffledp.cells.base import independent_cell
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.errors import ShuffleDPError
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.service.client.sending import Client
from shuffledp.tasks.canonical import canonical_text
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.task import Task, checked_report_size, task_from_json


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
    with pytest.raises(ShuffleDPError):
        Client(weak, "http://127.0.0.1:1", "token", tmp_path / "outbox")
    assert not (tmp_path / "outbox").exists()


def test_reports_of_exact_padding_hold_whatever_a_user_can_send(tmp_path: Path) -> None:
    trio = Trio(tmp_path)
    exact, reserve = (trio.task(cell="bounded", padding=name) for name in ("exact", "2^-64"))
    assert reserve.report_size <= exact.report_size
    assert exact.report_size == sum(
        independent_cell(cell).most_messages or 0 for cell in exact.protocol.cells
    )
    data = json.loads(exact.canonical()) | {"report_size": exact.report_size - 1}
    with pytest.raises(TaskError, match="overflow"):
        task_from_json(canonical_text(data)).verify()


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_other_json_is_no_task(data: Any) -> None:
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
