"""Noise that the shuffler itself adds to a batch, sealed like everybody's messages.

Its size must say nothing about the noise inside, so it is filled up with dummies to a number
that a draw exceeds with probability at most 2⁻⁶⁴ (and is drawn again then).
"""

from __future__ import annotations

from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.sealed.encryption import encrypt_all
from shuffledp.sealed.task import Task
from shuffledp.sealed.wire import plain_numbers


def noise_only(protocol: Protocol, shares: int, entropy: Entropy = SYSTEM) -> Report:
    """The noise of so many users, and nothing of any value."""
    return protocol.top_up(shares, entropy)


def encrypted_top_up(task: Task, shares: int) -> tuple[bytes, int]:
    """The sealed messages of a top-up, and how many: a function of the task and `shares`."""
    if shares == 0:
        return b"", 0
    room = task.protocol.top_up_size(shares)
    messages = noise_only(task.protocol, shares).messages()
    while len(messages) > room:
        messages = noise_only(task.protocol, shares).messages()
    return encrypt_all(plain_numbers(messages, room).tolist(), task.key, task.id), room
