"""What a command needs is checked before it does anything: optional packages, standard output, and
the files that it will write."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from shuffledp.documents.files import check_writable
from shuffledp.errors import ParameterError
from shuffledp.extras import require

Needs = Sequence[str] | Callable[[argparse.Namespace], Sequence[str]]
"""The extras of shuffledp that a command needs, always or as its arguments say."""

STANDARD = "-"
"""Names standard input or output where a file is expected."""


def file_only(path: str) -> str:
    """The path of a file; refuses standard output, which some results cannot go to."""
    if path == STANDARD:
        raise ParameterError("This cannot go to standard output; give the name of a file.")
    return path


def check_needs(args: argparse.Namespace) -> None:
    """Raises what would keep a command from showing or storing its result.

    Ensures: nothing was read, written, sent or charged.
    """
    if sys.stdout is None or sys.stdout.closed:
        raise ParameterError("Standard output is closed, so that nothing could be shown; open it.")
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
