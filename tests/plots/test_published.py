"""The picture of published results: a dot, clipped to the possible, and a span for every number of
every batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp.errors import ParameterError
from shuffledp.plots.results import MOST_LINES, plot_published, published_png


def published(number: int, result: Any) -> dict[str, Any]:
    return {"number": number, "reports": result.users, "result": result.to_dict()}


def test_every_number_is_drawn_where_it_lies() -> None:
    plan = shuffledp.plan_histogram(100, 4, ["a $b$", "c"])
    result = plan.run(np.array(["c"] * 100, object))
    (axes,) = plot_published([published(1, result), published(2, result)]).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(np.asarray(dot.get_xdata())[0]) for dot in dots] == [
        *result.clipped,
        *result.clipped,
    ]
    spans = [np.asarray(line.get_xdata()) for line in axes.lines if line.get_marker() != "o"]
    assert [float(span[0]) for span in spans][:2] == result.low.tolist()
    texts = [text.get_text() for text in axes.get_yticklabels()]
    assert texts[0] == "batch 1: a $b$" and len(texts) == 4
    assert published_png([published(1, result)]).startswith(b"\x89PNG")


def test_many_numbers_are_cut_to_the_newest_and_none_are_refused() -> None:
    result = shuffledp.plan_count(10, 4).run(np.ones(10, int))
    many = [published(number, result) for number in range(1, MOST_LINES + 6)]
    (axes,) = plot_published(many).axes
    texts = [text.get_text() for text in axes.get_yticklabels()]
    assert len(texts) == MOST_LINES and texts[0] == "batch 6: count"
    with pytest.raises(ParameterError, match="no published result yet"):
        plot_published([])
