"""`shuffledp config check`: whether a server can start with a configuration."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shuffledp.cli.output import Commands, Facts, add_command, add_group, emit

if TYPE_CHECKING:
    from shuffledp.service.http.config import ServerConfig

PASSWORD = re.compile(r"(://[^:/@]*:)[^/]*(?=@)|([?&](?:ssl)?password=)[^&]*")
"""A password in the URL of a store, and what is before it."""


def add_to(commands: Commands) -> None:
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
    shown = without_secrets(config)
    rows = [(name, str(value)) for name, value in shown.items()]
    emit(args, shown, Facts(f"The {args.role} can start", rows))


def without_secrets(config: ServerConfig) -> dict[str, Any]:
    """All settings, with tokens and the passwords in URLs replaced by "(set)"."""
    shown = asdict(config)
    for name, value in shown.items():
        if value and name.endswith("_token"):
            shown[name] = "(set)"
        elif isinstance(value, str):
            shown[name] = PASSWORD.sub(r"\1\2(set)", value)
    return shown
