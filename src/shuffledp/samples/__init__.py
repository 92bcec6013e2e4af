"""Sample data for first steps: made-up people, not real ones.

    shuffledp.count("sample:commute", epsilon=1, column="bikes")

commute   10,000 people: whether they bike to work (`bikes`, 0 or 1), how they get there (`way`) and
          how long it takes (`minutes`, 0..120)
"""

from __future__ import annotations

from pathlib import Path

from shuffledp.errors import ParameterError

PREFIX = "sample:"
"""The prefix that names a sample instead of a file, in Python and on the command line."""


def commute() -> Path:
    """The file of 10,000 made-up people and their way to work.

    >>> import shuffledp
    >>> shuffledp.samples.commute().name
    'commute.csv'
    """
    return path("commute")


def names() -> list[str]:
    """The names of all samples."""
    return sorted(file.stem for file in _folder().glob("*.csv"))


def path(name: str) -> Path:
    """The file of a sample; raises `ParameterError` for an unknown name."""
    if name not in names():
        raise ParameterError(f"There is no sample {name!r}; choose one of: {', '.join(names())}.")
    return _folder() / f"{name}.csv"


def _folder() -> Path:
    return Path(__file__).parent
