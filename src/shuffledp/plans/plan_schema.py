"""The JSON schema of a plan."""

from __future__ import annotations

from fractions import Fraction

from shuffledp.cells.base import MOST_USERS
from shuffledp.documents.schema import (
    Anything,
    Either,
    Flag,
    Listing,
    Nothing,
    OneOf,
    Rational,
    Real,
    Record,
    Whole,
)
from shuffledp.plans.certificate_schema import CERTIFICATE

PLAN_FORMAT = "shuffledp plan 2"
TARGET_NUMBER = Rational(Fraction(0), Fraction(10**30))
NAMED_NUMBERS = (
    "messages_per_user",
    "bits_per_message",
    "rmse",
    "rmse_at_zero",
    "central_rmse",
)

TARGET = Record(
    {},
    {
        "mse_overhead": TARGET_NUMBER,
        "rmse": TARGET_NUMBER,
        "max_messages": TARGET_NUMBER,
        "relative_error": TARGET_NUMBER,
        "error_at": TARGET_NUMBER,
        "padded": Flag(),
    },
)
PLAN = Record(
    {
        "format": OneOf((PLAN_FORMAT,)),
        "expected_users": Whole(1, MOST_USERS),
        "target": TARGET,
        "interval_95": Listing(Real(), 2, 2),
        "certificate": CERTIFICATE,
        "limit_messages_per_user": Either((Real(), Nothing())),
        **{name: Real() for name in NAMED_NUMBERS},
    },
    {"rmse_at": Either((Nothing(), Real()))},
    others=Anything(),
)
