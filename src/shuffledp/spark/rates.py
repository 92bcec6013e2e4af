"""What one core of this machine does in a second, measured in a few seconds, and the fleet that
follows for a plan. No Spark is started: these are the functions that its workers run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from shuffledp.errors import ParameterError
from shuffledp.exact.entropy import SYSTEM
from shuffledp.planning.fleet import Fleet, Rates, fleet
from shuffledp.planning.plan import Plan
from shuffledp.sealed.encryption import PublicKey, encrypt_all, open_all
from shuffledp.sealed.ordering import ordered
from shuffledp.sealed.task import checked_report_size
from shuffledp.sealed.wire import MESSAGE, MOST_REPORTS, report_bytes

LEAST_SECONDS = 0.5
SEALED, ORDERED, ROWS = 500, 200_000, 1 << 20


def rate(work: Callable[[], object], items: int) -> float:
    """Items per second, the fastest of several goes: other programs only slow it down."""
    best, until = 0.0, time.perf_counter() + LEAST_SECONDS
    work()
    while time.perf_counter() < until or not best:
        began = time.perf_counter()
        work()
        best = max(best, items / (time.perf_counter() - began))
    return best


def measure(plan: Plan) -> Rates:
    """This machine's rates for a plan."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    secret = X25519PrivateKey.generate()
    key = PublicKey(1, 1, secret.public_key().public_bytes_raw())
    numbers, info = [1] * SEALED, key.info(bytes(32))
    sealed = encrypt_all(numbers, key, bytes(32))
    messages = [sealed[at : at + MESSAGE] for at in range(0, len(sealed), MESSAGE)]
    raw = secret.private_bytes_raw()
    rows = SYSTEM.words(ORDERED * MESSAGE, np.uint8).reshape(-1, MESSAGE)
    values = plan.protocol.sample_values(ROWS)
    return Rates(
        sealed=rate(lambda: encrypt_all(numbers, key, bytes(32)), SEALED),
        ordered=rate(lambda: ordered(rows), ORDERED),
        opened=rate(lambda: open_all(messages, raw, info), SEALED),
        tallied=rate(lambda: plan.protocol.tally(plan.protocol.encode(values)), ROWS),
        cores=os.cpu_count() or 1,
    )


def fleet_for(plan: Plan, users: int | None = None) -> Fleet:
    """The fleet for a plan, sized by this machine."""
    if plan.users > MOST_REPORTS:
        raise ParameterError(
            f"A batch holds at most {MOST_REPORTS:,} reports, and may not hold "
            "fewer than the plan's users; plan for fewer, and expect more."
        )
    reports = min(max(plan.users, plan.expected), MOST_REPORTS)
    messages = checked_report_size(plan.protocol, reports)
    return fleet(plan, measure(plan), messages, report_bytes(messages), users)
