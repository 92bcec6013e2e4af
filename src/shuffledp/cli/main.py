"""The command `shuffledp`: finds the sub-command, runs it, turns errors into one sentence."""

from __future__ import annotations

import argparse
import errno
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from shuffledp.cli.output import speak_plainly
from shuffledp.errors import ShuffleDPError
from shuffledp.version import __version__

COMMANDS = (
    "plan",
    "verify",
    "query",
    "compare",
    "simulate",
    "ledger",
    "task",
    "keys",
    "send",
    "serve",
    "result",
    "config",
    "backup",
    "device",
    "demo",
    "studio",
    "cluster",
    "version",
)
"""Modules beside this one, each with `add_to(commands)`."""


NO_MEMORY = (
    "The memory ran out; what a ledger was charged for is shown by shuffledp ledger show: ask for "
    "less, or use a machine with more memory."
)


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong input with one sentence and exit code 2."""

    def error(self, message: str) -> NoReturn:
        sentence = message[0].upper() + message[1:].rstrip(".")
        self.exit(2, f"{sentence}; see {self.prog} --help.\n")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="shuffledp",
        description="Pure differential privacy in the shuffle model: plan, run, verify.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"shuffledp {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"shuffledp.cli.{name}").add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives its exit code: 0 if it did, 2 with one sentence if it could not, 130
    if interrupted."""
    speak_plainly()
    words = list(sys.argv[1:] if arguments is None else arguments)
    for place in range(len(words) - 1, 0, -1):
        option, value = words[place - 1 : place + 1]
        dashed = option == "--token" and value.startswith("-") and not value.startswith("--")
        if option == "--bounds" or dashed:  # a bound below 0 and a token with a dash are no options
            words[place - 1 : place + 1] = [f"{option}={value}"]
    args = parser().parse_args(words)
    try:
        args.run(args)
    except ShuffleDPError as error:
        print(str(error), file=sys.stderr)
        return 2
    except MemoryError:
        print(NO_MEMORY, file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
            raise
        print(f"Standard output takes no more ({error.strerror}); make room.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
