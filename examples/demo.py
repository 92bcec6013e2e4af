"""How many of 10,000 people bike to work? The whole protocol on the bundled sample, as a story.

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
    """Runs every step and says what happens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--picture", default="demo.png")
    args = parser.parse_args()
    console = Console(highlight=False)

    values = np.concatenate(list(column_of("sample:commute", "bikes").batches()))
    console.print(
        f"{len(values):,} people are asked: do you bike to work? Nobody else should learn what\n"
        "any one of them answers. (The people are made up; the protocol is the real one.)\n"
    )
    console.rule("1  Plan: what will it cost, and how good will it be?", align="left")
    plan = plan_count(users=len(values), epsilon=args.epsilon)
    console.print(plan_table(plan))
    verify(plan.to_dict())
    console.print("  We proved the privacy of these parameters a second time, from the plan.\n")

    console.rule("2  Randomize: on each person's device", align="left")
    start = time.perf_counter()
    reports = [device(plan, int(value)) for value in values]
    spent = time.perf_counter() - start
    console.print(
        f"  Each device turned its answer into {plan.report_size} messages or fewer, noise "
        f"included.\n  A real device pads them to {plan.report_size} and encrypts them, so all "
        f"reports look alike.\n  ({len(values):,} devices, one after the other: {spent:.1f} s)\n"
    )

    console.rule("3  Shuffle: mix everybody's messages", align="left")
    bag = shuffler(reports)
    messages = int(bag.plus.sum() + bag.minus.sum())
    console.print(f"  {messages:,} messages in one bag. Who sent which is gone.\n")

    console.rule("4  Analyze: count the messages and subtract the expected noise", align="left")
    estimate = analyzer(plan, bag)
    ((_, value, low, high),) = estimate.texts()
    console.print(f"  [bold green]{value}[/] people bike to work (95 % interval {low} … {high}).")
    console.print(f"  The truth, which only this demo knows: {int(values.sum()):,}.")
    estimate.plot(args.picture)
    console.print(f"  The picture is in {args.picture}.")


if __name__ == "__main__":
    main()
