"""Pictures of results: one for each type of result, chosen by its type."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.exact.numbers import percent
from shuffledp.plots.figures import BAND, BAR, INK, LINE, new_figure, save
from shuffledp.protocols.quantiles_result import QuantilesResult
from shuffledp.protocols.results import Estimate, HistogramResult, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]


def plot(result: Result, path: str | None = None) -> Figure:
    """The picture of a result, saved to a file if a path is given: bars with intervals for
    histograms, the law of the error for numbers, the distribution function for quantiles."""
    return save(draw(result), path)


@singledispatch
def draw(result: Result) -> Figure:
    """The picture of a result; a new type of result registers its own with `draw.register`."""
    raise ParameterError(f"There is no picture of a {type(result).__name__}; print it instead.")


def _caption(result: Result) -> str:
    epsilon = f"ε = {float(result.epsilon):g}"
    return f"{epsilon}, {result.users:,} users\nprivacy: {result.privacy_in_words()}"


@draw.register(Estimate)
def draw_estimate(result: Estimate) -> Figure:
    """One number: where the truth may lie, by the law of the error where that is known."""
    figure, (axes,) = new_figure()
    if result.errors is None:
        axes.axvspan(result.low, result.high, color=BAND)
        axes.margins(0.5)
    else:
        _bars_of_errors(axes, result, *result.errors())
    axes.axvline(result.value, color=LINE, linewidth=1.6)
    axes.set_title(
        f"{result.query} ≈ {result.value:,.2f}   "
        f"({percent(result.confidence)} interval {result.low:,.2f} … {result.high:,.2f})",
        color=INK,
    )
    axes.set_xlabel(f"where the true value may lie, given the estimate\n{_caption(result)}")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure


def _bars_of_errors(axes: Axes, result: Estimate, errors: Floats, chances: Floats) -> None:
    """The law of the error around the estimate, coloured inside the interval."""
    width = float(np.median(np.diff(errors)))
    values = result.value - errors
    inside = (values > result.low - width / 2) & (values < result.high + width / 2)
    colours = np.where(inside, BAR, BAND)
    axes.bar(values, chances / width, width=width, color=colours.tolist(), linewidth=0)
    below = np.cumsum(chances) / chances.sum()
    reach = np.abs(errors[(below > 0.0005) & (below < 0.9995)]).max()
    axes.set_xlim(result.value - 1.1 * reach, result.value + 1.1 * reach)


@draw.register(HistogramResult)
def draw_histogram(result: HistogramResult) -> Figure:
    """All buckets as bars, with the interval of each and of all at once."""
    count = len(result.labels)
    figure, (axes,) = new_figure(wide=max(7.5, min(0.28 * count, 30.0)))
    places = np.arange(count)
    axes.bar(places, result.values, color=BAR, width=0.8)
    for low, high, width in (
        (result.joint_low, result.joint_high, 1.0),
        (result.low, result.high, 2.6),
    ):
        axes.vlines(places, low, high, color=INK, linewidth=width)
    axes.axhline(0, color=INK, linewidth=0.8)
    step = max(1, count // 40)
    axes.set_xticks(places[::step], [str(label) for label in result.labels[::step]])
    if max(len(str(label)) for label in result.labels) * count > 80:
        axes.tick_params(axis="x", rotation=60)
    axes.set_ylabel("users")
    axes.set_title(
        f"thick: {percent(result.confidence)} interval of each bucket; thin: of all at once",
        color=INK,
    )
    axes.set_xlabel(_caption(result))
    return figure


@draw.register(QuantilesResult)
def draw_quantiles(result: QuantilesResult) -> Figure:
    """The part of the users below each value, with the quantiles and their intervals."""
    figure, (axes,) = new_figure()
    low, high = (end / result.users for end in result.band)
    axes.fill_between(result.edges, low, high, color=BAND, linewidth=0)
    axes.plot(result.edges, result.below / result.users, color=BAR, linewidth=1.8)
    if result.axis.unit:
        axes.xaxis.set_major_formatter(lambda number, _: result.axis.text(number))
        axes.tick_params(axis="x", rotation=20)
    for probability, quantile in zip(result.probabilities, result.shown(), strict=True):
        axes.hlines(probability, quantile.low, quantile.high, color=LINE, linewidth=2.5)
        axes.plot([quantile.value], [probability], "o", color=LINE, markersize=5)
        axes.annotate(
            f" {quantile.texts()[0][1]}", (quantile.high, probability), color=INK, va="center"
        )
    axes.set_ylabel("part of the users below")
    axes.set_title(f"quantiles with their {percent(result.confidence)} intervals", color=INK)
    axes.set_xlabel(_caption(result))
    return figure
