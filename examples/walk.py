"""The whole protocol, step by step: device → shuffler → analyzer.

    python examples/walk.py

A thousand users each hold one bit; nobody but a user ever sees it, and yet the analyzer learns
how many ones there are.
"""

from __future__ import annotations

from collections.abc import Iterable

import shuffledp
from shuffledp import Estimate, Plan, Report


def device(plan: Plan[Estimate], value: int) -> Report:
    """A user's device: turns the value into a bag of messages. The bag is secret."""
    return plan.randomize(value)


def shuffler(reports: Iterable[Report]) -> Report:
    """The shuffler: mixes everybody's messages. Of a mixed bag only the counts matter."""
    first, *others = reports
    return sum(others, start=first)


def analyzer(plan: Plan[Estimate], batch: Report) -> Estimate:
    """The analyzer: makes the mixed bag public, which is refused if too few users are in it, and
    reads the estimate off it."""
    return plan.analyze(plan.release(batch))


def walk(values: Iterable[int], plan: Plan[Estimate]) -> Estimate:
    """Everybody's values through all three."""
    return analyzer(plan, shuffler(device(plan, value) for value in values))


if __name__ == "__main__":
    bits = [int(user % 3 == 0) for user in range(1000)]
    plan = shuffledp.plan_count(users=len(bits), epsilon=1)
    print(f"ε = {plan.certificate.epsilon}, proved for these parameters")
    print(walk(bits, plan))
    print("truth:", sum(bits))
