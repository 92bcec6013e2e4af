"""The order of a batch's messages, which does not reveal who sent what.

Canonical order sorts the messages by their bytes. It depends only on the messages, so it needs no
randomness, is the same after every retry, and puts replays next to each other. Uniform order sorts
by AES-256 of each message's first block, with a key that is drawn for the batch and erased with it.
Nobody without the key can distinguish this order from a uniformly random one, and it is also the
same after every retry. `parts.Sorter` brings a batch that is larger than memory into this order.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from numpy.typing import NDArray

Rows = NDArray[np.uint8]
"""One encrypted message per row."""
ORDER_SECRET_BYTES = 32
PAGE_ROWS = 1 << 15
"""Messages read at a time."""
_BLOCK_BYTES = 16
_HEAD_BYTES = 8


def sort_keys(rows: Rows, secret: bytes | None) -> NDArray[np.uint8]:
    """The sort keys of the rows: themselves, or their first block encrypted with AES."""
    if secret is None:
        return rows
    stream = Cipher(AES(secret), ECB()).encryptor()
    blocks = stream.update(np.ascontiguousarray(rows[:, :_BLOCK_BYTES]).tobytes())
    return np.frombuffer(blocks, np.uint8).reshape(len(rows), _BLOCK_BYTES)


def ordered(rows: Rows, secret: bytes | None = None) -> Rows:
    """The rows in canonical order, or in the order of a secret. If the keys of two rows are equal,
    the rows themselves decide: the order never depends on the order of arrival."""
    keys = sort_keys(rows, secret)
    heads = np.ascontiguousarray(keys[:, :_HEAD_BYTES]).view(">u8")[:, 0].astype(np.uint64)
    order = np.argsort(heads)  # on whole numbers: seven times as fast as on the rows
    same = np.diff(heads[order]) == 0
    if same.any():
        tied_at = np.flatnonzero(np.append(same, False) | np.append(False, same))
        tied = order[tied_at]
        texts = np.ascontiguousarray(np.hstack((keys[tied], rows[tied])))
        order[tied_at] = tied[np.argsort(texts.view(f"S{texts.shape[1]}")[:, 0])]
    return np.take(rows, order, axis=0)
