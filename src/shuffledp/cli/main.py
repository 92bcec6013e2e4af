"""The command `shuffledp`: finds the sub-command, runs it, turns errors into one sentence."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import sys
import time
import traceback
from collections.abc import Sequence

from shuffledp.cli.needs import check_needs
from shuffledp.cli.output import add_loudness, speak_plainly
from shuffledp.cli.parsing import Parser
from shuffledp.documents.json_text import is_text
from shuffledp.errors import FalseClaim, PrivacyViolation, ShuffleDPError
from shuffledp.version import __version__

COMMANDS = (
    "plan",
    "verify",
    "query",
    "compare",
    "simulate",
    "ledger",
    "task",
    "keys",
    "send",
    "serve",
    "issuer",
    "relay",
    "result",
    "config",
    "backup",
    "device",
    "demo",
    "studio",
    "cluster",
    "completion",
    "version",
)
"""Modules beside this one, each with `add_to(commands)`."""

GROUPS = {
    "without writing code": ("studio",),
    "plan and prove": ("plan", "verify", "compare", "simulate"),
    "ask a column": (
        "count",
        "integer-sum",
        "real-sum",
        "mean",
        "histogram",
        "frequencies",
        "heavy-hitters",
        "quantiles",
    ),
    "keep a budget": ("ledger",),
    "collect from devices": ("demo", "task", "send", "device", "result"),
    "run the servers": (
        "shuffler",
        "analyzer",
        "issuer",
        "relay",
        "keys",
        "config",
        "backup",
        "restore",
    ),
    "work on a cluster": ("shuffle-batch", "open-batch"),
    "this program": ("completion", "version"),
}
"""Every command, in the order and the groups of the help."""

NO_MEMORY = (
    "The memory ran out; what a ledger was charged for is shown by shuffledp ledger show: ask for "
    "less, or use a machine with more memory."
)

NOT_TEXT = (
    "A word of this command is no text in the terminal's encoding, so that no value could equal "
    "it; set a UTF-8 locale (LC_ALL=C.UTF-8), or rename the file."
)

EPILOG = """examples:
  shuffledp count sample:commute --column bikes --epsilon 1
  shuffledp plan count --users 1000000 --epsilon 1
  shuffledp COMMAND --help

Exit codes: 0 done, 2 wrong call or something missing, 3 certificate refuted, 130 interrupted."""

WRONG, REFUTED, INTERRUPTED = 2, 3, 130
_LOGGER = logging.getLogger("shuffledp")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = Parser(
        prog="shuffledp",
        description="Pure differential privacy in the shuffle model: plan, run, verify.",
        epilog=EPILOG,
    )
    top.groups = GROUPS
    top.add_argument("--version", action="version", version=f"shuffledp {__version__}")
    add_loudness(top)
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"shuffledp.cli.{name}").add_to(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives its exit code: 0 if it did, 2 with one sentence if it could not, 3 if a
    certificate is refuted, 130 if interrupted."""
    speak_plainly()
    words = joined(sys.argv[1:] if arguments is None else arguments)
    if not all(is_text(word) for word in words):
        print(NOT_TEXT, file=sys.stderr)
        return WRONG
    args = parser().parse_args(words)
    if not getattr(args, "verbose", False):
        return _run(args, verbose=False)
    out, level = logging.StreamHandler(sys.stderr), _LOGGER.level
    _LOGGER.addHandler(out)  # of this package alone: others' loggers belong to whoever imports us
    _LOGGER.setLevel(logging.INFO)
    start = time.perf_counter()
    try:
        code = _run(args, verbose=True)
        if code == 0:
            _LOGGER.info("done in %.2f s", time.perf_counter() - start)
        return code
    finally:
        _LOGGER.removeHandler(out)
        _LOGGER.setLevel(level)


def _run(args: argparse.Namespace, *, verbose: bool) -> int:
    try:
        check_needs(args)
        args.run(args)
    except ShuffleDPError as error:
        if verbose:
            traceback.print_exc()
        print(str(error), file=sys.stderr)
        return REFUTED if isinstance(error, PrivacyViolation | FalseClaim) else WRONG
    except MemoryError:
        print(NO_MEMORY, file=sys.stderr)
        return WRONG
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
            raise
        print(f"Standard output takes no more ({error.strerror}); make room.", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    return 0


def joined(arguments: Sequence[str]) -> list[str]:
    """The words of a call, with values that begin with a dash joined to their options: a bound
    below 0 and a token with a dash are no options."""
    words = list(arguments)
    for place in range(len(words) - 1, 0, -1):
        option, value = words[place - 1 : place + 1]
        dashed = option == "--token" and value.startswith("-") and not value.startswith("--")
        if option == "--bounds" or dashed:
            words[place - 1 : place + 1] = [f"{option}={value}"]
    return words


if __name__ == "__main__":
    raise SystemExit(main())
