"""Encrypted messages: one user's report, and the noise that the shuffler adds to a batch.

A report always holds `task.report_size` messages. The number of messages in a top-up must not show
how much noise is inside, so dummies fill it up to a size that the noise exceeds with probability at
most 2⁻⁶⁴ (then the noise is drawn again).
"""

from __future__ import annotations

import os
from typing import Any

from shuffledp.errors import SeededError
from shuffledp.numbers.arrangement import permutation
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import REPORT_ID_BYTES, Upload, plain_numbers


def report_numbers(task: Task, value: Any, entropy: Entropy = SYSTEM) -> list[int]:
    """The numbers inside the messages of one user's report, in the order of its messages.

    Ensures: `task.report_size` of them, whatever the value. A draw of more messages than the report
    holds is drawn again: never with exact padding, else with probability below 2⁻⁶⁴ per batch.
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


def encrypted_top_up(task: Task, absent: int) -> tuple[bytes, int]:
    """(the encrypted noise of `absent` missing users, its number of messages)."""
    if absent == 0:
        return b"", 0
    size = task.protocol.top_up_size(absent)
    messages = task.protocol.top_up(absent).messages()
    while len(messages) > size:
        messages = task.protocol.top_up(absent).messages()
    return encrypt_all(plain_numbers(messages, size).tolist(), task.key, task.id), size
