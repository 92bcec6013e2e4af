"""What all commands share: checks before they run, JSON for programs, rich tables for people."""

from __future__ import annotations

import argparse
import codecs
import errno
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shuffledp.documents.files import check_writable, write_whole
from shuffledp.documents.json_text import MOST_JSON_BYTES
from shuffledp.documents.json_text import read_json as json_of
from shuffledp.documents.schema import Schema
from shuffledp.errors import ParameterError
from shuffledp.extras import require
from shuffledp.protocols.base import Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Needs = Sequence[str] | Callable[[argparse.Namespace], Sequence[str]]
"""The extras that a command needs, always or depending on its arguments."""

STANDARD = "-"
"""The file name that means standard input or output."""


def file_only(path: str) -> str:
    """The path of a file; refuses standard output."""
    if path == STANDARD:
        raise ParameterError("This cannot be written to standard output; name a file.")
    return path


def check_needs(args: argparse.Namespace) -> None:
    """Raises an error if the command could not show or store its result.

    Ensures: nothing was read, written, sent or charged.
    """
    if sys.stdout is None or sys.stdout.closed:
        raise ParameterError("Standard output is closed, so nothing could be shown; open it.")
    needs: Needs = getattr(args, "needs", ())
    for extra in needs(args) if callable(needs) else needs:
        require(extra)
    plot, output = (getattr(args, name, None) for name in ("plot", "output"))
    if plot is not None:
        require("plot")
        from shuffledp.plots.figures import check_drawing, checked_picture

        check_drawing()
        checked_picture(plot)
    if output is not None and output != STANDARD:
        check_writable(Path(output))


Commands = Any  # argparse's sub-parsers; their type has no public name


def console(to_error: bool = False) -> Console:
    """Standard output (or error) as a rich console, 80 columns wide if it is not a terminal, with
    colours on a terminal unless NO_COLOR is set. Names chosen by others are printed as they are:
    neither brackets nor `:words:` mean anything, and control characters are replaced."""
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    class PlainConsole(Console):
        """A console that lets the caller handle a closed pipe."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader has gone")

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text), style, control)

    stream = sys.stderr if to_error else sys.stdout
    width = None if stream.isatty() else 80
    return PlainConsole(file=stream, width=width, highlight=False, markup=False, emoji=False)


CONTROLLING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """A text without characters that could control a terminal; servers and files are not
    trusted."""
    return CONTROLLING.sub("\ufffd", text)


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    *,
    examples: Sequence[str] = (),
    needs: Needs = (),
) -> argparse.ArgumentParser:
    """A command with --json, -q and -v; `run` gets the parsed arguments after `check_needs`."""
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
    """Adds -q and -v, which may come before the command or after it."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="no progress and no notes; only results, warnings and errors",
    )
    how.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,
        help="also show each step, how long it takes, and where an error came from",
    )


def add_group(commands: Commands, name: str, summary: str, metavar: str = "ACTION") -> Commands:
    """A command with subcommands, which are added to what is returned."""
    parser = commands.add_parser(name, help=summary, description=summary)
    below: Commands = parser.add_subparsers(title="commands", metavar=metavar, required=True)
    return below


PLAIN = {"ε": "epsilon", "δ": "delta", "≈": "~", "…": "...", "−": "-", "½": "1/2", "█": "#"}
"""Replacements for characters that a terminal cannot show."""


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    """Replaces the characters that standard output cannot show."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    shown = (PLAIN.get(c, c.encode("ascii", "backslashreplace").decode()) for c in lost)
    return "".join(shown), error.end


def speak_plainly() -> None:
    """Makes standard output and error replace characters they cannot show, and prints warnings
    without their place in the code."""
    codecs.register_error("shuffledp", _in_plain_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="shuffledp")
    warnings.formatwarning = lambda message, *_: f"{message}\n"


class Facts(NamedTuple):
    """Two columns, names and texts, below a title."""

    title: str
    rows: Sequence[tuple[str, str]]

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, box=None, padding=(0, 0, 0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return Group(Text(self.title, style="italic"), table) if self.title else table


Shown = str | Facts | Callable[["Console"], None]
"""A result for people, or what prints it."""


def emit(args: argparse.Namespace, data: Any, shown: Shown) -> None:
    """Prints a result: `data` as JSON with --json, otherwise what is shown to people.

    Ensures: raises `OSError` if not all of it could be written.
    """
    with _all_or_error():
        if args.json:
            encoding = (sys.stdout.encoding or "ascii").lower()
            ascii_only = not encoding.startswith("utf")
            print(json.dumps(data, indent=2, ensure_ascii=ascii_only))
        elif callable(shown):
            shown(console())
        else:
            console().print(shown)


@contextmanager
def _all_or_error() -> Iterator[None]:
    """Raises `OSError` if something printed in the block could not be written."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        _give_up_output()
        raise


def _give_up_output() -> None:
    """Discards what is left for standard output, or Python would complain when it exits."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # not a file of the operating system


@contextmanager
def progress_bar(args: argparse.Namespace, what: str, total: int | None) -> Iterator[Progress]:
    """A progress bar on standard error, which keeps moving while the answer is computed after the
    last step; silent with --json, -q or without a terminal."""
    if args.json or is_quiet(args) or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(to_error=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(steps: int) -> None:
            bar.advance(task, steps)
            if bar.finished:
                bar.update(task, description=f"{what}: computing the answer", total=None)

        yield advance


def is_quiet(args: argparse.Namespace) -> bool:
    """Whether -q was given."""
    return bool(getattr(args, "quiet", False))


def note(args: argparse.Namespace, line: str) -> None:
    """Prints a line of progress on standard error; silent with -q."""
    if not is_quiet(args):
        print(printable(line), file=sys.stderr, flush=True)


def confirm(question: str) -> None:
    """Asks whether to go on; raises `ParameterError` unless the answer is yes, or if there is no
    terminal."""
    if not sys.stdin.isatty():
        raise ParameterError(
            "There is no terminal to ask in. Nothing was done; rerun with --yes to confirm."
        )
    print(f"{question} Type yes to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise ParameterError("You did not answer yes. Nothing was done.")


def write_output(
    args: argparse.Namespace,
    content: str | bytes,
    data: Any,
    shown: Shown,
    *,
    secret: bool = False,
) -> None:
    """Writes the content to --output and prints the result as `emit` does; with `--output -` only
    the content is printed."""
    if args.output == STANDARD:
        text = content if isinstance(content, str) else content.decode()
        with _all_or_error():
            print(text, end="")  # nothing more: a task is named by the hash of its bytes
        return
    if args.output is not None:
        write_whole(args.output, content, secret=secret)
    emit(args, data, shown)


def read_file(path: str | Path, most_bytes: int) -> bytes:
    """The content of a file or of standard input (`-`), up to one byte beyond `most_bytes`."""
    if str(path) == STANDARD:
        return standard_input(most_bytes)
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes + 1)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read ({error.strerror}); check the path.") from None


def read_json(path: str | Path) -> Any:
    """The data in a JSON file or on standard input; refuses what cannot be read."""
    name = "Standard input" if str(path) == STANDARD else str(path)
    return json_of(read_file(path, MOST_JSON_BYTES), name)


def check_option(schema: Schema, value: str, option: str) -> None:
    """Raises `ParameterError` unless the value of an option is what a schema describes."""
    try:
        schema.check(value, option)
    except ParameterError as error:  # its advice is for readers of a file
        raise ParameterError(f"{str(error).partition(';')[0]}.") from None


def read_key_text(path: str, name: str, printed_by: str) -> str:
    """The text of a public key in a JSON file that a command printed."""
    data = read_json(path)
    text = data.get(name) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise ParameterError(f"{path} has no {name}; use what `shuffledp {printed_by}` prints.")
    return text


def standard_input(most_bytes: int = -1) -> bytes:
    """Standard input, up to one byte beyond `most_bytes`."""
    return sys.stdin.buffer.read(most_bytes + 1 if most_bytes >= 0 else -1)
