"""`shuffledp ledger`: a budget that queries draw on."""

from __future__ import annotations

import argparse
from typing import Any

from shuffledp.cli.output import Commands, add_command, emit, facts
from shuffledp.exact.numbers import show
from shuffledp.queries.ledger import Ledger


def add_to(commands: Commands) -> None:
    """Adds `ledger create` and `ledger show`."""
    parser = commands.add_parser("ledger", help="create or show a privacy budget")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    create = add_command(actions, "create", run_create, "make a new ledger")
    create.add_argument("file", metavar="FILE")
    create.add_argument("--budget", required=True, metavar="E", help="ε in all")
    shown = add_command(actions, "show", run_show, "what was spent and what remains")
    shown.add_argument("file", metavar="FILE")


def run_create(args: argparse.Namespace) -> None:
    """Makes a new ledger and shows it."""
    _show(args, Ledger.create(args.file, args.budget))


def run_show(args: argparse.Namespace) -> None:
    """Shows what a ledger has spent and what remains."""
    _show(args, Ledger(args.file))


def _show(args: argparse.Namespace, ledger: Ledger) -> None:
    entries: list[dict[str, Any]] = [
        {"epsilon": str(entry.epsilon), "what": entry.what, "when": entry.when}
        for entry in ledger.entries()
    ]
    data = {
        "budget": str(ledger.budget),
        "spent": str(ledger.spent()),
        "remaining": str(ledger.remaining()),
        "entries": entries,
    }
    rows = [(name, show(getattr(ledger, name)())) for name in ("spent", "remaining")]
    rows = [("budget", show(ledger.budget)), *rows]
    rows += [(entry["when"], f"ε = {entry['epsilon']} for {entry['what']}") for entry in entries]
    emit(args, data, lambda console: console.print(facts(f"Ledger {args.file}", rows)))
