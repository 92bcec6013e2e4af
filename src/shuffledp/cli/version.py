"""`shuffledp version`: which versions are installed."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from shuffledp.cli.output import Commands, Facts, add_command, emit
from shuffledp.version import __version__

PACKAGES = ("python-flint", "numpy", "cryptography")


def add_to(commands: Commands) -> None:
    add_command(
        commands,
        "version",
        run,
        "show the versions of the program and of the packages it computes with",
        examples=["version", "version --json"],
    )


def run(args: argparse.Namespace) -> None:
    versions = {"shuffledp": __version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in PACKAGES}
    emit(args, versions, Facts("Versions", list(versions.items())))
