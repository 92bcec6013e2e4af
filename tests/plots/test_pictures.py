"""Pictures of results: every label as it is, every interval to be seen."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import shuffledp
from shuffledp.plots import figures
from shuffledp.plots.labels import Labelled, label_points

LABELS = ["$5 & $10", "a\\$b", "x^2_3", "Köln", "東京", "line\nbreak", "", "é" * 60]


def texts_below(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].get_xticklabels()]


def a_histogram(labels: list[str], users: int = 80) -> Any:
    data = [labels[n % len(labels)] for n in range(users)]
    return shuffledp.histogram(data, epsilon=8, labels=labels, seed=1)


@pytest.mark.filterwarnings("ignore:No installed font")
def test_labels_appear_as_they_are_and_without_warnings(tmp_path: Path) -> None:
    figure = a_histogram(LABELS).plot(str(tmp_path / "h.png"))  # other warnings are errors here
    shown = texts_below(figure)
    assert shown[:4] == LABELS[:4] and shown[5:7] == ["line break", "(empty)"]
    assert shown[4] == ("#5" if figures.fonts_for(tuple(LABELS)) is None else "東京")
    assert all(not text.get_parse_math() for text in figure.axes[0].get_xticklabels())
    assert len(shown[7]) == 41


def test_without_a_font_labels_are_numbered_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figures, "fonts_for", lambda _: None)
    with pytest.warns(UserWarning, match="No installed font"):
        figure = a_histogram(["東京", "Köln"]).plot()
    assert texts_below(figure) == ["#1", "Köln"]
    assert "no installed font" in figure.axes[0].get_xlabel()


def test_fonts_have_the_characters_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With made-up fonts, since the installed ones differ from machine to machine."""
    from matplotlib import font_manager

    assert figures.fonts_for(("abc", "Köln")) == ("DejaVu Sans",)
    own = {"han": "東京", "thai": "กข", "Last Resort": "東京กข★"}
    listed = [font_manager.FontEntry(fname=name, name=name) for name in own]
    known = figures._characters
    monkeypatch.setattr(font_manager.fontManager, "ttflist", listed)
    monkeypatch.setattr(
        figures,
        "_characters",
        lambda path: frozenset(map(ord, own[path])) if path in own else known(path),
    )
    figures.fonts_for.cache_clear()
    assert figures.fonts_for(("a東京", "ก")) == ("DejaVu Sans", "han", "thai")
    assert figures.fonts_for(("東京", chr(0xF0000))) is None
    figures.fonts_for.cache_clear()


def test_intervals_are_seen_at_any_scale() -> None:
    figure = shuffledp.histogram(np.arange(10**6) % 3, epsilon=1, labels=3).plot()
    caps = [line for line in figure.axes[0].lines if line.get_marker() == "_"]
    assert len(caps) == 4 and all(line.get_markersize() >= 4 for line in caps)
    assert "±" in figure.axes[0].get_xlabel() and "intervals" in figure.axes[0].get_title()


def test_bands_follow_the_confidence() -> None:
    heights = []
    for confidence in (0.5, 0.99):
        asked: dict[str, Any] = {"epsilon": 1, "bounds": (0, 10), "bins": 8, "seed": 1}
        found = shuffledp.quantiles(np.linspace(0, 10, 500), confidence=confidence, **asked)
        (band,) = found.plot().axes[0].collections[:1]
        corners = np.asarray(band.get_paths()[0].vertices)
        at_five = corners[np.isclose(corners[:, 0], 5.0), 1]
        heights.append(np.ptp(at_five))
    normal = NormalDist()  # which the law of the error is not exactly
    wanted = normal.inv_cdf(0.995) / normal.inv_cdf(0.75)
    assert heights[1] / heights[0] == pytest.approx(wanted, rel=0.3)


def test_long_titles_are_not_cut_off() -> None:
    found = shuffledp.quantiles(np.linspace(0, 1, 200), epsilon=1, bounds=(0, 1), bins=8)
    figure = found.between(0.123456, 0.654321).plot()
    figure.canvas.draw()
    box, page = figure.axes[0].title.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 and box.x1 <= page.x1


def test_large_numbers_are_written_out_below_the_axis() -> None:
    """Not as small ones with something to add."""
    figure = shuffledp.count(np.arange(10**6) % 2, epsilon=1).plot()
    figure.canvas.draw()
    axis = figure.axes[0].xaxis
    texts = [label.get_text() for label in axis.get_ticklabels()]
    assert axis.get_offset_text().get_text() == ""
    assert all(text.startswith(("499", "500")) for text in texts) and len(set(texts)) == len(texts)


def test_ranges_and_single_quantiles_have_pictures() -> None:
    asked: dict[str, Any] = {"epsilon": 8, "bounds": (0, 10), "bins": 10, "seed": 1}
    found = shuffledp.quantiles(np.linspace(0, 10, 500), **asked)
    for one in (found.between(2, 5), found.quantile(0.5)):
        axes = one.plot().axes[0]
        low, high = axes.get_xlim()
        assert low < one.low <= one.high < high


@pytest.mark.parametrize("epsilon", ["0.1", 20])
def test_one_number_at_any_noise(epsilon: str | int) -> None:
    figure = shuffledp.count([1, 0] * 50, epsilon=epsilon).plot()
    low, high = figure.axes[0].get_xlim()
    assert low < high


def test_pictures_show_themselves_in_notebooks() -> None:
    figure: Any = shuffledp.count([1, 0] * 50, epsilon=1).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_labels_of_lines_that_end_in_one_point_do_not_overlap() -> None:
    figure, (axes,) = figures.new_figure(8, 4.5)
    axes.set(xlim=(0, 10), ylim=(0, 10))
    words = [f"protocol number {n}" for n in range(7)]
    points = [Labelled(text=word, x=5, y=5, colour="#000000") for word in words]
    label_points(figure, axes, points, [([0, 5], [5, 5])])
    figure.draw_without_rendering()
    boxes = [one.get_window_extent() for one in axes.texts if one.get_text()]
    assert len(boxes) == 7
    assert not any(box.count_overlaps(boxes[:n]) for n, box in enumerate(boxes))
