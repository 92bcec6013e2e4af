"""Parts that the JSON of several queries' protocols and results have in common."""

from __future__ import annotations

from fractions import Fraction

from shuffledp.cells.base import CELL_EPSILON
from shuffledp.cells.registry import CELL
from shuffledp.documents.schema import (
    Either,
    Listing,
    OneOf,
    Rational,
    Real,
    Record,
    Schema,
    Text,
    Whole,
)
from shuffledp.protocols.bounds import LARGEST_BOUND
from shuffledp.queries.histogram.protocol import LARGEST_LABEL, LONGEST_LABEL

BOUND = Rational(Fraction(-LARGEST_BOUND), Fraction(LARGEST_BOUND))
LABEL = Either((Text(LONGEST_LABEL), Whole(-LARGEST_LABEL - 1, LARGEST_LABEL)))
INTERVAL = Listing(Real(), 2, 2)
ESTIMATE: dict[str, Schema] = {"estimate": Real(), "clipped": Real(), "interval": INTERVAL}
BUCKET = Record({"label": LABEL, **ESTIMATE, "joint_interval": INTERVAL})


def protocol_record(
    query: str, fields: dict[str, Schema], optional: dict[str, Schema] | None = None
) -> Record:
    """The JSON of a protocol: the query it answers, its ε, and its own fields."""
    head: dict[str, Schema] = {"query": OneOf((query,)), "epsilon": CELL_EPSILON}
    return Record({**head, **fields}, optional or {})


def one_cell(query: str) -> Record:
    """The JSON of a protocol with a single cell."""
    return protocol_record(query, {"cell": CELL})
