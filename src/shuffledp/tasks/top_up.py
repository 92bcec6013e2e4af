"""The noise that the shuffler adds to a batch, encrypted like everybody's messages.

How many messages a top-up has must not show how much noise is inside, so it is filled up with
dummies to a number that the noise exceeds with probability at most 2⁻⁶⁴ (then it is drawn again).
"""

from __future__ import annotations

from shuffledp.tasks.encryption import encrypt_all
from shuffledp.tasks.task import Task
from shuffledp.tasks.wire import plain_numbers


def encrypted_top_up(task: Task, absent: int) -> tuple[bytes, int]:
    """The encrypted noise of so many absent users, and how many messages it is."""
    if absent == 0:
        return b"", 0
    size = task.protocol.top_up_size(absent)
    messages = task.protocol.top_up(absent).messages()
    while len(messages) > size:
        messages = task.protocol.top_up(absent).messages()
    return encrypt_all(plain_numbers(messages, size).tolist(), task.key, task.id), size
