"""What commands print: JSON for programs, rich tables for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.errors import MissingExtra
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
    stream = sys.stderr if to_error else sys.stdout
    return Console(
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


def emit(args: argparse.Namespace, data: Any, show: Callable[[Console], None]) -> None:
    """Prints a result: `data` as JSON with --json, otherwise whatever `show` prints for people."""
    if args.json:
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        show(console())


def facts(title: str, rows: Sequence[tuple[str, str]]) -> Any:
    """A rich table of two columns: names and texts."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
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
