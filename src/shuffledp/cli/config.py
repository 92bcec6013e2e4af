"""`shuffledp config check`: whether a server can start with a configuration."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from shuffledp.cli.output import Commands, Facts, add_command, add_group, emit


def add_to(commands: Commands) -> None:
    """Adds the command `config`."""
    actions = add_group(commands, "config", "check a server's configuration")
    check = add_command(
        actions,
        "check",
        run_check,
        "check a configuration before a server starts",
        examples=["config check shuffler --config service.toml"],
        needs=["service"],
    )
    check.add_argument("role", choices=("shuffler", "analyzer", "issuer", "relay"))
    check.add_argument("--config", metavar="FILE", help="the TOML file")


def run_check(args: argparse.Namespace) -> None:
    from shuffledp.service.checking import checked_config

    config = checked_config(args.role, args.config)
    shown = {
        name: "(set)" if "token" in name and not name.endswith("sha256") else value
        for name, value in asdict(config).items()
    }
    rows = [(name, str(value)) for name, value in shown.items()]
    emit(args, shown, Facts(f"The {args.role} can start", rows))
