"""`shuffledp completion bash|zsh|tcsh`: a script that completes commands and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from shuffledp.cli.output import Commands, add_command

SHELLS = ("bash", "zsh", "tcsh")


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "completion",
        run,
        "print a shell script that completes commands and options",
        examples=[
            "completion bash > ~/.local/share/bash-completion/completions/shuffledp",
            'completion zsh > "${fpath[1]}/_shuffledp"',
            "completion tcsh > ~/.shuffledp.completion.csh",
        ],
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> None:
    import shtab

    from shuffledp.cli.main import parser

    top = parser()
    for action in actions(top):
        if action.metavar in ("FILE", "FOLDER"):
            action.complete = shtab.FILE if action.metavar == "FILE" else shtab.DIRECTORY
    print(shtab.complete(top, args.shell))


def actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """All arguments of a parser and of the commands below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in dict.fromkeys(action.choices.values()):
                yield from actions(below)
