"""What the JSON of a protocol may hold."""

from __future__ import annotations

from fractions import Fraction

from shuffledp.cells.base import MOST_USERS
from shuffledp.cells.schema import CELL, CELL_EPSILON
from shuffledp.documents.schema import (
    Choice,
    Either,
    Flag,
    Listing,
    Nothing,
    Pattern,
    Rational,
    Record,
    Schema,
    Text,
    Whole,
)
from shuffledp.protocols.base import MOST_BUCKETS, MOST_DIGITS
from shuffledp.protocols.bounds import LARGEST_BOUND
from shuffledp.queries.by_group import protocol as by_group
from shuffledp.queries.by_group.result import ANSWERS
from shuffledp.queries.frequencies import protocol as frequencies
from shuffledp.queries.frequencies.hashing import MOST_CANDIDATES, SEED_BYTES
from shuffledp.queries.quantiles import protocol as quantiles
from shuffledp.queries.quantiles.dates import UNITS
from shuffledp.queries.real_sum.rounding import MOST_DITHER

LONGEST_LABEL = 1_000
LARGEST_LABEL = 2**63 - 1
MOST_LEVELS = quantiles.MOST_BUCKETS.bit_length()

BOUND = Rational(Fraction(-LARGEST_BOUND), Fraction(LARGEST_BOUND))
LABEL = Either((Text(LONGEST_LABEL), Whole(-LARGEST_LABEL - 1, LARGEST_LABEL)))
CANDIDATE = Either((Text(LONGEST_LABEL), Whole(-LARGEST_LABEL - 1, 2**64 - 1)))
DIRECTED = Record({"cell": CELL, "down": CELL_EPSILON})
LEVEL = Record({"buckets": Whole(2, quantiles.MOST_BUCKETS), "cell": CELL, "down": CELL_EPSILON})


def _counting(query: str) -> Record:
    return Record({"query": Choice((query,)), "epsilon": CELL_EPSILON, "cell": CELL})


def _frequencies(query: str) -> dict[str, Schema]:
    return {
        "query": Choice((query,)),
        "epsilon": CELL_EPSILON,
        "users": Whole(1, MOST_USERS),
        "groups": Whole(1, frequencies.MOST_GROUPS),
        "cells_per_group": Whole(2, frequencies.MOST_CELLS_PER_GROUP),
        "cell": CELL,
        "spread": Rational(Fraction(1), Fraction(MOST_USERS)),
        "hash_seed": Text(
            2 * SEED_BYTES, 2 * SEED_BYTES, Pattern("[0-9a-f]*", "hexadecimal digits")
        ),
        "candidates": Listing(CANDIDATE, 0, MOST_CANDIDATES),
    }


SCHEMAS: dict[str, Record] = {
    "count": _counting("count"),
    "integer-sum": _counting("integer-sum"),
    "real-sum": Record(
        {
            "query": Choice(("real-sum",)),
            "epsilon": CELL_EPSILON,
            "low": BOUND,
            "high": BOUND,
            "digits": Listing(CELL, 1, MOST_DIGITS),
        },
        optional={"dither": Whole(2, MOST_DITHER)},
    ),
    "histogram": Record(
        {
            "query": Choice(("histogram",)),
            "epsilon": CELL_EPSILON,
            "cell": CELL,
            "labels": Listing(LABEL, 2, MOST_BUCKETS),
            "other": Either((Nothing(), *LABEL.schemas)),
        }
    ),
    "frequencies": Record(_frequencies("frequencies")),
    "heavy-hitters": Record(
        {
            **_frequencies("heavy-hitters"),
            "alphabet": Text(1_000, 1),
            "step": Whole(1, 4),
            "levels": Whole(1, 64),
            "threshold": Rational(Fraction(0), Fraction(1)),
        }
    ),
    "by-group": Record(
        {
            "query": Choice(("by-group",)),
            "epsilon": CELL_EPSILON,
            "answer": Choice(ANSWERS),
            "labels": Listing(LABEL, 2, by_group.MOST_GROUPS),
            "low": BOUND,
            "high": BOUND,
            "digits": Listing(DIRECTED, 1, MOST_DIGITS),
        },
        optional={"sizes": DIRECTED},
    ),
    "quantiles": Record(
        {
            "query": Choice(("quantiles",)),
            "epsilon": CELL_EPSILON,
            "low": BOUND,
            "high": BOUND,
            "levels": Listing(LEVEL, 1, MOST_LEVELS),
        },
        optional={"points": Flag(), "unit": Choice(tuple(UNITS))},
    ),
}
