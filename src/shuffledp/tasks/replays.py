"""Dropping messages that were seen before: within a batch and across all batches of a key.

If a shuffler could repeat one user's ciphertexts c times, the published result would show that
user's value. Every message begins with its own encapsulated key, so equal keys are copies (and a
message with an altered one no longer opens). Of every counted batch the first 16 bytes of each
encapsulated key are kept, sorted, until the analyzer's key is destroyed (`replay_memory`). A batch
in canonical order is compared with them page by page, so memory does not grow with the batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.documents.files import sync
from shuffledp.tasks.ordering import PAGE_ROWS, Rows
from shuffledp.tasks.parts import Sorter, as_rows
from shuffledp.tasks.wire import ENCAPSULATED_KEY_BYTES, MESSAGE_BYTES

KEPT_KEY_BYTES = 16
"""How much of each message's encapsulated key is kept to recognise a copy."""
Texts = NDArray[np.bytes_]


def texts(rows: Rows, width: int) -> Texts:
    """The rows' first bytes as texts, which NumPy compares byte by byte."""
    found: Texts = np.ascontiguousarray(rows[:, :width]).view(f"S{width}")[:, 0]
    return found


def in_canonical_order(parts: Iterable[bytes]) -> bool:
    """Whether the messages in these parts are in canonical order."""
    last: Any = None
    for data in parts:
        names = texts(as_rows(data), MESSAGE_BYTES)
        if (last is not None and names[0] < last) or (names[1:] < names[:-1]).any():
            return False
        last = names[-1]
    return True


def in_order(parts: Callable[[], Iterable[bytes]], folder: Path, memory: int) -> Iterator[Rows]:
    """The messages of a batch in canonical order, page by page; `parts` gives its parts, in any
    order, as often as it is called. What is sorted on disk is in `folder`, about `memory` bytes are
    held at a time."""
    if in_canonical_order(parts()):
        found: Iterable[bytes] = parts()
    else:
        sorter = Sorter(folder, memory)
        for data in parts():
            sorter.add(data)
        found = sorter.parts()
    for data in found:
        rows = as_rows(data)
        for start in range(0, len(rows), PAGE_ROWS):
            yield rows[start : start + PAGE_ROWS]


def first_seen(
    pages: Iterable[Rows], earlier: Iterable[Path], remember: Path
) -> Iterator[tuple[Rows, int]]:
    """(new rows, number of copies) of each page of a batch in canonical order.

    Ensures: after the last page, `remember` holds the beginnings of all encapsulated keys of the
    batch, on disk.
    """
    known = [np.memmap(path, f"S{KEPT_KEY_BYTES}", "r") for path in earlier if path.stat().st_size]
    part = remember.with_suffix(".part")
    last: Any = None
    with open(part, "wb") as out:
        for rows in pages:
            names = texts(rows, ENCAPSULATED_KEY_BYTES)
            fresh = np.ones(len(rows), bool)
            fresh[1:] = names[1:] != names[:-1]
            fresh[0] = last is None or names[0] != last
            last = names[-1]
            fresh &= ~_among(texts(rows, KEPT_KEY_BYTES), known)
            out.write(np.ascontiguousarray(rows[:, :KEPT_KEY_BYTES]).tobytes())
            yield rows[fresh], int(len(rows) - fresh.sum())
        out.flush()
        os.fsync(out.fileno())
    part.replace(remember)
    sync(remember.parent)


def _among(names: Texts, known: list[Any]) -> NDArray[np.bool_]:
    """Which of these ascending names are in one of the sorted files."""
    found = np.zeros(len(names), bool)
    for file in known:
        low = int(np.searchsorted(file, names[:1], "left")[0])
        high = int(np.searchsorted(file, names[-1:], "right")[0])
        if high > low:
            found |= np.isin(names, file[low:high])
    return found
