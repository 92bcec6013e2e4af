"""Measures how fast one core of this machine is, and estimates the machines that a plan needs. It
runs the workers' functions for a few seconds, without starting Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from shuffledp.errors import ParameterError
from shuffledp.numbers.entropy import SYSTEM
from shuffledp.plans.fleet import Fleet, Rates, fleet
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.tasks.encryption import encrypt_all, open_all
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.ordering import ordered
from shuffledp.tasks.task import checked_report_size
from shuffledp.tasks.wire import MESSAGE_BYTES, MOST_BATCH_REPORTS, report_bytes

LEAST_SECONDS = 0.5
"""How long each kind of work is measured."""
ENCRYPTED_MESSAGES, ORDERED_MESSAGES, TALLIED_ROWS = 500, 200_000, 1 << 20


def rate(work: Callable[[], object], items: int) -> float:
    """Items per second of one core, in the fastest of several runs. CPU time counts, so that other
    programs on this machine change it little."""
    best, until = 0.0, time.process_time() + LEAST_SECONDS
    work()
    while (began := time.process_time()) < until or not best:
        work()
        best = max(best, items / max(time.process_time() - began, 1e-9))
    return best


def measure(plan: Plan[Result]) -> Rates:
    """How much of each kind of work for a plan one core does in a second."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    secret = X25519PrivateKey.generate()
    key = PublicKey(1, 1, secret.public_key().public_bytes_raw())
    numbers, info = [1] * ENCRYPTED_MESSAGES, key.info(bytes(32))
    encrypted = encrypt_all(numbers, key, bytes(32))
    messages = [
        encrypted[at : at + MESSAGE_BYTES] for at in range(0, len(encrypted), MESSAGE_BYTES)
    ]
    raw = secret.private_bytes_raw()
    rows = SYSTEM.words(ORDERED_MESSAGES * MESSAGE_BYTES, np.uint8).reshape(-1, MESSAGE_BYTES)
    values = plan.protocol.sample_values(TALLIED_ROWS)
    return Rates(
        encrypted=rate(lambda: encrypt_all(numbers, key, bytes(32)), ENCRYPTED_MESSAGES),
        ordered=rate(lambda: ordered(rows), ORDERED_MESSAGES),
        opened=rate(lambda: open_all(messages, raw, info), ENCRYPTED_MESSAGES),
        tallied=rate(lambda: plan.protocol.tally(plan.protocol.encode(values)), TALLIED_ROWS),
        cores=os.cpu_count() or 1,
    )


def fleet_for(plan: Plan[Result], users: int | None = None) -> Fleet:
    """The fleet for a plan, sized by this machine."""
    if plan.users > MOST_BATCH_REPORTS:
        raise ParameterError(
            f"A batch holds at most {MOST_BATCH_REPORTS:,} reports, and may not hold "
            "fewer than the plan's users; plan for fewer, and expect more."
        )
    reports = min(max(plan.users, plan.expected), MOST_BATCH_REPORTS)
    size = checked_report_size(plan.protocol, reports)
    return fleet(plan, measure(plan), size, report_bytes(size), users)
