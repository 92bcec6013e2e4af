"""The main job, step by step, on the bundled sample: how many of 10,000 people bike to work?

plan → randomize (on every device) → shuffle → release → analyze
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from shuffledp import plan_count, verify
from shuffledp.cli.plan import plan_table
from shuffledp.protocols.report import shuffle
from shuffledp.queries.columns import column_of

SAMPLE = Path(__file__).with_name("commute.csv")


def main() -> None:
    """Runs every step and shows what it gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--picture", default="demo.png")
    args = parser.parse_args()
    console = Console(highlight=False)

    values = np.concatenate(list(column_of(SAMPLE, "bikes").batches()))
    console.rule("1  plan: from a target to certified parameters")
    plan = plan_count(users=len(values), epsilon=args.epsilon)
    console.print(plan_table(plan))
    verify(plan.to_dict())
    console.print("  The certificate was proved a second time from its JSON.\n")

    console.rule("2  randomize: every person on a device of its own")
    one = plan.randomize(int(values[0]))
    signs = "".join("+" if sign > 0 else "−" for sign in one.signs()[:60])
    console.print(f"  The first person sends {len(one.signs())} one-bit messages: {signs} …")
    start = time.perf_counter()
    reports = [plan.randomize(int(value)) for value in values]
    spent = time.perf_counter() - start
    console.print(f"  All {len(values):,} people, one by one: {spent:.1f} s\n")

    console.rule("3  shuffle: one bag, in an order that says nothing")
    bag = shuffle(reports)
    view = plan.release(bag)
    first = "".join("+" if sign > 0 else "−" for sign in view.arranged()[:60])
    console.print(f"  {int(view.plus[0] + view.minus[0]):,} messages: {first} …")
    console.print(
        f"  The analyzer sees {int(view.plus[0]):,} × (+1) and {int(view.minus[0]):,} × (−1).\n"
    )

    console.rule("4  analyze: an estimate with its interval")
    estimate = plan.analyze(view)
    console.print(f"  {estimate}")
    console.print(f"  (The true count, which nobody but this demo knows: {int(values.sum()):,}.)")
    estimate.plot(args.picture)
    console.print(f"  A picture of it is in {args.picture}.")


if __name__ == "__main__":
    main()
