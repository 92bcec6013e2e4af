"""Frequent words of an unknown domain: a tree of prefixes over frequencies by groups (MATH §16).

Every group belongs to one level of the tree, and its users hash a prefix of their word instead of
the whole: its first s, 2s, 3s, … characters, or all of it and an end mark where it is no longer.
The analyzer goes down the tree: of each level it asks for every prefix that survived the level
above with every continuation, and keeps those that are frequent. All levels are answered by one
batch of reports, so nobody waits for an earlier level. Privacy is that of `FrequenciesProtocol`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from shuffledp.cells.base import Values, check_one_value_each
from shuffledp.errors import ParameterError, ValueOutOfRange
from shuffledp.numbers.arrangement import uniform_below
from shuffledp.numbers.entropy import SYSTEM, Entropy
from shuffledp.numbers.exact import whole
from shuffledp.protocols.report import Report, View
from shuffledp.queries.frequencies.hashing import text_numbers
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.frequencies.result import FrequenciesResult, GroupCounts
from shuffledp.queries.heavy_hitters.selection import least_behind
from shuffledp.queries.histogram.protocol import Label

END, OTHER = "\x03", "\x1a"
"""The end of a word, and a character that is not in the alphabet."""
MOST_SURVIVORS = 400
"""Prefixes of one level that are followed further, the most frequent ones."""
FIRST_DEVIATIONS, SURE_DEVIATIONS = 2.0, 5.0
"""How many errors above 0 a word must lie on the level on which it ends, and on all from there."""
FALSE_PREFIXES = 0.3
"""How many continuations of a prefix, which nobody holds, survive a level on average."""
MORE = "…"
"""Shown behind a prefix of words that are longer than the tree is deep."""
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Shown for a character that is not in the alphabet."""

FIELDS = tuple(field.name for field in fields(FrequenciesProtocol))


class FoundWord(NamedTuple):
    """A word that was found, with how many users hold it."""

    label: Label
    value: float
    error: float
    shown_from: float
    """From which estimate on it is shown."""

    def low(self, outside: float, wide: float) -> float:
        """The lower end of an interval that would miss with probability `outside` and reach so many
        errors to each side, had the word not been shown because it came out large."""
        error = self.error * wide / -NormalDist().inv_cdf(outside / 2)
        return least_behind(self.value, error, self.shown_from, outside / 2)


@dataclass(frozen=True, kw_only=True)
class HeavyHittersProtocol(FrequenciesProtocol):
    """Which words are frequent, without a list of candidates."""

    alphabet: str
    """The characters that are told apart; all others count as one."""
    step: int
    """How many characters each level adds."""
    levels: int
    threshold: Fraction
    """The share of a level's users from which a prefix is followed further."""
    query: ClassVar[str] = "heavy-hitters"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.step, "step", most=4)
        whole(self.levels, "levels", most=64)
        if not self.alphabet or len(set(self.alphabet)) < len(self.alphabet):
            raise ParameterError("An alphabet needs one character or more, each once.")
        if END in self.alphabet or OTHER in self.alphabet:
            raise ParameterError("An alphabet cannot hold the control characters 3 and 26.")
        if self.groups % self.levels:
            raise ParameterError("Every level needs equally many groups.")
        if not 0 < self.threshold < 1:
            raise ParameterError("threshold must lie strictly between 0 and 1.")
        if self.candidates:
            raise ParameterError("Heavy hitters are found without candidates; leave them out.")

    # Values

    def token(self, word: str, level: int) -> str:
        """What a user of this level hashes: a prefix, or the whole word and the end mark."""
        known, length = set(self.alphabet), self.step * (level + 1)
        plain = "".join(letter if letter in known else OTHER for letter in word[: length + 1])
        return plain[:length] if len(plain) > length else plain + END

    def encode(self, values: Values, entropy: Entropy = SYSTEM) -> Values:
        array = np.asarray(values)
        check_one_value_each(array)
        words = array.tolist() if array.dtype.kind in "UO" else [None]
        distinct = list(dict.fromkeys(words))
        if not all(isinstance(word, str) for word in distinct):
            raise ValueOutOfRange("Words must be texts; nothing was randomized.")
        tokens = [self.token(word, level) for level in range(self.levels) for word in distinct]
        numbers = text_numbers(tokens, self.hashes.point)
        places = {word: place for place, word in enumerate(distinct)}
        at = np.fromiter(map(places.__getitem__, words), np.int64, len(words))
        groups = uniform_below(self.groups, len(array), entropy)
        own = numbers[groups % self.levels * len(distinct) + at]
        return groups * self.cells_per_group + self.hashes.cells(own, groups)

    def sample_values(self, size: int) -> Values:
        return np.resize(np.array([letter * 3 for letter in self.alphabet], object), size)

    # The analyzer

    def level_counts(self, view: View | Report, level: int) -> GroupCounts:
        """What a view says about the groups of one level."""
        every, chosen = self.counts(view), np.arange(level, self.groups, self.levels)
        present = self.present(view)[chosen]
        shares = int(present.sum()) + self.shares_per_group(view.absent) * len(chosen)
        return GroupCounts(
            hashes=every.hashes.part(chosen),
            centred=every.centred[chosen],
            users=int(present.sum()),
            noise=replace(every.noise, shares=shares),
        )

    def continuations(self) -> tuple[list[str], list[str]]:
        """(what a prefix may go on with, what a word may end with) on one level."""
        letters = [*self.alphabet, OTHER]
        strings = [
            ["".join(one) for one in product(letters, repeat=size)] for size in range(self.step + 1)
        ]
        return strings[-1], [one + END for size in strings for one in size]

    def search(self, levels: list[GroupCounts]) -> list[tuple[str, int]]:
        """Every frequent word with the level on which it ends, and prefixes of longer ones from the
        last level. A word that has ended is on all further levels too, which decide together."""
        further, last = self.continuations()
        survivors, words = [""], list[tuple[str, int]]()
        for level, counts in enumerate(levels):
            ended = [prefix + more for prefix in survivors for more in last]
            words += [(one, level) for one in self._sure(ended, levels[level:])]
            asked = [prefix + more for prefix in survivors for more in further]
            estimates = counts.estimates(asked)
            if level == self.levels - 1:
                return words + [(one, level) for one in self._sure(asked, [counts])]
            kept = np.flatnonzero(estimates >= self._least(counts, len(further)))
            kept = kept[np.argsort(-estimates[kept])][:MOST_SURVIVORS]
            survivors = [asked[place] for place in kept]
        return words

    def _least(self, counts: GroupCounts, continuations: int) -> float:
        """From which estimate on a prefix survives: the planned threshold, or more where values
        are less spread than planned and the errors therefore larger."""
        z = surviving_deviations(continuations)
        return max(float(self.threshold) * counts.users, z * float(counts.errors(np.zeros(1))[0]))

    def _sure(self, tokens: list[str], levels: list[GroupCounts]) -> list[str]:
        """The tokens that all these levels together show to be there; the first one alone leaves
        most of them out."""
        if not tokens:
            return []
        first = levels[0]
        spread = float(first.errors(np.zeros(1))[0])
        left = np.flatnonzero(first.estimates(tokens) >= FIRST_DEVIATIONS * spread)
        found = []
        for token in (tokens[place] for place in left):
            total = sum(float(one.estimates([token])[0]) for one in levels)
            if total >= _sure_from(levels):
                found.append(token)
        return found

    def result_of(self, view: View, confidence: float) -> FrequenciesResult:
        """The words that were found, the most frequent first."""
        levels = [self.level_counts(view, level) for level in range(self.levels)]
        users = int(self.present(view).sum())
        found = [
            FoundWord(word_of(token), *self._estimate(token, levels[level:], users))
            for token, level in self.search(levels)
        ]
        found.sort(key=lambda word: -word.value)
        return self._shown(view, confidence, found)

    def chance(self, users: int, share: float, length: int) -> float:
        """How likely a word of so many characters with this share of all users is found: its
        prefixes pass their levels, and the levels on which it has ended show it together.

        A level errs as if its prefixes were spread over `spread`, or over all that it has if those
        are fewer.
        """
        ends = min(-(-max(length, 1) // self.step), self.levels) - 1
        one, drawn = users / self.levels, share * (1 - share) * users / self.levels
        errors = [
            self.rmse(users, min(self.spread, Fraction(len(self.alphabet) ** (self.step * level))))
            / self.levels
            for level in range(1, self.levels + 1)
        ]

        def passed(level_errors: list[float], least: float) -> float:
            levels = len(level_errors)
            spread = math.sqrt(sum(error**2 + drawn for error in level_errors))
            return NormalDist().cdf((share * one * levels - least) / spread)

        prefixes = math.prod(
            passed([error], float(self.threshold) * one) for error in errors[:ends]
        )
        shown = errors[ends:]
        return prefixes * passed(shown, SURE_DEVIATIONS * math.hypot(*shown))

    @property
    def assumption(self) -> str:
        """Also from which share on words are found."""
        short, long = (
            self.found_share(self.reports, 0.95, size) for size in (1, self.step * self.levels)
        )
        return (
            f"{super().assumption}; a word is found with probability 95 % from {short:.3%} of the "
            f"users on if it has 1 character, from {long:.3%} on if it has "
            f"{self.step * self.levels}"
        )

    def found_share(self, users: int, chance: float, length: int) -> float:
        """The share of users from which on a word of so many characters is found so surely."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            found = self.chance(users, middle, length) >= chance
            low, high = (low, middle) if found else (middle, high)
        return high

    def _estimate(
        self, token: str, levels: list[GroupCounts], users: int
    ) -> tuple[float, float, float]:
        """How many of all users hold a token, from those of some levels; its error, which is theirs
        and that they are a random part of all; and from which estimate on it is shown."""
        parts = [float(counts.estimates([token])[0]) for counts in levels]
        squares = sum(
            float(counts.errors(np.array([part]))[0]) ** 2
            for counts, part in zip(levels, parts, strict=True)
        )
        asked = sum(counts.users for counts in levels)
        share = min(max(sum(parts) / asked, 0.0), 1.0)
        drawn = share * (1 - share) / asked * (1 - asked / users) if users > asked else 0.0
        scale = users / asked
        error = math.sqrt(squares * scale**2 + drawn * users**2)
        return sum(parts) * scale, error, _sure_from(levels) * scale

    def _shown(self, view: View, confidence: float, found: list[FoundWord]) -> FrequenciesResult:
        result = super().result_of(view, confidence)
        outside = 1 - confidence
        values, spread = np.array([[word.value, word.error] for word in found]).reshape(-1, 2).T
        ends: dict[str, Any] = {}
        for name, part in (("", outside), ("joint_", outside / max(len(found), 1))):
            wide = result.counts.reach(part)
            low = np.array([word.low(part, wide) for word in found])
            ends[f"{name}low"] = np.floor(low).astype(np.int64)
            ends[f"{name}high"] = np.ceil(values + spread * wide).astype(np.int64)
        return replace(
            result,
            query=self.query,
            labels=tuple(word.label for word in found),
            values=values,
            rmse=float(spread.max()) if found else result.rmse,
            **ends,
        )

    def rmse(self, users: int, spread: Fraction | None = None) -> float:
        """Of one level, scaled to all users."""
        share = users // self.levels
        one = replace_level(self)
        return FrequenciesProtocol.rmse(one, share, spread) * self.levels

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "alphabet": self.alphabet,
            "step": self.step,
            "levels": self.levels,
            "threshold": str(self.threshold),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        plain = FrequenciesProtocol.from_dict(data)
        known = {name: getattr(plain, name) for name in FIELDS}
        return cls(
            **known,
            alphabet=data["alphabet"],
            step=data["step"],
            levels=data["levels"],
            threshold=Fraction(data["threshold"]),
        )


def _sure_from(levels: list[GroupCounts]) -> float:
    """From which sum of these levels' estimates on a word is sure to be there."""
    noise = (float(one.errors(np.zeros(1))[0]) for one in levels)
    return SURE_DEVIATIONS * math.hypot(*noise)


def surviving_deviations(continuations: int) -> float:
    """How many errors above 0 a prefix survives, of so many continuations of which few false ones
    are to survive."""
    return -NormalDist().inv_cdf(min(FALSE_PREFIXES / continuations, 0.1))


def replace_level(tree: HeavyHittersProtocol) -> FrequenciesProtocol:
    """The frequencies of one level alone."""
    known = {name: getattr(tree, name) for name in FIELDS}
    groups = tree.groups // tree.levels
    return FrequenciesProtocol(
        **{**known, "groups": groups, "reports": tree.reports // tree.levels}
    )


def word_of(token: str) -> str:
    """A token as people read it."""
    shown = token.removesuffix(END) if token.endswith(END) else token + MORE
    return shown.replace(OTHER, UNKNOWN)
