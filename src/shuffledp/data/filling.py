"""Replaces missing values with the value that the caller chooses (`missing=`)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.data.arrays import MISSING_TYPES
from shuffledp.errors import ParameterError

BUCKET = "bucket"
MISSING_LABEL = "missing"
"""The label that missing="bucket" adds."""
WRONG_TYPE = "missing must be a value of the column's type, or the word bucket for a histogram."


def is_missing(value: object) -> bool:
    """Whether a Python object means a missing value: None, NaN, NA or NaT."""
    if type(value).__name__ in MISSING_TYPES:
        return True
    if isinstance(value, float | np.floating | Decimal):
        return math.isnan(value)
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def filled_objects(values: Iterable[object], fill: object) -> list[object]:
    """The values, with `fill` for every missing one."""
    return [fill if is_missing(value) else value for value in values]


def filled_array(array: NDArray[Any], fill: object) -> Any:
    """A NumPy array with `fill` for every missing value; a list if its type does not fit both."""
    masked = isinstance(array, np.ma.MaskedArray)
    if not masked and array.dtype.kind in "biuSU":
        return array
    if not masked and array.dtype.kind in "f" and isinstance(fill, int | float):
        return np.where(np.isnan(array), fill, array)
    return filled_objects(list(array.tolist() if array.dtype.kind not in "M" else array), fill)


def filled_chunk(chunk: Any, fill: object) -> Any:
    """A plain Arrow array with `fill` for every null and NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    wanted = chunk.type
    if isinstance(fill, str) != (pa.types.is_string(wanted) or pa.types.is_large_string(wanted)):
        raise ParameterError(WRONG_TYPE)
    try:
        one = pa.scalar(fill, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise ParameterError(WRONG_TYPE) from None
    if pa.types.is_integer(wanted) and one.as_py() != fill:  # Arrow would round 0.5 to 0
        raise ParameterError(WRONG_TYPE)
    if pa.types.is_floating(wanted):
        chunk = pc.if_else(pc.is_nan(chunk), one, chunk)
    return pc.fill_null(chunk, one)
