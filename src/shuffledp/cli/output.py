"""What commands print: JSON for programs, rich tables for people."""

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

from shuffledp.errors import MissingExtra, ParameterError
from shuffledp.exact.json_text import read_json_file
from shuffledp.protocols.base import Progress

if TYPE_CHECKING:
    from rich.console import Console

Commands = Any  # argparse's sub-parsers; their type has no public name


def console(to_error: bool = False) -> Console:
    """Standard output (or error) as a rich console, 100 columns wide where it is no terminal.
    Brackets are printed as they are: in names that others chose they are no markup."""
    try:
        from rich.console import Console
    except ImportError:
        raise MissingExtra("rich", "cli") from None

    class PlainConsole(Console):
        """A console that leaves it to the caller what a closed pipe means."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader has gone")

    stream = sys.stderr if to_error else sys.stdout
    return PlainConsole(
        file=stream, width=None if stream.isatty() else 100, highlight=False, markup=False
    )


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], None], summary: str
) -> argparse.ArgumentParser:
    """A sub-command with --json; `run` gets the parsed arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary, allow_abbrev=False
    )
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.set_defaults(run=run)
    return parser


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


def check_output(args: argparse.Namespace) -> None:
    """Refuses, before anything is done, where its result could not be printed."""
    if sys.stdout is None or sys.stdout.closed:
        raise ParameterError("Standard output is closed, so that nothing could be shown; open it.")
    if not args.json:
        console()  # needs a package that may be missing


def check_plot(path: str) -> None:
    """Refuses, before anything is done, a picture that could not be drawn or written."""
    from shuffledp.plots.figures import checked_picture, new_figure

    checked_picture(path)
    new_figure()  # needs a package that may be missing


def emit(args: argparse.Namespace, data: Any, show: Callable[[Console], None]) -> None:
    """Prints a result: `data` as JSON with --json, otherwise whatever `show` prints for people.

    Ensures: raises `OSError` if standard output does not take all of it.
    """
    try:
        if args.json:
            encoding = (sys.stdout.encoding or "ascii").lower()
            ascii_only = not encoding.startswith("utf")
            print(json.dumps(data, indent=2, ensure_ascii=ascii_only))
        else:
            show(console())
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
    """A progress bar on standard error; silent with --json or without a terminal."""
    if args.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(to_error=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


def read_json(path: str | Path) -> Any:
    """What a JSON file holds; refuses a file that cannot be read."""
    return read_json_file(path)
