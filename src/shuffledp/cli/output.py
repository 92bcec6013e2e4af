"""What all commands take and print: JSON for programs, rich tables for people."""

from __future__ import annotations

import argparse
import codecs
import errno
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.cli.needs import STANDARD, Needs
from shuffledp.documents.files import write_whole
from shuffledp.documents.json_text import MOST_JSON_BYTES, read_json_file
from shuffledp.documents.json_text import read_json as json_of
from shuffledp.errors import ParameterError
from shuffledp.protocols.base import Progress

if TYPE_CHECKING:
    from rich.console import Console

Commands = Any  # argparse's sub-parsers; their type has no public name


def console(to_error: bool = False) -> Console:
    """Standard output (or error) as a rich console, 100 columns wide where it is no terminal.
    Brackets are printed as they are: in names that others chose they are no markup."""
    from rich.console import Console

    class PlainConsole(Console):
        """A console that leaves it to the caller what a closed pipe means."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader has gone")

    stream = sys.stderr if to_error else sys.stdout
    return PlainConsole(
        file=stream, width=None if stream.isatty() else 100, highlight=False, markup=False
    )


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    *,
    examples: Sequence[str] = (),
    needs: Needs = (),
) -> argparse.ArgumentParser:
    """A command with --json, -q and -v; `run` gets the parsed arguments, after what the command
    needs was checked."""
    shown = "\n".join(f"  shuffledp {example}" for example in examples)
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"examples:\n{shown}" if examples else None,
    )
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    add_loudness(parser)
    parser.set_defaults(run=run, needs=needs)
    return parser


def add_loudness(parser: argparse.ArgumentParser) -> None:
    """Adds -q and -v, which may stand before the command or after it."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="no progress and no notes; results, warnings and errors are shown",
    )
    how.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,
        help="also say what is done and how long it takes, and where an error came from",
    )


def add_group(commands: Commands, name: str, summary: str, metavar: str = "ACTION") -> Commands:
    """A command that has commands of its own; they are added to what is returned."""
    parser = commands.add_parser(name, help=summary, description=summary)
    below: Commands = parser.add_subparsers(title="commands", metavar=metavar, required=True)
    return below


PLAIN = {"ε": "epsilon", "δ": "delta", "≈": "~", "…": "...", "−": "-", "½": "1/2", "█": "#"}
"""What is printed where a terminal does not know these characters."""


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """What replaces the characters that standard output cannot show."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    shown = (PLAIN.get(c, c.encode("ascii", "backslashreplace").decode()) for c in lost)
    return "".join(shown), error.end


def speak_plainly() -> None:
    """Lets standard output and error show all characters, in words where they have no others, and
    warnings without the place in the code that they come from."""
    codecs.register_error("shuffledp", _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="shuffledp")
    warnings.formatwarning = lambda message, *_: f"{message}\n"


def emit(args: argparse.Namespace, data: Any, show: Callable[[Console], None]) -> None:
    """Prints a result: `data` as JSON with --json, otherwise whatever `show` prints for people.

    Ensures: raises `OSError` if standard output does not take all of it.
    """
    with _all_or_error():
        if args.json:
            encoding = (sys.stdout.encoding or "ascii").lower()
            ascii_only = not encoding.startswith("utf")
            print(json.dumps(data, indent=2, ensure_ascii=ascii_only))
        else:
            show(console())


@contextmanager
def _all_or_error() -> Iterator[None]:
    """Raises `OSError` if standard output does not take all that is printed in the block."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        _give_up_output()
        raise


def _give_up_output() -> None:
    """Sends what is left for standard output nowhere, or Python would complain at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # not a file of the operating system


def facts(title: str, rows: Sequence[tuple[str, str]]) -> Any:
    """A rich table of two columns: names and texts."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title), title_justify="left", show_header=False, box=None, padding=(0, 2)
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(Text(name), Text(value))  # never markup, whatever a label or a note says
    return table


@contextmanager
def progress_bar(args: argparse.Namespace, what: str, total: int | None) -> Iterator[Progress]:
    """A progress bar on standard error, which goes on moving while the answer is worked out after
    the last step; silent with --json, -q or without a terminal."""
    if args.json or is_quiet(args) or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(to_error=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(steps: int) -> None:
            bar.advance(task, steps)
            if bar.finished:
                bar.update(task, description=f"{what}: working out the answer", total=None)

        yield advance


def is_quiet(args: argparse.Namespace) -> bool:
    """Whether -q was given."""
    return bool(getattr(args, "quiet", False))


def note(args: argparse.Namespace, line: str) -> None:
    """Says on standard error what is going on; silent with -q."""
    if not is_quiet(args):
        print(line, file=sys.stderr, flush=True)


def confirm(question: str) -> None:
    """Asks whether to go on; raises `ParameterError` unless the answer is yes, and where nobody can
    be asked."""
    if not sys.stdin.isatty():
        raise ParameterError("Nobody can be asked here, so nothing was done; add --yes to do it.")
    print(f"{question} Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise ParameterError("Nothing was done.")


def write_output(
    args: argparse.Namespace,
    content: str | bytes,
    data: Any,
    show: Callable[[Console], None],
    *,
    secret: bool = False,
) -> None:
    """Writes the content where --output asks for it, and prints the result as `emit` does; with
    `--output -` the content goes to standard output, alone."""
    if args.output == STANDARD:
        text = content if isinstance(content, str) else content.decode()
        with _all_or_error():
            print(text, end="")  # not a character more: a task's file is named by its bytes
        return
    if args.output is not None:
        write_whole(args.output, content, secret=secret)
    emit(args, data, show)


def read_json(path: str | Path) -> Any:
    """What a JSON file holds, or standard input (`-`); refuses what cannot be read."""
    if str(path) != STANDARD:
        return read_json_file(path)
    return json_of(standard_input(MOST_JSON_BYTES), "Standard input")


def standard_input(most_bytes: int = -1) -> bytes:
    """What standard input holds, no more than one byte beyond `most_bytes`."""
    return sys.stdin.buffer.read(most_bytes + 1 if most_bytes >= 0 else -1)
