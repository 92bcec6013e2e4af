"""One test over the rows of a file of vectors, instead of a test per row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Row = TypeVar("Row")


def for_each(
    rows: Iterable[Row], name: Callable[[Row], object] = str
) -> Callable[[Callable[[Row], None]], Callable[[], None]]:
    """Makes a check of one row a test of all rows. It tries every row and names those that fail."""

    def test_of(check: Callable[[Row], None]) -> Callable[[], None]:
        def test() -> None:
            wrong: list[str] = []
            first: BaseException | None = None
            tried = 0
            for row in rows:
                tried += 1
                try:
                    check(row)
                except (Exception, pytest.fail.Exception) as error:
                    first = first or error
                    wrong.append(f"{name(row)}: {type(error).__name__}: {error}")
            assert tried, "there are no rows"
            if wrong:
                raise AssertionError(
                    f"{len(wrong)} of {tried} rows:\n" + "\n".join(wrong)
                ) from first

        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        return test

    return test_of
