"""`python -m shuffledp.studio.worker`: a process that runs one job after another.

It reads a line of JSON for each job and writes a line for each answer. It ends when nobody writes
to it any more, or when it is ended because nobody wants the answer any more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from shuffledp.errors import ShuffleDPError
from shuffledp.studio.jobs import JOBS


def answers(line: str) -> Iterator[dict[str, Any]]:
    """The answers to one job: its items, then that it is done, or why it was refused."""
    asked = json.loads(line)
    try:
        for item in JOBS[asked["job"]](**asked["given"]):
            yield {"item": item}
        yield {"end": "done"}
    except ShuffleDPError as error:
        yield {"end": "refused", "why": str(error)}
    except Exception as error:  # the process goes on, and the page says that something is wrong
        why = f"{type(error).__name__}: this is a bug in shuffledp; please report it."
        yield {"end": "refused", "why": why}


def main() -> None:
    """Does jobs until standard input ends."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        for answer in answers(line):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
