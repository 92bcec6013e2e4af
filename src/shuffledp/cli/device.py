"""`shuffledp device`: what this device agrees to, and what it has spent."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shuffledp.cli.output import Commands, add_command, add_group, emit, facts, write_output
from shuffledp.cli.send import add_policy, given_policy
from shuffledp.cli.task import read_task
from shuffledp.cli.tokens import add_token, given_token
from shuffledp.errors import ParameterError
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
    token = add_command(
        actions,
        "token",
        run_token,
        "get the one-time token of a task ahead of time, long before you send",
        examples=["device token --task task.json --token-file token.txt"],
        needs=["client"],
    )
    token.add_argument("--task", required=True, metavar="FILE", help="the task file")
    add_token(token, "client")
    add_policy(token)
    enrol = add_command(
        actions,
        "enrol",
        run_enrol,
        "enrol this device at an issuer by evidence",
        examples=[
            "device enrol --issuer https://issuer.example --evidence-file e --output token.txt"
        ],
        needs=["client"],
    )
    enrol.add_argument("--issuer", required=True, metavar="URL", help="its URL")
    enrol.add_argument(
        "--evidence-file", required=True, metavar="FILE", help="what the issuer's operator asks for"
    )
    enrol.add_argument("--output", required=True, metavar="FILE", help="file for the token, or -")
    for one in (shown, anew, token):
        one.add_argument(
            "--outbox", metavar="FOLDER", help="folder of the device (your data folder)"
        )


def run_policy(args: argparse.Namespace) -> None:
    """Prints the policy as JSON."""
    print(json.dumps(given_policy(args).to_dict(), indent=2))


def run_show(args: argparse.Namespace) -> None:
    """Shows what was spent and what is left."""
    from shuffledp.service.client.device import Device
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
        "analyzer_keys": device.keys(),
    }
    rows = [
        (f"spent in {policy.period_days} days", f"ε = {show(spent)}"),
        ("left", f"ε = {show(left)} of {show(policy.most_epsilon_per_period)}"),
        ("reports in all", str(data["reports"])),
        *((f"analyzer key at {shuffler}", key) for shuffler, key in device.keys().items()),
    ]
    emit(args, data, lambda out: out.print(facts("This device", rows), markup=False))


def run_token(args: argparse.Namespace) -> None:
    """Gets the one-time token of a task."""
    from shuffledp.service.client.sending import Client

    task = read_task(args.task)
    if task.issuer is None:
        raise ParameterError("This task has no issuer; its reports carry your own token.")
    secret = given_token(args, "client")
    with Client(task, task.shuffler, secret, args.outbox, policy=given_policy(args)) as client:
        client.prepare()
    emit(
        args,
        {"task": task.id.hex(), "state": "token stored"},
        lambda out: out.print("The token of this task is stored; `shuffledp send` uses it."),
    )


def run_enrol(args: argparse.Namespace) -> None:
    """Enrols this device by evidence."""
    from shuffledp.service.client.collector import enrol_by_evidence

    try:
        evidence = Path(args.evidence_file).read_text("utf-8")
    except (OSError, UnicodeError):
        raise ParameterError(
            f"{args.evidence_file} cannot be read; give a text file with the evidence."
        ) from None
    token = enrol_by_evidence(args.issuer, evidence)
    write_output(
        args,
        token + "\n",
        {"file": args.output},
        lambda out: out.print(f"This device is enrolled; its token is in {args.output}."),
        secret=True,
    )


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
