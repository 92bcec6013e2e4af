"""`for_each` tries every row, and a row that fails is named."""

from __future__ import annotations

import pytest
from rows import for_each


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    tried: list[int] = []

    @for_each([1, 2, 3, 4], lambda row: f"row {row}")
    def check(row: int) -> None:
        tried.append(row)
        assert row != 2
        if row == 3:
            pytest.fail("three")

    with pytest.raises(AssertionError, match=r"2 of 4 rows:\nrow 2: .*\nrow 3: Failed: three"):
        check()
    assert tried == [1, 2, 3, 4]


def test_rows_that_hold_pass_and_no_rows_do_not() -> None:
    @for_each(["a", "b"])
    def good(row: str) -> None:
        assert row in "ab"

    good()
    with pytest.raises(AssertionError, match="no rows"):
        for_each([])(good)()  # type: ignore[arg-type]
