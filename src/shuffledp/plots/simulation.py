"""Pictures of simulations: the errors of many runs and their exact distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shuffledp.numbers.exact import counted
from shuffledp.numbers.lattice import lattice_bins
from shuffledp.plans.plan import Plan
from shuffledp.plots.figures import BAND, BAR, INK, new_figure, save
from shuffledp.protocols.results import ErrorLaw, Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_simulation(
    plan: Plan[Estimate], errors: NDArray[np.float64], law: ErrorLaw, path: str | None = None
) -> Figure:
    """The picture of many runs' errors and the distribution that they should follow."""
    figure, (axes,) = new_figure()
    places, chances = law
    edges = lattice_bins(places, 3.5 * errors.std() / len(errors) ** (1 / 3))
    width = float(edges[1] - edges[0])
    axes.hist(
        errors, bins=edges.tolist(), density=True, color=BAND, label=counted(len(errors), "run")
    )
    expected, _ = np.histogram(places, bins=edges, weights=chances)
    axes.step(
        edges,
        np.append(expected, expected[-1]) / width,
        where="post",
        color=BAR,
        label="exact error law",
    )
    reach = max(4.5 * errors.std(), 1.02 * np.abs(errors).max(), 2 * width)
    axes.set_xlim(-reach, reach)
    axes.set_title(
        f"error of {plan.protocol.query}: measured RMSE {np.sqrt(np.mean(errors**2)):,.3f}, "
        f"{plan.forecast.messages_per_user:,.1f} messages per user",
        color=INK,
    )
    axes.set_xlabel(
        f"estimate − truth      ε = {float(plan.epsilon):g}, {counted(plan.users, 'user')}"
    )
    axes.legend(frameon=False)
    axes.set_yticks([])
    return save(figure, path)
