"""What a test needs beyond Python: said loudly where it is missing, or a failure."""

from __future__ import annotations

import os
import warnings

import pytest

EVERYTHING = os.environ.get("SHUFFLEDP_ALL_TESTS") == "1"


def missing(what: str, how: str) -> None:
    """Says loudly what is left out, or fails where nothing may be."""
    sentence = f"{what} is not installed; its tests are LEFT OUT ({how})"
    if EVERYTHING:
        pytest.fail(sentence)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(sentence, stacklevel=2)
    pytest.skip(sentence)
