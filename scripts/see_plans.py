"""Writes the plans that the page "See it" offers: clients/js/src/pages/seePlans.ts.

    python scripts/see_plans.py

The page runs the randomizer of the browser client on simulated people. What it needs besides comes
from the planner: the certificate, and how a number of messages becomes an estimate.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shuffledp.queries.count.planner import plan_count

FILE = Path(__file__).resolve().parents[1] / "clients" / "js" / "src" / "pages" / "seePlans.ts"
USERS = (100, 300, 1_000, 3_000, 10_000)
EPSILONS = ("1/4", "1/2", "1", "2", "4")
HEAD = """/** Plans for the page "See it", by the planner of the Python package: `python
 * scripts/see_plans.py` writes this file. */
export interface SeePlan {
  readonly users: number;
  readonly epsilon: string;
  /** Messages of every report. */
  readonly size: number;
  /** The estimate is `atZero + perMessage · messages`. */
  readonly atZero: number;
  readonly perMessage: number;
  readonly rmse: number;
  readonly certificate: unknown;
}

// prettier-ignore
export const PLANS: readonly SeePlan[] = [
"""


def entry(users: int, epsilon: str) -> dict[str, Any]:
    """What the page needs of one plan."""
    plan = plan_count(users, epsilon, padded=True, cell="bounded")
    ((cell,),) = (plan.protocol.cells,)
    at_zero, at_one = (float(cell.estimate(plus, 0, users)) for plus in (0, 1))
    return {
        "users": users,
        "epsilon": epsilon,
        "size": plan.report_size,
        "atZero": at_zero,
        "perMessage": at_one - at_zero,
        "rmse": float(f"{plan.forecast.rmse:.3g}"),
        "certificate": plan.to_dict()["certificate"],
    }


def text() -> str:
    """The whole file."""
    plans = [entry(users, epsilon) for users in USERS for epsilon in EPSILONS]
    lines = (
        f"  {json.dumps(plan, ensure_ascii=False, separators=(',', ':'))},\n" for plan in plans
    )
    return HEAD + "".join(lines) + "];\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
