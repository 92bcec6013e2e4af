"""One Spark session for these tests, all of which run in one worker."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

HERE = "tests/engines/spark"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.as_posix():
            # pyspark speaks about pandas versions, and leaves sockets to the collector
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session with two cores, in which a task may fail four times."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from shuffledp.spark import session

        found = session("local[2,4]", **SETTINGS)
        yield found
        found.stop()
