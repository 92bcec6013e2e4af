"""The canonical text of JSON data: the same bytes in every language.

Names are ASCII and sorted, there are no spaces, texts are UTF-8 with only quotation marks,
backslashes and control characters escaped, and numbers are whole and within ±(2⁵³ − 1), so that a
language whose numbers are floats reads the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shuffledp.tasks.errors import TaskError

LARGEST_WHOLE = (1 << 53) - 1
"""The largest whole number up to which all are exact as floats."""


def canonical_text(data: Mapping[str, Any]) -> bytes:
    """JSON with sorted names and without spaces, in UTF-8.

    Ensures: raises `TaskError` unless every language can write the same text (see above).
    """
    _check(data)
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _check(data: object) -> None:
    if isinstance(data, Mapping):
        for name, value in data.items():
            if not (isinstance(name, str) and name.isascii()):
                raise TaskError("A task has a field name that is not ASCII; create the task again.")
            _check(value)
    elif isinstance(data, list | tuple):
        for value in data:
            _check(value)
    elif isinstance(data, float):
        raise TaskError(
            "A task contains a float; use whole numbers or exact numbers as text instead."
        )
    elif isinstance(data, int) and abs(data) > LARGEST_WHOLE:
        raise TaskError(
            "A whole number in a task is outside ±(2⁵³ − 1), the range that every device reads "
            "exactly; write larger labels as texts."
        )
