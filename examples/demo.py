"""The main job, step by step, on the bundled sample: how many of 10,000 people bike to work?

plan → randomize (on every device) → shuffle → analyze; the last three steps are those of walk.py
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from walk import analyzer, device, shuffler

from shuffledp import plan_count, verify
from shuffledp.cli.plan import plan_table
from shuffledp.data.columns import column_of


def main() -> None:
    """Runs every step and shows what it gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--picture", default="demo.png")
    args = parser.parse_args()
    console = Console(highlight=False)

    values = np.concatenate(list(column_of("sample:commute", "bikes").batches()))
    console.rule("1  plan: from a target to certified parameters")
    plan = plan_count(users=len(values), epsilon=args.epsilon)
    console.print(plan_table(plan))
    verify(plan.to_dict())
    console.print("  The certificate was proved a second time from its JSON.\n")

    console.rule("2  randomize: each person's device, separately")
    start = time.perf_counter()
    reports = [device(plan, int(value)) for value in values]
    spent = time.perf_counter() - start
    first = ", ".join(str(len(report.signs())) for report in reports[:12])
    console.print(f"  The first people send {first}, … one-bit messages each.")
    console.print(f"  All {len(values):,} people, one by one: {spent:.1f} s\n")

    console.rule("3  shuffle: one bag, of which only the number of messages matters")
    bag = shuffler(reports)
    console.print(f"  {int(bag.plus.sum() + bag.minus.sum()):,} messages, mixed.\n")

    console.rule("4  analyze: an estimate with its interval")
    estimate = analyzer(plan, bag)
    console.print(f"  {estimate}")
    console.print(f"  (The true count, which nobody but this demo knows: {int(values.sum()):,}.)")
    estimate.plot(args.picture)
    console.print(f"  A picture of it is in {args.picture}.")


if __name__ == "__main__":
    main()
