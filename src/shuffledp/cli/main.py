"""The command `shuffledp`: parses the call, runs the command, turns errors into one sentence."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from textwrap import wrap
from typing import Any, NoReturn

from shuffledp.cli.output import Commands, add_loudness, check_needs, printable, speak_plainly
from shuffledp.documents.json_text import is_text
from shuffledp.errors import FalseClaim, PrivacyViolation, ShuffleDPError
from shuffledp.version import __version__

NO_COMMAND = "there is no command"


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong input with one sentence and exit code 2, and shows its help if a
    command is required and none is named."""

    groups: Mapping[str, Sequence[str]] = {}
    """Groups of commands by title; empty: one group."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        self._below: Commands = None
        self._given: list[str] = []

    def add_subparsers(self, **options: Any) -> Commands:
        """The object to which commands are added."""
        self._below = super().add_subparsers(**options)
        return self._below

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses all arguments, so that an error refers to the intended command."""
        self._given = list(args or ())
        if self._below is not None:
            self._check_command()
        found, left = super().parse_known_args(self._given, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def _check_command(self) -> None:
        """Shows the help if no command is named; refuses an unknown one."""
        if not self._given:
            self.print_help()
            self.exit(0)
        named = next((word for word in self._given if not word.startswith("-")), None)
        if named is not None and named not in self._below.choices:
            self.error(f"{NO_COMMAND} {named!r}" + self._meant(named, self._below.choices))

    @staticmethod
    def _meant(word: str, known: Iterable[str]) -> str:
        close = get_close_matches(word, list(known), 1)
        return f"; did you mean {close[0]}?" if close else ""

    def error(self, message: str) -> NoReturn:
        """Prints one sentence, with a suggestion if there is one, and exits with code 2."""
        known = [name for one in self._actions for name in one.option_strings]
        options = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        wrong = ((word, self._meant(word, known)) for word in options if word not in known)
        if not message.startswith(NO_COMMAND):  # options depend on the command
            message = next(
                (f"there is no option {word}{said}" for word, said in wrong if said), message
            )
        sentence = message[0].upper() + message[1:].rstrip(".")
        mark = " See" if sentence.endswith("?") else "; see"
        self.exit(2, f"{sentence}{mark} {self.prog} --help.\n")

    def format_help(self) -> str:
        """The help, with the commands in their groups."""
        if not self.groups:
            return super().format_help()
        summaries = {name: below.description for name, below in self._below.choices.items()}
        lines = [f"usage: {self.prog} [-h] [--version] COMMAND …", "", str(self.description), ""]
        for title, names in self.groups.items():
            lines.append(f"{title}:")
            for name in names:
                lines += wrap(
                    str(summaries[name]),
                    79,
                    initial_indent=f"  {name:<15} ",
                    subsequent_indent=18 * " ",
                )
            lines.append("")
        lines += [str(self.epilog), ""]
        return "\n".join(lines)


GROUPS = {
    "without writing code": ("studio",),
    "plan and prove": ("plan", "verify", "compare", "simulate"),
    "ask a column": (
        "count",
        "integer-sum",
        "real-sum",
        "mean",
        "histogram",
        "frequencies",
        "heavy-hitters",
        "quantiles",
    ),
    "keep a budget": ("ledger",),
    "collect from devices": ("demo", "task", "record", "send", "device", "result"),
    "run the servers": (
        "init",
        "start",
        "rehearse",
        "shuffler",
        "analyzer",
        "issuer",
        "relay",
        "keys",
        "config",
        "backup",
        "restore",
    ),
    "work on a cluster": ("shuffle-batch", "open-batch"),
    "this program": ("completion", "version"),
}
"""Every command, in the order and the groups of the help."""

SHARED_MODULES = {
    "query": GROUPS["ask a column"],
    "init": ("init", "start", "rehearse"),
    "serve": ("shuffler", "analyzer"),
    "backup": ("backup", "restore"),
    "cluster": GROUPS["work on a cluster"],
}
"""Modules with several commands. Any other command is in the module of its name."""
MODULES = {name: name for names in GROUPS.values() for name in names} | {
    name: module for module, names in SHARED_MODULES.items() for name in names
}
"""The module next to this one that adds each command, by `add_to(commands)`."""

NO_MEMORY = (
    "Out of memory. Ask for less, or use a machine with more memory; `shuffledp ledger show` says "
    "what a ledger was charged for."
)

STOPPED = (
    "Interrupted. What was already sent, written or charged stays so; `shuffledp ledger show` says "
    "what a ledger was charged for."
)

NOT_TEXT = (
    "An argument is not valid text in the terminal's encoding; set a UTF-8 locale "
    "(LC_ALL=C.UTF-8), or rename the file."
)

EPILOG = """examples:
  shuffledp count sample:commute --column bikes --epsilon 1
  shuffledp plan count --users 1000000 --epsilon 1
  shuffledp COMMAND --help

Exit codes: 0 done, 2 wrong call or something missing,
3 certificate refuted, 130 interrupted."""

WRONG, REFUTED, INTERRUPTED = 2, 3, 130
_LOGGER = logging.getLogger("shuffledp")


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands, or of those in the same module as one of them: importing all
    modules takes longer than most commands."""
    top = Parser(
        prog="shuffledp",
        description="Pure differential privacy in the shuffle model: plan, run, verify.",
        epilog=EPILOG,
    )
    top.groups = GROUPS
    top.add_argument("--version", action="version", version=f"shuffledp {__version__}")
    add_loudness(top)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    modules = dict.fromkeys(MODULES.values()) if command is None else [MODULES[command]]
    for name in modules:
        importlib.import_module(f"shuffledp.cli.{name}").add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 if it succeeded, 2 with one sentence if it could
    not run, 3 if a certificate is refuted, 130 if interrupted."""
    speak_plainly()
    words = joined(sys.argv[1:] if arguments is None else arguments)
    if not all(is_text(word) for word in words):
        print(NOT_TEXT, file=sys.stderr)
        return WRONG
    named = words[0] if words and words[0] in MODULES else None  # an option first may be -h
    args = parser(named).parse_args(words)
    if not getattr(args, "verbose", False):
        return _run(args, verbose=False)
    out, level = logging.StreamHandler(sys.stderr), _LOGGER.level
    _LOGGER.addHandler(out)  # only this package's logger: the others belong to the caller
    _LOGGER.setLevel(logging.INFO)
    start = time.perf_counter()
    try:
        code = _run(args, verbose=True)
        if code == 0:
            _LOGGER.info("done in %.2f s", time.perf_counter() - start)
        return code
    finally:
        _LOGGER.removeHandler(out)
        _LOGGER.setLevel(level)


def _run(args: argparse.Namespace, *, verbose: bool) -> int:
    try:
        check_needs(args)
        args.run(args)
    except ShuffleDPError as error:
        if verbose:
            traceback.print_exc()
        print(printable(str(error)), file=sys.stderr)
        return REFUTED if isinstance(error, PrivacyViolation | FalseClaim) else WRONG
    except MemoryError:
        print(NO_MEMORY, file=sys.stderr)
        return WRONG
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
            what = f"The output could not be written ({error.strerror}); free some space"
        elif error.filename is not None:
            what = f"{error.filename} cannot be used ({error.strerror}); check the path"
        else:
            raise
        if verbose:
            traceback.print_exc()
        print(f"{what} and try again.", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return INTERRUPTED
    return 0


def joined(arguments: Sequence[str]) -> list[str]:
    """The arguments, with values that begin with a dash joined to their options: a negative bound
    and a token with a dash are not options."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    for index in range(end - 1, 0, -1):
        option, value = words[index - 1 : index + 1]
        token = option == "--token" and value.startswith("-") and not value.startswith("--")
        negative = re.fullmatch("--[^=]+", option) and re.match("-[0-9.]", value)
        if token or negative:
            words[index - 1 : index + 1] = [f"{option}={value}"]
    return words


if __name__ == "__main__":
    raise SystemExit(main())
