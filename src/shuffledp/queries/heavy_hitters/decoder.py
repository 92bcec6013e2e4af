"""Finds the words in a table of rows: search, a test for every word, and peeling.

A word that nobody has is in uniformly random buckets. A word is accepted only if its rows have more
tokens than chance explains, and longer words need more: the words of u units share a weight, and
all weights add up to at most 1 (Kraft's inequality). So the expected number of accepted words that
nobody has is at most `FALSE_PER_ROUND` in a round. The distribution of a random bucket is estimated
from the table, so it includes noise, jumps and other words. Accepted words are subtracted from the
table, which uncovers rarer ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shuffledp.queries.heavy_hitters.units import (
    BLOCK,
    LAST,
    LEAST_ROWS,
    Layout,
    rows_of,
    word_of,
)

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FALSE_WORDS = 0.02
"""The most words that nobody has that a whole search accepts on average."""
MOST_ROUNDS = 25
FALSE_PER_ROUND = FALSE_WORDS / MOST_ROUNDS
LOW_THRESHOLD = 60
"""From this round the threshold falls more slowly."""
NEW_WORDS = 0.01
"""The share of all words that the last round may add."""


def log_weight(units: int) -> float:
    """ln W of a word of this many units: 1/W, summed over all words, is at most 1."""
    return units * math.log(32) + math.log(units * (units + 1))


def log_gamma_tail(rows: int, score: Floats) -> Floats:
    """ln P(a sum of `rows` standard exponential variables ≥ score)."""
    score = np.maximum(score, 1e-300)
    total, term = np.ones_like(score), np.ones_like(score)
    for k in range(rows - 1, 0, -1):  # Σ_k x^k/k!, relative to its last term
        term = term * (k / score)
        total += term
    logs = -score + (rows - 1) * np.log(score) - math.lgamma(rows) + np.log(total)
    return np.where(score < rows - 1, 0.0, np.minimum(logs, 0.0))


def passes(units: int, least: Floats, total: Floats, extra: Floats | float = 0.0) -> Flags:
    """Whether words of `units` units are accepted: either their weakest row, or all rows together,
    is too unlikely by chance. A row's score is ln(1/P); `least` and `total` are the scores of the
    weakest row and of all rows, `extra` is the penalty for choosing among rows."""
    rows = rows_of(units)
    price = log_weight(units) + math.log(2 / FALSE_PER_ROUND) + extra
    return np.asarray((rows * least >= price) | (log_gamma_tail(rows, total) <= -price))


@dataclass(frozen=True, kw_only=True, eq=False)
class Word:
    """A word that was accepted."""

    text: str
    buckets: Counts
    """Of its rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Found:
    """A word that passed the test, to be accepted."""

    word: Word
    weakest: int
    counted: Counts
    """The buckets of the rows that its test counted by their tokens."""


@dataclass(kw_only=True, eq=False)
class _Paths:
    """Beginnings of words: one step of the search adds a row to each."""

    ids: Counts
    least: Floats
    total: Floats
    wild: Flags
    """Whether one row was explained by another word."""
    parents: list[Counts] = field(default_factory=list)
    """For each row, the index of each path's predecessor in the row before."""
    buckets: list[Counts] = field(default_factory=list)

    def history(self, at: int) -> list[int]:
        """The buckets of a path, row by row."""
        found = []
        for parents, buckets in zip(self.parents[::-1], self.buckets[::-1], strict=True):
            found.append(int(buckets[at]))
            at = int(parents[at])
        return found[::-1]


@dataclass(kw_only=True, eq=False)
class Decoder:
    """The search in one table."""

    layout: Layout
    tokens: Counts
    empty_tail: Floats
    """P(an empty bucket has ≥ v tokens) for v = 0, 1, …"""
    words: dict[str, Word] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = self.tokens.copy()
        """The tokens that no accepted word explains."""
        self.explained: Flags = np.zeros(len(self.tokens), bool)

    def decode(self) -> list[Word]:
        """All words that the table shows, in no particular order."""
        threshold = float(self.left.max(initial=0)) / 2
        for _ in range(MOST_ROUNDS):
            above = np.cumsum(np.bincount(self.left)[::-1])[::-1]  # buckets with ≥ v tokens
            lowest = max(1, int(np.count_nonzero(above > self.layout.blocks)))
            threshold = max(threshold, lowest)
            found = self._round(math.ceil(threshold), self._scores(above))
            accepted = self._accept(found)
            if threshold <= lowest and accepted <= NEW_WORDS * len(self.words):
                break
            threshold *= 0.5 if threshold > LOW_THRESHOLD else 0.6
        return self._owners()

    def _scores(self, above: Counts) -> Floats:
        """ln(1/P) of a row with v tokens, for v = 0, 1, …"""
        size, buckets = len(above), len(self.tokens)
        tail = np.zeros(size)
        known = self.empty_tail[:size]
        tail[: len(known)] = known
        return np.asarray(-np.log(np.maximum(np.maximum(above / buckets, tail), 1 / buckets)))

    # One round: rows of 64 values, for all numbers of words at once

    def _round(self, threshold: int, scores: Floats) -> list[_Found]:
        strong = self.left >= threshold
        open_buckets = np.flatnonzero(strong | self.explained)
        begins = np.searchsorted(open_buckets, np.arange(self.layout.blocks + 1) * BLOCK)
        wild_score = math.log(len(self.tokens) / max(1, int(self.explained.sum())))
        ids = np.arange(1 << self.layout.id_bits)
        zeros = np.zeros(len(ids))
        paths = _Paths(ids=ids, least=zeros + np.inf, total=zeros, wild=zeros.astype(bool))
        found: list[_Found] = []
        row = 0
        while paths.ids.size:
            block, turn = self.layout.places(paths.ids, row)
            first, sizes = begins[block], begins[block + 1] - begins[block]
            parents = np.repeat(np.arange(len(paths.ids)), sizes)
            steps = np.arange(len(parents)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            buckets = open_buckets[first[parents] + steps]
            wild = ~strong[buckets]
            kept = ~(wild & paths.wild[parents])
            parents, buckets, wild = parents[kept], buckets[kept], wild[kept]
            symbols = (buckets - turn[parents]) % BLOCK
            score = np.where(wild, wild_score, scores[self.left[buckets]])
            paths = _Paths(
                ids=paths.ids[parents],
                least=np.minimum(paths.least[parents], score),
                total=paths.total[parents] + score,
                wild=paths.wild[parents] | wild,
                parents=[*paths.parents, parents],
                buckets=[*paths.buckets, buckets],
            )
            row += 1
            ended = np.flatnonzero(symbols >= LAST)
            found += self._ended(paths, ended, row, strong, scores, wild_score)
            paths = _part(paths, np.flatnonzero(symbols < LAST))
        return found

    def _ended(
        self,
        paths: _Paths,
        ended: Counts,
        units: int,
        strong: Flags,
        scores: Floats,
        wild_score: float,
    ) -> list[_Found]:
        """The words among paths whose last row was a last unit."""
        least, total, wild = paths.least[ended], paths.total[ended], paths.wild[ended]
        checks = []
        for row in range(units, LEAST_ROWS):  # rows that a short word does not fill carry 0
            block, turn = self.layout.places(paths.ids[ended], row)
            bucket = block * BLOCK + turn
            here = ~strong[bucket]
            alive = strong[bucket] | (self.explained[bucket] & ~wild)
            score = np.where(here, wild_score, scores[self.left[bucket]])
            least = np.where(alive, np.minimum(least, score), -np.inf)
            total, wild = total + score, wild | here
            checks.append(bucket)
        extra = np.where(wild, math.log(rows_of(units)), 0.0)
        good = np.flatnonzero(passes(units, least, total, extra) & np.isfinite(least))
        found = []
        for at in good.tolist():
            path = paths.history(int(ended[at]))
            buckets = np.array(path + [int(check[at]) for check in checks], np.int64)
            text = self._text(int(paths.ids[ended[at]]), buckets[:units])
            if text is not None and text not in self.words:
                counted = buckets[strong[buckets]]
                found.append(
                    _Found(
                        word=Word(text=text, buckets=buckets),
                        weakest=int(self.left[counted].min()),
                        counted=counted,
                    )
                )
        return found

    def _text(self, number: int, buckets: Counts) -> str | None:
        """The word with this number and these buckets; None if there is none."""
        _, turns = self.layout.places(np.full(len(buckets), number), np.arange(len(buckets)))
        text = word_of(((buckets - turns) % BLOCK % LAST).tolist())
        if text is None or int(self.layout.ids([text])[0]) != number:
            return None
        return text

    def _accept(self, found: list[_Found]) -> int:
        """Accepts the words of a round, the strongest first, unless another word has explained a
        row in the meantime; returns how many."""
        before, explained = len(self.words), self.explained.copy()
        for one in sorted(found, key=lambda one: (-one.weakest, one.word.text)):
            meanwhile = self.explained[one.counted] & ~explained[one.counted]
            if one.word.text in self.words or meanwhile.any():
                continue
            self.words[one.word.text] = one.word
            held = np.unique(one.word.buckets)
            level = float(np.median(self.left[one.counted]))
            rest = np.maximum(self.left[held] - round(level), 0)
            self.left[held] = np.where(rest < 5 * math.sqrt(level) + 5, 0, rest)
            self.explained[held] = True
        return len(self.words) - before

    def _owners(self) -> list[Word]:
        """The words at least half of whose rows did not belong to another word before."""
        taken, kept = np.zeros(len(self.tokens), bool), []
        for word in self.words.values():
            own = ~taken[word.buckets]
            taken[word.buckets] = True
            if 2 * np.count_nonzero(own) >= len(own):
                kept.append(word)
        return kept


def _part(paths: _Paths, chosen: Counts) -> _Paths:
    """Some of the paths."""
    return _Paths(
        ids=paths.ids[chosen],
        least=paths.least[chosen],
        total=paths.total[chosen],
        wild=paths.wild[chosen],
        parents=[*paths.parents[:-1], paths.parents[-1][chosen]],
        buckets=[*paths.buckets[:-1], paths.buckets[-1][chosen]],
    )
