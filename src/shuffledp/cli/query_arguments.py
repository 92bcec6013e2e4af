"""Command-line options made from the declarations of queries, and their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import MISSING
from typing import Any, get_args

from shuffledp.queries.options import TARGETS, Argument, QueryOptions
from shuffledp.queries.options import arguments as arguments_of

TARGET_TITLE = "target (one of these; --relative-error may be combined with an error)"

TARGET_ARGUMENTS = [
    one for one in arguments_of(QueryOptions) if one.name in TARGETS and one.name != "expected"
]


def add_arguments(parser: argparse.ArgumentParser, arguments: Iterable[Argument]) -> None:
    """Adds an option for each argument; targets in a separate group."""
    listed = [one for one in arguments if one.option.command]
    there = {one.dest: one.option_strings[-1] for one in parser._actions if one.option_strings}
    names = there | {one.name: flag(one) for one in listed}
    targets = parser.add_argument_group(TARGET_TITLE)
    for one in listed:
        _add(targets if one in TARGET_ARGUMENTS else parser, one, names)


def flag(argument: Argument) -> str:
    """The option's name, such as --rows-per-user."""
    return f"--{(argument.option.flag or argument.name).replace('_', '-')}"


def _add(to: Any, one: Argument, names: dict[str, str]) -> None:
    option, words = one.option, help_text(one, names)
    common: dict[str, Any] = {"dest": one.name, "help": words, "required": one.required}
    if option.choices:
        to.add_argument(flag(one), choices=option.choices, **common)
    elif not option.metavar:
        optional = type(None) in get_args(one.type)
        action: Any = argparse.BooleanOptionalAction if optional else "store_true"
        to.add_argument(flag(one), action=action, default=None, **common)
    elif option.repeated:
        to.add_argument(flag(one), action="append", metavar=option.metavar, **common)
    elif option.one_by_one:
        both = to.add_mutually_exclusive_group(required=common.pop("required"))
        both.add_argument(flag(one), metavar=option.metavar, **common)
        both.add_argument(
            f"--{option.one_by_one}",
            action="append",
            dest=_each(one),
            metavar=option.metavar.partition(",")[0],
            help="one label, as it is; may be repeated",
        )
    else:
        to.add_argument(flag(one), metavar=option.metavar, **common)


def _each(argument: Argument) -> str:
    return f"{argument.name}_one_by_one"


def help_text(argument: Argument, names: dict[str, str]) -> str:
    """What an option means, with other options by their names on the command line."""
    option = argument.option
    said = re.sub(r"`(\w+)`", lambda found: names.get(found[1], found[1]), option.meaning)
    said = f"{said} {option.written}".rstrip()
    if argument.default not in (MISSING, None, "", False, ()):
        shown = argument.default
        listed = isinstance(shown, tuple | list)
        said += f" Default {','.join(map(str, shown)) if listed else shown}."
    return as_phrase(said).replace("%", "%%")


def as_phrase(sentence: str) -> str:
    """A sentence as commands show it: without its capital letter and its final period."""
    head = sentence[0].lower() if sentence[1:2].islower() or sentence[1:2] == " " else sentence[0]
    return (head + sentence[1:]).removesuffix(".").replace("`", "")


def given(args: argparse.Namespace, arguments: Iterable[Argument]) -> dict[str, Any]:
    """The arguments given on the command line, by name, as a query or a planner takes them."""
    found: dict[str, Any] = {}
    for one in arguments:
        value, read = getattr(args, one.name, None), one.option.read
        if one.option.one_by_one and getattr(args, _each(one)) is not None:
            value, read = list(getattr(args, _each(one))), None
        if value is not None:
            found[one.name] = value if read is None else read(value)
    return found
