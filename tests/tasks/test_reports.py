"""A device's encrypted report: its messages lie in random order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from chi2 import p_value

from shuffledp import plan_count
from shuffledp.tasks.encryption import open_all
from shuffledp.tasks.keys import KeyFolder
from shuffledp.tasks.reports import encrypt_report
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import DUMMY_NUMBER, MESSAGE_BYTES, read_upload


def test_a_messages_position_says_nothing_about_what_it_holds(tmp_path: Path) -> None:
    key = KeyFolder(tmp_path / "keys").new()
    task = Task.create(plan_count(100, 1, padded=True).to_dict(), key.public, "positions")
    first = []
    for _ in range(300):
        messages = read_upload(encrypt_report(task, 1)).messages
        numbers, unopened = open_all([messages[:MESSAGE_BYTES]], key.secret, task.key.info(task.id))
        assert unopened == 0
        first.append(int(numbers[0] != DUMMY_NUMBER))
    sent = float(task.protocol.cells[0].messages_per_user(1)) / task.report_size
    assert p_value(np.array(first), [1 - sent, sent]) > 1e-4
    # the twin: if messages came before dummies, the first position would always hold one
    assert p_value(np.ones(300, np.int64), [1 - sent, sent]) < 1e-4
