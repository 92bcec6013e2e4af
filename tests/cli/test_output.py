"""What people see of long work, and of texts that others have chosen."""

from __future__ import annotations

import argparse
import io
import sys

import pytest

from shuffledp.cli.output import Facts, emit, progress_bar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("steps", "goes_on"), [([1, 1], True), ([1], False)])
def test_the_bar_goes_on_while_the_answer_is_worked_out(
    monkeypatch: pytest.MonkeyPatch, steps: list[int], goes_on: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(argparse.Namespace(json=False), "count", 2) as progress:
        for one in steps:
            progress(one)
    assert isinstance(sys.stderr, Terminal)
    shown = sys.stderr.getvalue()
    assert "count" in shown and ("computing the answer" in shown) == goes_on


@pytest.mark.parametrize("silent", [{"json": True}, {"json": False, "quiet": True}])
def test_no_bar_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, silent: dict[str, bool]
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(argparse.Namespace(**silent), "count", 2) as progress:
        progress(2)
    assert isinstance(sys.stderr, Terminal) and not sys.stderr.getvalue()


def test_texts_of_others_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor emoji codes mean anything, and no text controls the terminal."""
    text = "[red]a[/] :bug: \x1b[2Jb \x9b1m \u202ec"
    seen = "[red]a[/] :bug: \ufffd[2Jb \ufffd1m \ufffdc"
    args = argparse.Namespace(json=False)
    for shown in (text, Facts(text, [(text, "x"), ("x", text)]), lambda out: out.print(text)):
        emit(args, {}, shown)
        out = capsys.readouterr().out
        assert seen in out and "\x1b[2J" not in out and "\u202e" not in out
