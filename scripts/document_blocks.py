"""Runs the code blocks of the tutorial and the how-to pages, and compares what they print.

    python scripts/document_blocks.py [--write] [PAGE …]

A page is one walk in an empty folder. Its `bash` blocks go to one shell, its `python` blocks to one
interpreter, in their order; a block that fails ends the page. A `text` block right behind one of
them is what it prints: exactly, or, if it is marked `text random`, up to the digits. `--write` puts
what was printed into the pages, fresh digits included: between noise there may be figures of a plan
that has changed. Blocks of other kinds (`console`, …) are not run.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path

from shuffledp.service.demo import free_port

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / "docs" / name for name in ("tutorial.md", "browser.md", "spark.md", "gallery.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
BLOCK = re.compile(r"^```(?P<kind>[^\n{]*)\n(?P<body>.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"\b[0-9a-f]{16,}\b|[-−+]?\d[\d,.e]*")
PORTS = (8801, 8802)
"""Ports of this machine that pages name."""
MOST_SECONDS = 300.0
"""How long the blocks of a page may take; then its shell is ended."""
DONE = "--- end of block ---"
INTERPRETER = f"""
import json, sys, traceback
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "block", "exec"), names)
    except BaseException:
        print(traceback.format_exc())
        break
    print("{DONE}", flush=True)
"""
"""Runs blocks of Python, one per line, in one namespace."""


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
    for block, follower in zip_longest(blocks, blocks[1:]):
        if block["kind"] not in ("bash", "python"):
            continue
        beside = follower is not None and not text[block.end() : follower.start()].strip()
        is_output = beside and follower is not None and follower["kind"].startswith("text")
        yield Step(block["kind"], block["body"], follower if is_output else None)


class Walk:
    """A shell and an interpreter in a fresh folder, for the blocks of one page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses = {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in PORTS}
        """Addresses that pages name, and those that are used instead."""
        here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": here, "MPLBACKEND": "Agg", "HOME": str(folder)}
        environment = {**os.environ, **settings, "XDG_DATA_HOME": str(folder / "data")}
        start = partial(
            subprocess.Popen[str],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.programs = {
            "bash": start(["bash", "-e", "-o", "pipefail"], stderr=subprocess.STDOUT),
            "python": start([sys.executable, "-c", INTERPRETER], stderr=subprocess.DEVNULL),
        }
        self.limit = threading.Timer(MOST_SECONDS, self._kill)
        self.limit.start()

    def run(self, step: Step) -> str:
        """What a block prints."""
        code = step.code
        for named, used in self.addresses.items():
            code = code.replace(named, used)
        printed = self._ask(step.kind, code)
        for named, used in self.addresses.items():
            printed = printed.replace(used, named)
        lines = [line.rstrip() for line in printed.replace(str(self.folder), "…").splitlines()]
        return "\n".join(lines).strip("\n")

    def _ask(self, kind: str, code: str) -> str:
        program = self.programs[kind]
        assert program.stdin is not None and program.stdout is not None
        shell = f"{{ {code}\n}} </dev/null\necho '{DONE}'\n"
        program.stdin.write(shell if kind == "bash" else f"{json.dumps(code)}\n")
        program.stdin.flush()
        lines: list[str] = []
        for line in program.stdout:
            if line.rstrip("\n").endswith(DONE):
                return "".join(lines) + line.rstrip("\n").removesuffix(DONE)
            lines.append(line)
        raise BlockError(f"This block failed:\n{code}\n{''.join(lines)}")

    def end(self) -> None:
        """Ends both, and all programs that they started."""
        self.limit.cancel()
        self._kill()
        for program in self.programs.values():
            program.communicate()

    def _kill(self) -> None:
        for program in self.programs.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


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
        try:
            for step in steps(text):
                printed = walk.run(step)
                if step.shown is None or not (write or differs(printed, step.shown)):
                    continue
                if not write:
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
