"""The error that a Spark cluster causes, and how Spark's own errors become it.

ShuffleDPError
└── ClusterError    no Java, a version too old, a master that does not answer, a failed job
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from shuffledp.errors import ShuffleDPError

SPARK_PACKAGES = ("pyspark", "py4j", "grpc")
"""Packages whose errors mean that Spark failed."""


class ClusterError(ShuffleDPError):
    """The cluster could not be reached or did not finish; nothing was released."""


@contextmanager
def spark_failures(sentence: str = "") -> Iterator[None]:
    """Turns Spark's exceptions into one sentence; the original stays as the cause."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.split(".")[0] not in SPARK_PACKAGES:
            raise
        raise ClusterError(
            sentence
            or f"Spark did not finish the job ({_condition(error)}); nothing was released: "
            "check Spark's log, then try again."
        ) from error


@contextmanager
def without_pandas_warnings() -> Iterator[None]:
    """Hides pyspark's warnings about versions of pandas, which is not used."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*pandas", category=FutureWarning)
        warnings.filterwarnings("ignore", message=".*pandas", category=UserWarning)
        yield


def _condition(error: BaseException) -> str:
    """The name of the error, without Spark's text, which may quote values."""
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    name = ask() if ask is not None else None
    return str(name) if name else type(error).__name__
