"""The noise that the shuffler adds to a batch, encrypted like everybody's messages.

How many messages a top-up has must not show how much noise is inside, so it is filled up with
dummies to a number that the noise exceeds with probability at most 2⁻⁶⁴ (then it is drawn again).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shuffledp.exact.entropy import SYSTEM, Entropy
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.report import Report
from shuffledp.protocols.report_size import top_up_capacity
from shuffledp.sealed.encryption import encrypt_all
from shuffledp.sealed.keys import PublicKey
from shuffledp.sealed.wire import plain_numbers


def top_up_size(protocol: Protocol, shares: int) -> int:
    """Messages in a top-up of so many users' shares of noise, dummies included."""
    return top_up_capacity(protocol.uses, Fraction(shares, protocol.users)) if shares else 0


def noise_only(protocol: Protocol, shares: int, entropy: Entropy = SYSTEM) -> Report:
    """The noise of so many users, and nothing of any value."""
    drawn = [use.cell.noise(shares, use.copies, entropy) for use in protocol.uses]
    plus, minus = (np.concatenate(side) for side in zip(*drawn, strict=True))
    return Report(shares, plus, minus, entropy.seeded)


def encrypted_top_up(
    protocol: Protocol, shares: int, key: PublicKey, task_id: bytes
) -> tuple[bytes, int]:
    """The encrypted messages of a top-up, and how many they are: `top_up_size`."""
    size = top_up_size(protocol, shares)
    if size == 0:
        return b"", 0
    messages = noise_only(protocol, shares).messages()
    while len(messages) > size:
        messages = noise_only(protocol, shares).messages()
    return encrypt_all(plain_numbers(messages, size).tolist(), key, task_id), size
