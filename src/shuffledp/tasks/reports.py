"""Encrypted messages: one user's report, and the noise that the shuffler adds to a batch.

A report always has `task.report_size` messages. A top-up has as many messages as the reports of the
users whose noise it replaces, so their number does not reveal how much noise is inside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from shuffledp.errors import SeededError
from shuffledp.numbers.arrangement import permutation
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.protocols.report import Counts, Report
from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import DUMMY_NUMBER, REPORT_ID_BYTES, Upload, plain_numbers

MESSAGES_AT_ONCE = 1 << 16
"""Messages of a top-up that are encrypted together."""


def report_numbers(task: Task, value: Any, entropy: Entropy = SYSTEM) -> list[int]:
    """The numbers inside the messages of one user's report, in the order of its messages.

    Ensures: always `task.report_size` of them. A draw that does not fit into the report is
    repeated: never with exact padding, otherwise with probability below 2⁻⁶⁴ per batch.
    """
    messages = task.protocol.randomize(value, entropy).messages()
    while len(messages) > task.report_size:
        messages = task.protocol.randomize(value, entropy).messages()
    numbers = plain_numbers(messages, task.report_size)
    # in random order, so that an attacker who destroys chosen messages cannot choose their content
    ordered: list[int] = numbers[permutation(task.report_size, entropy)].tolist()
    return ordered


def encrypt_report(
    task: Task, value: Any, entropy: Entropy = SYSTEM, *, report_id: bytes | None = None
) -> bytes:
    """One user's report as it is sent: `task.report_size` messages, each encrypted separately.
    `report_id` defaults to a random one.

    Requires: a verified task.
    Ensures: neither the number of bytes nor a message's position depends on the value.
    """
    if entropy.seeded:
        raise SeededError(
            "Reports of real people need the operating system's randomness; remove the seed."
        )
    return Upload(
        task_id=task.id,
        report_id=report_id or os.urandom(REPORT_ID_BYTES),
        key_id=task.key.key_id,
        messages=encrypt_all(report_numbers(task, value, entropy), task.key, task.id),
    ).to_bytes()


def encrypted_top_up(task: Task, absent: int) -> Iterator[bytes]:
    """The encrypted noise of `absent` missing users, in pages: `task.top_up_size` messages,
    whatever was drawn.

    Ensures: with exact padding the noise is drawn once. With a reserve it is drawn again if it does
    not fit, with probability below 2⁻⁶⁴ per batch.
    """
    size = task.top_up_size(absent)
    if size == 0:
        return
    counts = _message_counts(task.protocol.top_up(absent))
    while counts.sum() > size:
        counts = _message_counts(task.protocol.top_up(absent))
    # first the −1 of all counters, then the +1, then dummies
    even = np.arange(0, len(counts), 2)
    numbers, ends = np.concatenate([even, even + 1, [DUMMY_NUMBER]]), np.cumsum(counts)
    for begin in range(0, size, MESSAGES_AT_ONCE):
        places = np.arange(begin, min(size, begin + MESSAGES_AT_ONCE))
        page = numbers[np.searchsorted(ends, places, side="right")]
        yield encrypt_all(page.tolist(), task.key, task.id)


def _message_counts(report: Report) -> Counts:
    """How many −1 and +1 a report has for each counter."""
    return np.concatenate([report.minus, report.plus])
