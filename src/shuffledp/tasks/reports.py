"""One user's report, encrypted: what a device sends to the shuffler."""

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
    # in random order: a message's position in the report says nothing about what it holds, so
    # that somebody who destroys chosen messages of a report does not choose what is lost
    ordered: list[int] = numbers[permutation(task.report_size, entropy)].tolist()
    return ordered


def encrypt_report(
    task: Task, value: Any, entropy: Entropy = SYSTEM, *, report_id: bytes | None = None
) -> bytes:
    """One user's report as it is posted: `task.report_size` messages, each encrypted on its own.
    A report without a given id gets a random one.

    Requires: a verified task.
    Ensures: the number of bytes does not depend on the value, nor a message's position on what it
    holds.
    """
    if entropy.seeded:
        raise SeededError(
            "Reports of real people need the operating system's randomness; leave the seed out."
        )
    return Upload(
        task_id=task.id,
        report_id=report_id or os.urandom(REPORT_ID_BYTES),
        key_id=task.key.key_id,
        messages=encrypt_all(report_numbers(task, value, entropy), task.key, task.id),
    ).to_bytes()
