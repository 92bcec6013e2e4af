"""How many users have each word that was found, from the rows that it shares with no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from shuffledp.protocols.results import NUMBERS, whole_intervals
from shuffledp.queries.frequencies.tails import (
    Background,
    Counts,
    Flags,
    Seen,
    counts_tried,
    first_place,
    just_above,
)
from shuffledp.queries.heavy_hitters.decoder import Word


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """The tokens in a word's own rows."""

    tokens: int
    own: int
    """The number of rows that it shares with no other word; at least one."""
    rows: int
    """All of its rows."""


def _own_rows(words: Sequence[Word], tokens: Counts) -> list[_Rows]:
    used = np.concatenate([np.unique(word.buckets) for word in words])
    buckets, times = np.unique(used, return_counts=True)
    found = []
    for word in words:
        own = word.buckets[times[np.searchsorted(buckets, word.buckets)] == 1]
        if not own.size:  # every row is shared: the smallest is closest to the truth
            own = word.buckets[[int(np.argmin(tokens[word.buckets]))]]
        found.append(_Rows(tokens=int(tokens[own].sum()), own=own.size, rows=word.buckets.size))
    return found


def estimated(
    words: Sequence[Word], tokens: Counts, background: Background, share: float, outside: float
) -> dict[str, Any]:
    """How many users have each word, as fields of a result, the most frequent first; `background`
    is the law of buckets without a word, `share` the probability that a user sends its row."""
    if not words:
        return {"labels": (), **dict.fromkeys(NUMBERS, np.zeros(0, np.int64))}
    rows = _own_rows(words, tokens)
    mean = float(background.values @ background.weights)
    values = np.array([(row.tokens - row.own * mean) / share * row.rows / row.own for row in rows])
    single = whole_intervals(values, *_intervals(rows, background, share, outside))
    joint = whole_intervals(values, *_intervals(rows, background, share, outside / len(words)))
    order = sorted(range(len(words)), key=lambda at: (-values[at], words[at].text))
    numbers = zip(NUMBERS, (values, *single, *joint), strict=True)
    labels = tuple(words[at].text for at in order)
    return {"labels": labels, **{name: array[order] for name, array in numbers}}


def _intervals(
    rows: Sequence[_Rows], background: Background, share: float, outside: float
) -> tuple[Counts, Counts]:
    """By inverting the law of a word's own rows: Bin(f, share·own/rows) plus that many buckets."""
    low, high = np.zeros((2, len(rows)), np.int64)
    shapes = np.array([(row.own, row.rows) for row in rows])

    @cache
    def several(copies: int, up: bool) -> Background:
        return background.times(copies, up)

    for own, every in np.unique(shapes, axis=0).tolist():
        same = np.flatnonzero((shapes == (own, every)).all(axis=1))
        tokens = np.array([rows[at].tokens for at in same.tolist()], np.int64)
        shown, hidden = (Seen(share * own / every, several(own, up)) for up in (True, False))
        low[same], high[same] = _inverted(tokens, shown, hidden, outside)
    return low, high


def _inverted(tokens: Counts, shown: Seen, hidden: Seen, outside: float) -> tuple[Counts, Counts]:
    """The counts that explain tokens; the law with a background rounded up, and rounded down."""
    tried = counts_tried(int(tokens.max()), shown.share)

    def enough(count: int, at: Counts) -> Flags:
        return np.asarray(shown.at_least(count, tokens[at]) > outside / 2)

    def beyond(count: int, at: Counts) -> Flags:
        return np.asarray(hidden.at_most(count, tokens[at]) <= outside / 2)

    first, last = (first_place(one, tried, len(tokens)) for one in (enough, beyond))
    return just_above(tried, first), tried[last] - 1
