"""The JSON schema of a certificate."""

from __future__ import annotations

from fractions import Fraction

from shuffledp.cells.base import CELL_EPSILON, LARGEST_EPSILON_OF_CELL, MOST_USERS
from shuffledp.cells.sparse.cell import MOST_SPARSE_BUCKETS
from shuffledp.documents.schema import Anything, Listing, OneOf, Rational, Record, Text, Whole
from shuffledp.protocols.base import MOST_BUCKETS, MOST_DIGITS
from shuffledp.protocols.registry import PROTOCOL

CERTIFICATE_FORMAT = "shuffledp certificate 2"
SENTENCE = Text(500)

CELL_PROOF = Record(
    {
        "kind": Text(40),
        "copies": Whole(1, max(MOST_BUCKETS, MOST_SPARSE_BUCKETS)),
        "up": CELL_EPSILON,
        "down": CELL_EPSILON,
        "proof": Anything(most_items=50, exact=True),
    }
)
CERTIFICATE = Record(
    {
        "format": OneOf((CERTIFICATE_FORMAT,)),
        "statement": SENTENCE,
        "epsilon": CELL_EPSILON,
        "loss": Rational(Fraction(0), LARGEST_EPSILON_OF_CELL),
        "rule": SENTENCE,
        "neighbours": SENTENCE,
        "users": Whole(1, MOST_USERS),
        "protocol": PROTOCOL,
        "cells": Listing(CELL_PROOF, 1, MOST_DIGITS),
    },
    {"version": Text(40)},
)
