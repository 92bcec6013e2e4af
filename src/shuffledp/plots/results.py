"""Pictures of results. matplotlib comes in only when somebody asks for one."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.accuracy.lattice import lattice_bins
from shuffledp.errors import MissingExtra, ParameterError
from shuffledp.planning.plan import Plan
from shuffledp.protocols.quantiles_result import QuantilesResult
from shuffledp.protocols.results import Estimate, HistogramResult, Result
from shuffledp.sealed.files import write_whole

INK, BAR, LINE, SOFT = "#1f2933", "#3b7dd8", "#d1495b", "#c9d6e8"


def new_figure(wide: float = 7.5, high: float = 4.2) -> tuple[Any, Any]:
    """A figure and its axes, without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    figure = Figure(figsize=(wide, high), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    return figure, axes


def save(figure: Any, path: str | None) -> Any:
    """The figure, written to a file if a path is given."""
    if path is not None:
        content = BytesIO()
        figure.savefig(content, dpi=150, format=checked_picture(path))
        write_whole(path, content.getvalue())
    return figure


def checked_picture(path: str) -> str:
    """The format of a picture by its name; refuses a name or folder that will not do."""
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf") or not target.parent.is_dir():
        raise ParameterError(
            f"{path} cannot be written as a picture; use a name ending in .png, .svg or .pdf "
            "in a folder that exists."
        )
    return kind


def plot(result: Result, path: str | None = None) -> Any:
    """Bars with intervals for histograms, the error law for numbers, the rank curve for
    quantiles."""
    if isinstance(result, HistogramResult):
        return save(_histogram(result), path)
    if isinstance(result, QuantilesResult):
        return save(_ranges(result), path)
    assert isinstance(result, Estimate)
    return save(_number(result), path)


def _caption(result: Result) -> str:
    seeded = "seeded, not private" if result.seeded else "pure ε-DP in the shuffle model"
    return f"ε = {float(result.epsilon):g}, {result.users:,} users, {seeded}"


def _number(result: Estimate) -> Any:
    figure, axes = new_figure()
    if result.errors is not None:
        errors, chances = result.errors()
        width = float(np.median(np.diff(errors)))
        values = result.value - errors
        inside = (values > result.low - width / 2) & (values < result.high + width / 2)
        colours = np.where(inside, BAR, SOFT)
        axes.bar(values, chances / width, width=width, color=colours, linewidth=0)
        below = np.cumsum(chances) / chances.sum()
        reach = np.abs(errors[(below > 0.0005) & (below < 0.9995)]).max()
        axes.set_xlim(result.value - 1.1 * reach, result.value + 1.1 * reach)
    axes.axvline(result.value, color=LINE, linewidth=1.6)
    axes.set_title(
        f"{result.query} ≈ {result.value:,.2f}   "
        f"({result.confidence:.0%} interval {result.low:,.2f} … {result.high:,.2f})",
        color=INK,
    )
    axes.set_xlabel(f"true value, as the error law sees it from the estimate\n{_caption(result)}")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure


def _histogram(result: HistogramResult) -> Any:
    count = len(result.labels)
    figure, axes = new_figure(wide=max(7.5, min(0.28 * count, 30.0)))
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
        f"thick: {result.confidence:.0%} interval of each bucket; thin: of all at once", color=INK
    )
    axes.set_xlabel(_caption(result))
    return figure


def _ranges(result: QuantilesResult) -> Any:
    figure, axes = new_figure()
    below = np.concatenate([[0.0], np.cumsum(result.counts)]) / result.users
    errors = np.sqrt(np.diag(np.cumsum(np.cumsum(result.covariance, 0), 1)).clip(0))
    reach = 1.96 * np.concatenate([[0.0], errors]) / result.users
    axes.fill_between(result.edges, below - reach, below + reach, color=SOFT, linewidth=0)
    axes.plot(result.edges, below, color=BAR, linewidth=1.8)
    for probability, quantile in zip(result.probabilities, result.shown(), strict=True):
        axes.hlines(probability, quantile.low, quantile.high, color=LINE, linewidth=2.5)
        axes.plot([quantile.value], [probability], "o", color=LINE, markersize=5)
        axes.annotate(
            f" {quantile.value:,.4g}", (quantile.high, probability), color=INK, va="center"
        )
    axes.set_ylabel("part of the users below")
    axes.set_title("quantiles with their intervals", color=INK)
    axes.set_xlabel(_caption(result))
    return figure


def plot_simulation(
    plan: Plan, errors: NDArray[np.float64], law: tuple[Any, Any], path: str | None
) -> Any:
    """The errors of many runs beside the law they should follow."""
    figure, axes = new_figure()
    places, chances = law
    edges = lattice_bins(places, 3.5 * errors.std() / len(errors) ** (1 / 3))
    width = edges[1] - edges[0]
    axes.hist(errors, bins=edges, density=True, color=SOFT, label=f"{len(errors):,} runs")
    expected, _ = np.histogram(places, bins=edges, weights=chances)
    axes.step(
        edges,
        np.append(expected, expected[-1]) / width,
        where="post",
        color=BAR,
        label="exact error law",
    )
    reach = max(4.5 * errors.std(), 1.02 * np.abs(errors).max())
    axes.set_xlim(-reach, reach)
    axes.set_title(
        f"error of {plan.protocol.query}: measured RMSE {np.sqrt(np.mean(errors**2)):,.3f}, "
        f"{plan.forecast.messages_per_user:,.1f} messages per user",
        color=INK,
    )
    axes.set_xlabel(f"estimate − truth      ε = {float(plan.epsilon):g}, {plan.users:,} users")
    axes.legend(frameon=False)
    axes.set_yticks([])
    return save(figure, path)
