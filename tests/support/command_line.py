"""Runs the command `shuffledp` in this process."""

from __future__ import annotations

import pytest

from shuffledp.cli.main import main

CSV = "flag,km,way\n" + "".join(
    f"{i % 2},{i % 10},{'bike' if i % 3 else 'walk'}\n" for i in range(300)
)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command."""
    try:
        code = main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err
