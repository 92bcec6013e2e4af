"""Tasks on sparse cells: a million labels in a short task, and reports of 25 messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shuffledp import plan_histogram
from shuffledp.errors import ValueOutOfRange
from shuffledp.numbers.entropy import SeededEntropy
from shuffledp.protocols.report import count_messages
from shuffledp.protocols.results import HistogramResult
from shuffledp.tasks.encryption import open_all
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import DUMMY_NUMBER, MESSAGE_BYTES, read_upload

USERS, LABELS = 12, 10**6


class Repeatable(SeededEntropy):
    """The same draws in every run, for reports that are made as if they were real. With few
    users, the less frequent label would come first once in 40 runs."""

    seeded = False


def test_a_million_labels_in_a_task(tmp_path: Path) -> None:
    key = KeyFolder(tmp_path / "keys").new()
    plan = plan_histogram(
        USERS, 8, LABELS, error_at=10, max_messages=200, padded=True, cell="sparse"
    )
    task = Task.create(plan.to_dict(), key.public, "which of a million")
    assert len(json.dumps(task.to_dict())) < 10_000
    assert task.padding == "exact" and task.report_size <= 200
    held = [999_999] * 8 + [5] * 4
    entropy = Repeatable(1)
    found: list[int] = []
    for value in held:
        upload = read_upload(encrypt_report(task, value, entropy)).messages
        assert len(upload) == task.report_size * MESSAGE_BYTES  # whatever is held
        rows = [upload[i : i + MESSAGE_BYTES] for i in range(0, len(upload), MESSAGE_BYTES)]
        numbers, unopened = open_all(rows, key.secret, task.key.info(task.id))
        assert unopened == 0
        found += [number for number in numbers if number != DUMMY_NUMBER]
    sent = np.array(found, np.int64)
    assert (sent % 2 == 1).all() and (sent < 2 * LABELS).all()  # +1 alone
    messages = np.stack([sent // 2, np.ones_like(sent)], axis=1)
    batch = count_messages(messages, USERS, LABELS)
    result = task.protocol.analyze(task.protocol.release(batch))
    assert isinstance(result, HistogramResult)
    assert [label for label, *_ in result.top(1)] == ["999999"]
    estimate, low, high = result[999_999]
    assert low <= 8 <= high and abs(estimate - 8) < 8
    assert abs(task.protocol.anomaly(batch)) < 6
    with pytest.raises(ValueOutOfRange, match="not on the list of labels"):
        encrypt_report(task, LABELS)


def test_a_reserve_is_refused(tmp_path: Path) -> None:
    key = KeyFolder(tmp_path / "keys").new()
    plan = plan_histogram(USERS, 1, 100, error_at=20)
    task = Task.create(plan.to_dict(), key.public, "reserve")
    with pytest.raises(TaskError, match="have the padding 'exact'"):
        replace(task, padding="2^-64").verify()
