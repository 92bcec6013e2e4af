"""The parser of the command line: help in groups, examples, and one sentence for a wrong call."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

Commands = Any  # argparse's sub-parsers; their type has no public name


NO_COMMAND = "there is no command"


class Parser(argparse.ArgumentParser):
    """A parser that answers wrong input with one sentence and exit code 2, and shows its help where
    it has commands and none is named."""

    groups: Mapping[str, Sequence[str]] = {}
    """Titles of groups of commands, and the commands in each; empty: one group of all."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        self._below: Commands = None
        self._given: list[str] = []

    def add_subparsers(self, **options: Any) -> Commands:
        """The place where commands are added."""
        self._below = super().add_subparsers(**options)
        return self._below

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses; leaves no word over, so that an error is about the command that was meant."""
        self._given = list(args or ())
        if self._below is not None:
            self._check_command()
        found, left = super().parse_known_args(self._given, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left

    def _check_command(self) -> None:
        """Shows the help where no command is named; refuses one that does not exist."""
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
        """One sentence with what was probably meant, and exit code 2."""
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
        grouped = {name for names in self.groups.values() for name in names}
        others = tuple(name for name in summaries if name not in grouped)
        for title, names in {**self.groups, **({"others": others} if others else {})}.items():
            lines += [f"{title}:", *(f"  {name:<15} {summaries[name]}" for name in names), ""]
        lines += [str(self.epilog), ""]
        return "\n".join(lines)
