"""`shuffledp device`: what this device agrees to, what it has spent, and on what."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.cli.output import (
    Commands,
    Facts,
    add_command,
    add_group,
    confirm,
    emit,
    write_output,
)
from shuffledp.cli.send import add_policy, given_policy
from shuffledp.cli.task import read_task
from shuffledp.cli.tokens import add_token, given_token
from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import counted, show

if TYPE_CHECKING:
    from rich.console import Console

    from shuffledp.service.client.device import Device

EXPORT_FORMAT = "shuffledp device history 1"


def add_to(commands: Commands) -> None:
    actions = add_group(commands, "device", "what this device agrees to, and what it has sent")
    made = {
        name: add_command(actions, name, run, summary, examples=examples, needs=["client"])
        for name, run, summary, *examples in (
            (
                "policy",
                run_policy,
                "print a policy, to edit and use",
                "device policy --least-users 1000 > policy.json",
            ),
            (
                "show",
                run_show,
                "the ε spent so far, and the keys on record",
                "device show",
                "device show --outbox outbox --json",
            ),
            (
                "begin-anew",
                run_begin_anew,
                "start an empty record after the old one was lost",
                "device begin-anew",
            ),
            (
                "token",
                run_token,
                "get the one-time token of a task long before you send",
                "device token --task task.json --token-file token.txt",
            ),
            (
                "enrol",
                run_enrol,
                "enrol this device at an issuer by giving evidence",
                "device enrol --issuer https://issuer.example --evidence-file e --output token.txt",
            ),
            (
                "history",
                run_history,
                "what this device has sent: when, for which question, at what ε, to whom",
                "device history",
                "device history --json",
            ),
            (
                "export",
                run_export,
                "everything that this device has on record, as JSON",
                "device export --output mine.json",
            ),
            (
                "wipe",
                run_wipe,
                "delete what reports were for; what they cost is kept",
                "device wipe",
                "device wipe --yes --keys",
            ),
        )
    }
    token, enrol, wipe = made["token"], made["enrol"], made["wipe"]
    token.add_argument("--task", required=True, metavar="FILE", help="the task file")
    add_token(token, "client")
    enrol.add_argument("--issuer", required=True, metavar="URL", help="its URL")
    enrol.add_argument(
        "--evidence-file",
        required=True,
        metavar="FILE",
        help="the evidence that the issuer's operator asks for",
    )
    enrol.add_argument("--output", required=True, metavar="FILE", help="file for the token, or -")
    made["export"].add_argument("--output", required=True, metavar="FILE", help="the file, or -")
    wipe.add_argument("--yes", action="store_true", help="do not ask")
    wipe.add_argument("--keys", action="store_true", help="also forget the servers' keys")
    for name in ("policy", "show", "token"):
        add_policy(made[name])
    for name in made.keys() - {"policy", "enrol"}:
        made[name].add_argument(
            "--outbox", metavar="FOLDER", help="folder of the device (default: your data folder)"
        )


def run_history(args: argparse.Namespace) -> None:
    rows = _device(args).history()

    def shown(out: Console) -> None:
        from rich.table import Table
        from rich.text import Text

        if not rows:
            out.print("This device has sent nothing.")
            return
        made = Table(title="What this device has sent", title_justify="left", box=None)
        for name in ("when (UTC)", "question", "ε", "sent to", "state"):
            made.add_column(name, overflow="fold")
        for row in rows:
            cost = show(Fraction(row["epsilon"]))
            question = row.get("question", "(wiped)")
            made.add_row(_day(row["when"]), Text(question), cost, Text(_to_whom(row)), row["state"])
        out.print(made)
        out.print("Your answers themselves were never stored.")

    emit(args, rows, shown)


def run_export(args: argparse.Namespace) -> None:
    device = _device(args)
    data = {
        "format": EXPORT_FORMAT,
        "reports": device.history(),
        "keys": device.keys(),
        "tokens": device.tokens(),
    }
    write_output(
        args,
        json.dumps(data, indent=2, ensure_ascii=False) + "\n",
        {"reports": len(data["reports"]), "file": args.output},
        f"What this device remembers is in {args.output}.",
        secret=True,
    )


def run_wipe(args: argparse.Namespace) -> None:
    device = _device(args)
    if not args.yes:
        confirm(
            f"Forget which tasks got {counted(len(device.charges()), 'report')} from this device? "
            "This cannot be undone. What the reports cost stays on record, so wiping frees none of "
            "your budget."
        )
    done = device.wipe(keys=args.keys)

    def shown(out: Console) -> None:
        out.print(
            f"Wiped: only ε and the time of {counted(done.reports, 'report')} are left; they still "
            "count against your budget."
        )
        if done.tasks:
            out.print(
                f"The ids of {counted(done.tasks, 'task')} are kept until they expire, so that "
                "none is answered twice; wipe again afterwards."
            )
        if done.waiting:
            out.print(
                f"{counted(done.waiting, 'report')} still to be sent: kept. Send with `shuffledp "
                "send --resume`."
            )

    emit(args, done._asdict(), shown)


def _device(args: argparse.Namespace) -> Device:
    from shuffledp.service.client.device import Device
    from shuffledp.service.client.sending import DEFAULT_OUTBOX

    return Device(Path(args.outbox or DEFAULT_OUTBOX))


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _to_whom(row: dict[str, Any]) -> str:
    """The shuffler and who runs it; empty after a wipe."""
    return f"{row['shuffler']} ({row['operators']['shuffler']})" if "shuffler" in row else ""


def run_policy(args: argparse.Namespace) -> None:
    print(json.dumps(given_policy(args).to_dict(), indent=2))


def run_show(args: argparse.Namespace) -> None:
    from shuffledp.service.client.device import KEY_NAMES

    policy, device = given_policy(args), _device(args)
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
    emit(args, data, Facts("This device", rows))


def run_token(args: argparse.Namespace) -> None:
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
        "The token of this task is stored; `shuffledp send` uses it.",
    )


def run_enrol(args: argparse.Namespace) -> None:
    from shuffledp.service.client.collector import enrol_by_evidence

    try:
        evidence = Path(args.evidence_file).read_text("utf-8")
    except (OSError, UnicodeError):
        raise ParameterError(
            f"{args.evidence_file} cannot be read; use a text file with the evidence."
        ) from None
    token = enrol_by_evidence(args.issuer, evidence)
    write_output(
        args,
        token + "\n",
        {"file": args.output},
        f"This device is enrolled; its token is in {args.output}.",
        secret=True,
    )


def run_begin_anew(args: argparse.Namespace) -> None:
    device = _device(args)
    device.begin_anew()
    emit(
        args,
        {"outbox": str(device.folder)},
        "The device starts at 0; what it spent before is forgotten.",
    )
