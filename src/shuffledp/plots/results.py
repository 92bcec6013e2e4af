"""Pictures of results: one for each type of result, and one of a task's published batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, decimals, percent, written
from shuffledp.plots.figures import (
    BAND,
    BAR,
    INK,
    LINE,
    new_figure,
    picture,
    save,
    set_plainly,
    shown_labels,
)
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.queries.by_group.result import GroupsResult
from shuffledp.queries.quantiles.result import QuantilesResult
from shuffledp.tasks.results import result_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
LONGEST_TITLE = 80
MOST_WRITTEN_OUT = 1e12
"""The largest number that is written in full below an axis."""
LONGEST_LABEL = 40
"""The most characters of a label below a bar."""


def plot(result: Result, path: str | None = None, what: str = "") -> Figure:
    """The picture of a result, saved to a file if a path is given: bars with intervals for
    histograms, the law of the error for numbers, the distribution function for quantiles. `what`
    names the column in titles and axis labels."""
    return save(draw(result, what), path)


@singledispatch
def draw(result: Result, what: str = "") -> Figure:
    """The picture of a result; a new type of result registers its own with `draw.register`."""
    raise ParameterError(f"There is no picture of a {type(result).__name__}; print it instead.")


def _caption(result: Result) -> str:
    epsilon = f"ε = {float(result.epsilon):g}"
    return f"{epsilon}, {counted(result.users, 'user')}\nprivacy: {result.privacy_in_words()}"


@draw.register(Estimate)
def draw_estimate(result: Estimate, what: str = "") -> Figure:
    """One number: where the truth may be, by the error distribution if that is known."""
    figure, (axes,) = new_figure()
    ((name, value, low, high),) = result.texts()
    if result.errors is None:
        _whisker(axes, result)
    else:
        _bars_of_errors(axes, result, *result.errors())
        axes.axvline(result.clipped, color=LINE, linewidth=1.6)
    name += f" of {what}" * bool(what)
    said = f"{name} ≈ {value}   ({percent(result.confidence)} interval {low} … {high})"
    title = axes.set_title("\n".join(wrap(said, LONGEST_TITLE)), color=INK)
    _write_numbers_out(axes)
    set_plainly([title], shown_labels([name])[1])
    shown = "bars: the distribution of the error; dark: inside the interval" * bool(result.errors)
    axes.set_xlabel("\n".join(filter(None, (what or name, shown, _caption(result)))))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure


def _write_numbers_out(axes: Axes) -> None:
    """Writes numbers below the axis in full, without an offset."""
    if max(abs(end) for end in axes.get_xlim()) < MOST_WRITTEN_OUT:
        axes.ticklabel_format(axis="x", style="plain", useOffset=False)
        axes.locator_params(axis="x", nbins=6)


def _whisker(axes: Axes, result: Estimate) -> None:
    """The estimate and its interval, if the error distribution is not known: for ranges and
    quantiles."""
    axes.axvspan(result.low, result.high, color=BAND)
    below, above = max(result.clipped - result.low, 0.0), max(result.high - result.clipped, 0.0)
    axes.errorbar(
        [result.clipped],
        [0.0],
        xerr=[[below], [above]],
        fmt="o",
        color=LINE,
        ecolor=INK,
        elinewidth=2.0,
        capsize=9,
        capthick=2.0,
    )
    reach = max(result.high - result.low, abs(result.clipped) * 1e-6, 1e-9)
    axes.set_xlim(result.low - 0.5 * reach, result.high + 0.5 * reach)
    axes.set_ylim(-1.0, 1.0)


def _bars_of_errors(axes: Axes, result: Estimate, errors: Floats, chances: Floats) -> None:
    """The distribution of the error around the estimate, coloured inside the interval."""
    width = float(np.median(np.diff(errors))) if len(errors) > 1 else 1.0
    values = result.value - errors
    possible = (values >= result.possible[0]) & (values <= result.possible[1])
    if possible.any():
        values, errors, chances = values[possible], errors[possible], chances[possible]
    inside = (values > result.low - width / 2) & (values < result.high + width / 2)
    colours = np.where(inside, BAR, BAND)
    axes.bar(values, chances / width, width=width, color=colours.tolist(), linewidth=0)
    below = np.cumsum(chances) / chances.sum()
    likely = np.abs(errors[(below > 0.0005) & (below < 0.9995)])
    reach = max(float(likely.max()) if likely.size else 0.0, 2 * width)
    axes.set_xlim(result.value - 1.1 * reach, result.value + 1.1 * reach)


@draw.register(HistogramResult)
def draw_histogram(result: HistogramResult, what: str = "") -> Figure:
    """All buckets as bars, with the interval of each and of all at once."""
    return _bars(result, f"{counted(result.users, 'user')} by {what or 'label'}", "users")


@draw.register(GroupsResult)
def draw_groups(result: GroupsResult, what: str = "") -> Figure:
    """All groups as bars, with the interval of each and of all at once."""
    of = f" of {what}" * bool(what)
    title = f"{result.answer}{of} by {result.by}, {counted(result.users, 'user')}"
    return _bars(result, title, "users" if result.answer == "count" else what or result.answer)


def _bars(result: HistogramResult | GroupsResult, title: str, ylabel: str) -> Figure:
    count = len(result.labels)
    figure, (axes,) = new_figure(wide=max(7.5, min(0.28 * count, 30.0)))
    places = np.arange(count)
    axes.bar(places, result.clipped, color=BAR, width=0.8)
    for low, high, width, cap in (
        (result.joint_low, result.joint_high, 1.0, 7.0),
        (result.low, result.high, 2.6, 4.0),
    ):
        axes.vlines(places, low, high, color=INK, linewidth=width)
        for ends in (low, high):  # caps of a fixed size stay visible on short intervals
            axes.plot(places, ends, "_", color=INK, markersize=cap, markeredgewidth=width)
    axes.axhline(0, color=INK, linewidth=0.8)
    numbered = _name_buckets(axes, [str(label) for label in result.labels])
    axes.set_ylabel(ylabel)
    widest = float((result.high - result.low).max()) / 2
    error = written(widest, decimals(widest))
    sure = percent(result.confidence)
    axes.set_title(f"{title}, with {sure} intervals", color=INK)
    shown = (
        f"thick lines: the {sure} interval of each bar (± {error} or less); "
        "thin lines: of all bars at once\n"
    )
    note = "\nno installed font has the characters of all labels: #1 is the first" * numbered
    axes.set_xlabel(shown + _caption(result).replace("\n", "; ") + note)
    return figure


def _name_buckets(axes: Axes, labels: list[str]) -> bool:
    """Writes the labels below the buckets; returns whether some became numbers."""
    step = max(1, len(labels) // 40)
    texts, fonts, numbered = shown_labels(labels)
    texts = [text if len(text) <= LONGEST_LABEL else f"{text[:LONGEST_LABEL]}…" for text in texts]
    axes.set_xticks(np.arange(len(labels))[::step], texts[::step])
    set_plainly(axes.get_xticklabels(), fonts)
    if max(map(len, texts)) * len(labels) > 80:
        axes.tick_params(axis="x", rotation=60)
    return numbered


@draw.register(QuantilesResult)
def draw_quantiles(result: QuantilesResult, what: str = "") -> Figure:
    """The share of the users below each value, with the quantiles and their intervals."""
    figure, (axes,) = new_figure()
    low, high = (end / result.reports for end in result.band)
    below = result.below / result.reports
    low, high, below = (np.clip(part, 0.0, 1.0) for part in (low, high, below))
    axes.fill_between(result.edges, low, high, color=BAND, linewidth=0)
    axes.plot(result.edges, below, color=BAR, linewidth=1.8)
    if result.axis.unit:
        axes.xaxis.set_major_formatter(lambda number, _: result.axis.text(number))
        axes.tick_params(axis="x", rotation=20)
    for probability, quantile in zip(result.probabilities, result.shown(), strict=True):
        axes.hlines(probability, quantile.low, quantile.high, color=LINE, linewidth=2.5)
        axes.plot([quantile.value], [probability], "o", color=LINE, markersize=5)
        axes.annotate(
            f" {quantile.texts()[0][1]}", (quantile.high, probability), color=INK, va="center"
        )
    axes.set_ylabel("share of users below")
    of = f" of {what}" * bool(what)
    sure = percent(result.confidence)
    axes.set_title(f"Quantiles{of}, {counted(result.users, 'user')}, {sure} intervals", color=INK)
    shown = f"red lines: {sure} intervals of the quantiles; band: of the whole curve"
    axes.set_xlabel("\n".join(filter(None, (what, shown, _caption(result)))))
    return figure


MOST_LINES = 60


def plot_published(
    results: Sequence[Mapping[str, Any]], path: str | None = None, note: str = ""
) -> Figure:
    """The picture of published results, newest below, saved to a file if a path is given; `note` is
    shown above it."""
    if not results:
        raise ParameterError("There is no published result yet; wait for the first batch.")
    lines = [(one["number"], line) for one in results for line in result_lines(one["result"])]
    lines = lines[-MOST_LINES:]
    figure, (axes,) = new_figure(high=max(2.4, 1.2 + 0.28 * len(lines)))
    for place, (_, line) in enumerate(lines):
        axes.plot([line.low, line.high], [place, place], color=BAND, linewidth=7)
        axes.plot([line.clipped], [place], "o", color=BAR, markersize=6)
    names = [f"batch {number}: {line.label}" for number, line in lines]
    texts, font, _ = shown_labels(names)
    axes.set_yticks(range(len(lines)), texts)
    set_plainly(axes.get_yticklabels(), font)
    axes.invert_yaxis()
    last = results[-1]["result"]
    title = f"estimates with {percent(last['confidence'])} intervals"
    axes.set_title("\n".join(filter(None, (note, title))), color=INK)
    axes.set_xlabel(f"ε = {last['epsilon']:g} for every batch")
    return save(figure, path)


def published_png(results: Sequence[Mapping[str, Any]], note: str = "") -> bytes:
    """The same picture as the bytes of a PNG file."""
    return picture(plot_published(results, note=note))
