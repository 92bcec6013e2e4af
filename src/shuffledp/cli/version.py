"""`shuffledp version`."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from shuffledp.cli.output import Commands, add_command, emit, facts
from shuffledp.version import __version__

PARTS = ("python-flint", "numpy", "cryptography")


def add_to(commands: Commands) -> None:
    """The command."""
    add_command(commands, "version", run, "versions of the program and of what it stands on")


def run(args: argparse.Namespace) -> None:
    """Shows them."""
    versions = {"shuffledp": __version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in PARTS}
    emit(args, versions, lambda c: c.print(facts("Versions", list(versions.items()))))
