"""`make bench`: how far quantiles err, beside OpenDP's and the best mechanism of a trusted party.

    python scripts/bench_quantiles.py [--quick]

All three get the same ε for one quantile. Ours answers every other quantile and range at no further
cost; the others spend ε again for each. Errors are RMSE over runs, in the values' unit: [0, 1].
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import shuffledp
from shuffledp.numbers.entropy import SeededEntropy

Floats = NDArray[np.float64]
Draw = Callable[[], float]
BINS = 64


def data(name: str, users: int) -> Floats:
    """Values in [0, 1)."""
    rng = np.random.default_rng([3, users])
    made = {
        "uniform": rng.random(users),
        "normal": rng.normal(0.5, 0.12, users),
        "skewed": rng.exponential(0.08, users),
    }
    return np.clip(made[name], 0.0, 1 - 1e-9)


def central(values: Floats, epsilon: float, probability: float) -> Draw:
    """The exponential mechanism of somebody who holds all values: a value v is drawn with a chance
    proportional to e^(−ε/2·|rank of v − wanted rank|), which one replacement changes by e^±ε."""
    ends = np.concatenate([[0.0], np.sort(values), [1.0]])
    ranks = np.arange(len(ends) - 1)
    with np.errstate(divide="ignore"):
        logs = np.log(np.diff(ends)) - epsilon / 2 * np.abs(ranks - probability * len(values))
    chances = np.exp(logs - logs.max())
    chances /= chances.sum()
    rng = np.random.default_rng(7)

    def draw() -> float:
        at = int(rng.choice(len(chances), p=chances))
        return float(rng.uniform(ends[at], ends[at + 1]))

    return draw


def opendp(values: Floats, epsilon: float, probability: float) -> Draw | None:
    """OpenDP's quantile among the edges of our bins; None without OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    if not hasattr(dp.m, "then_private_quantile"):
        return None
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(values))
    candidates = np.linspace(0, 1, BINS + 1).tolist()
    replace_one = 2  # in OpenDP's count, a removal and an addition

    def quantile(scale: float) -> dp.Measurement:
        space = domain, dp.symmetric_distance()
        measure = dp.max_divergence()
        return space >> dp.m.then_private_quantile(measure, candidates, probability, scale)

    measurement = dp.binary_search_chain(quantile, d_in=replace_one, d_out=epsilon, T=float)
    listed = values.tolist()
    return lambda: float(measurement(listed))


def ours(values: Floats, epsilon: str, probability: float) -> Draw:
    """This package's quantile, in the shuffle model."""
    plan = shuffledp.plan_quantiles(len(values), epsilon, (0, 1), bins=BINS)
    tally, entropy = plan.protocol.tally(plan.protocol.encode(values)), SeededEntropy("bench")

    def draw() -> float:
        view = plan.release(plan.protocol.aggregate_tally(tally, entropy))
        return plan.analyze(view).quantile(probability).value

    return draw


def rmse(draw: Draw | None, truth: float, runs: int) -> str:
    if draw is None:
        return "not installed"
    return f"{np.sqrt(np.mean([(draw() - truth) ** 2 for _ in range(runs)])):.4f}"


def main() -> None:
    """Prints a line for every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    runs = 40 if parser.parse_args().quick else 200
    print(f"{'RMSE of a quantile':38} {'ours':>10} {'OpenDP':>14} {'central':>10}")
    for users in (333, 10_000):
        for epsilon in ("0.2", "1"):
            for name in ("uniform", "normal", "skewed"):
                for probability in (0.5, 0.95):
                    values = data(name, users)
                    truth = float(np.quantile(values, probability, method="inverted_cdf"))
                    number = float(epsilon)
                    found = (
                        rmse(ours(values, epsilon, probability), truth, runs),
                        rmse(opendp(values, number, probability), truth, runs),
                        rmse(central(values, number, probability), truth, runs),
                    )
                    case = f"{users:,} users, ε={epsilon}, {name}, p={probability}"
                    print(f"{case:38} {found[0]:>10} {found[1]:>14} {found[2]:>10}", flush=True)


if __name__ == "__main__":
    main()
