"""`shuffledp device`: what this device agrees to, and what it has spent."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shuffledp.cli.output import Commands, add_command, add_group, emit, facts
from shuffledp.cli.send import add_policy, given_policy
from shuffledp.exact.numbers import show


def add_to(commands: Commands) -> None:
    """Adds the command `device` with its actions."""
    actions = add_group(commands, "device", "what this device agrees to and has spent")
    policy = add_command(
        actions,
        "policy",
        run_policy,
        "print a policy, to change and use",
        examples=["device policy --least-users 1000 > policy.json"],
        needs=["client"],
    )
    add_policy(policy)
    shown = add_command(
        actions,
        "show",
        run_show,
        "the ε that was spent, and remembered keys",
        examples=["device show", "device show --outbox outbox --json"],
        needs=["client"],
    )
    add_policy(shown)
    anew = add_command(
        actions,
        "begin-anew",
        run_begin_anew,
        "begin an empty record where one was lost",
        examples=["device begin-anew"],
        needs=["client"],
    )
    for one in (shown, anew):
        one.add_argument(
            "--outbox", metavar="FOLDER", help="folder of the device (your data folder)"
        )


def run_policy(args: argparse.Namespace) -> None:
    """Prints the policy as JSON."""
    print(json.dumps(given_policy(args).to_dict(), indent=2))


def run_show(args: argparse.Namespace) -> None:
    """Shows what was spent and what is left."""
    from shuffledp.service.client.device import KEY_NAMES, Device
    from shuffledp.service.client.sending import DEFAULT_OUTBOX

    policy = given_policy(args)
    device = Device(Path(args.outbox or DEFAULT_OUTBOX))
    spent = device.spent(policy.period_days)
    left = max(policy.most_epsilon_per_period - spent, policy.most_epsilon_per_period * 0)
    data = {
        "period_days": policy.period_days,
        "spent": str(spent),
        "remaining": str(left),
        "reports": len(device.charges()),
        "keys": device.keys(),
    }
    rows = [
        (f"spent in {policy.period_days} days", f"ε = {show(spent)}"),
        ("left", f"ε = {show(left)} of {show(policy.most_epsilon_per_period)}"),
        ("reports in all", str(data["reports"])),
        *(
            (f"{KEY_NAMES[name]} at {shuffler}", key)
            for shuffler, known in device.keys().items()
            for name, key in known.items()
        ),
    ]
    emit(args, data, lambda out: out.print(facts("This device", rows), markup=False))


def run_begin_anew(args: argparse.Namespace) -> None:
    """Begins an empty record."""
    from shuffledp.service.client.device import Device
    from shuffledp.service.client.sending import DEFAULT_OUTBOX

    folder = Path(args.outbox or DEFAULT_OUTBOX)
    Device(folder).begin_anew()
    emit(
        args,
        {"outbox": str(folder)},
        lambda out: out.print("What this device spent before is forgotten; it begins at 0."),
    )
