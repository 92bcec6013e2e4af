"""Columns as a data frame of an installed library."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from shuffledp.errors import MissingExtra, ParameterError

BACKENDS = ("pandas", "polars", "pyarrow")


def data_frame(
    labels: dict[str, list[Any]], numbers: dict[str, list[Any]], backend: str | None = None
) -> Any:
    """A data frame with these columns, of the named backend or of the first installed one among
    pandas, Polars and PyArrow. A column of labels with the name of a column of numbers, such as
    "low", gets another name: low (label)."""
    if backend is not None and backend not in BACKENDS:
        raise ParameterError(
            f"There is no backend {backend!r} for data frames; use {', '.join(BACKENDS)}."
        )
    wanted = BACKENDS if backend is None else (backend,)
    installed = [name for name in wanted if find_spec(name) is not None]
    if find_spec("narwhals") is None or not installed:
        raise MissingExtra("narwhals" if installed else wanted[-1], "frames")
    import narwhals.stable.v2 as nw

    named: dict[str, list[Any]] = {}
    for name, one in labels.items():
        while name in numbers or name in named:
            name += " (label)"
        named[name] = one
    return nw.from_dict(named | numbers, backend=installed[0]).to_native()  # type: ignore[arg-type]
