"""Runs the code blocks of the tutorial and the how-to pages, and compares what they print.

    python scripts/document_blocks.py [--write] [PAGE …]

A page is one walk in an empty folder. Its `bash` blocks go to one shell, its `python` blocks to one
interpreter, in their order; a block that fails ends the page. A `text` block right behind one of
them is what it prints: exactly, or, if it is marked `text random`, up to the digits. `--write` puts
what was printed into the pages. Blocks of other kinds (`console`, `toml`, …) are not run.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs/tutorial.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<kind>[^\n{]*)\n(?P<body>.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"[-−+]?\d[\d,.e]*")
DONE = "--- end of block ---"


class BlockError(Exception):
    """A block of a page failed, or printed something else than the page says."""


@dataclass(frozen=True)
class Step:
    """A block that is run, and where the page shows what it prints."""

    kind: str
    code: str
    shown: re.Match[str] | None


def steps(text: str) -> Iterator[Step]:
    """The blocks of a page that are run, in their order."""
    blocks = [*BLOCK.finditer(text)]
    for block, follower in zip(blocks, [*blocks[1:], None], strict=True):
        if block["kind"] not in ("bash", "python"):
            continue
        beside = follower is not None and not text[block.end() : follower.start()].strip()
        is_output = beside and follower is not None and follower["kind"].startswith("text")
        yield Step(block["kind"], block["body"], follower if is_output else None)


class Walk:
    """A shell and an interpreter in a folder of their own, for the blocks of one page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": here, "COLUMNS": "100", "MPLBACKEND": "Agg", "HOME": str(folder)}
        self.shell = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail"],
            cwd=folder,
            env={**os.environ, **settings, "XDG_DATA_HOME": str(folder / "data")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, step: Step) -> str:
        """What a block prints."""
        printed = self._python(step.code) if step.kind == "python" else self._bash(step.code)
        lines = [line.rstrip() for line in printed.replace(str(self.folder), "…").splitlines()]
        return "\n".join(lines).strip("\n")

    def _bash(self, code: str) -> str:
        assert self.shell.stdin is not None and self.shell.stdout is not None
        self.shell.stdin.write(f"{{ {code}\n}} </dev/null\necho '{DONE}'\n")
        self.shell.stdin.flush()
        lines: list[str] = []
        for line in self.shell.stdout:
            if line.rstrip("\n").endswith(DONE):
                return "".join(lines) + line.rstrip("\n").removesuffix(DONE)
            lines.append(line)
        raise BlockError(f"This block failed:\n{code}\n{''.join(lines)}")

    def _python(self, code: str) -> str:
        out, before = io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, "block", "exec"), self.names)
        except Exception as error:
            raise BlockError(f"This block failed ({error!r}):\n{code}") from error
        finally:
            os.chdir(before)
        return out.getvalue()

    def end(self) -> None:
        """Ends the shell and all programs that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.communicate()


def differs(printed: str, shown: re.Match[str]) -> bool:
    """Whether a block printed something else than the page shows."""
    expected = shown["body"].strip("\n")
    if "random" not in shown["kind"]:
        return printed != expected
    return _without_digits(printed) != _without_digits(expected)


def _without_digits(text: str) -> str:
    """A text without its numbers, and without the spaces and lines that depend on their lengths."""
    return re.sub(r"[\s─━█▏▎▍▌▋▊▉]+", " ", NUMBER.sub("#", text))


def run_page(page: Path, write: bool = False) -> None:
    """Runs a page's blocks; raises `BlockError` where one fails or prints something else."""
    text = page.read_text("utf-8")
    parts, end = [], 0
    with tempfile.TemporaryDirectory() as name:
        walk = Walk(Path(name))
        shutil.copy(ROOT / "examples/commute.csv", name)
        shutil.copytree(ROOT / "vectors", Path(name) / "vectors")
        try:
            for step in steps(text):
                printed = walk.run(step)
                if step.shown is None:
                    continue
                if not write and differs(printed, step.shown):
                    raise BlockError(_difference(page, step, printed))
                parts += [text[end : step.shown.start("body")], printed, "\n"]
                end = step.shown.end("body")
        finally:
            walk.end()
    if write:
        page.write_text("".join(parts) + text[end:], "utf-8")


def _difference(page: Path, step: Step, printed: str) -> str:
    assert step.shown is not None
    shown = step.shown["body"].splitlines()
    lines = difflib.unified_diff(shown, printed.splitlines(), "page", "printed", lineterm="")
    return f"{page.name} shows something else than this block prints:\n{step.code}" + "\n".join(
        lines
    )


def main() -> int:
    """Runs the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--write", action="store_true", help="put what was printed into the pages")
    args = parser.parse_args()
    for page in args.pages:
        try:
            run_page(page, args.write)
        except BlockError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{page.name}: every block runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
