"""Lists phrases that our writing avoids; `make check` runs it.

    python scripts/check_words.py [FILE …]

It reads documents, docstrings, comments, error messages, pages and the JavaScript client. A phrase
that is right where it is (a term of the field, a quotation) goes into scripts/allowed_words.txt,
with the reason.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "scripts" / "allowed_words.txt"
READ = {".css", ".html", ".ipynb", ".jinja", ".js", ".md", ".py", ".toml", ".ts", ".txt", ".v"}
SKIPPED = (
    "scripts/check_words.py",
    "scripts/allowed_words.txt",
    "src/shuffledp/service/pages/client/",  # built from clients/js
    "src/shuffledp/samples/",
    "vectors/",
    "tests/",
    "LICENSE",
)

PHRASES = {
    r"\bso many\b": "name the number",
    r"\bwhoever\b": "anyone who, or you",
    r"\bshall\b": "should, must or will",
    r"\bof (its|their|his) own\b": "its own …, or separate",
    r"\bthe very\b|\bvery (numbers|parameters|same|bytes)\b": "the exact, or nothing",
    r"\bstands? in\b": "is in",
    r"\bin vain\b": "without effect",
    r"\bsure to come\b": "guaranteed",
    r"\bkeys that came first\b": "trust on first use",
    r"\bnearer end\b": "clip",
    r"\bletters of a\b": "text encoding",
    r"\bfalse (crowds?|clients?)\b": "Sybil attack, fake clients",
    r"\bscrubbed\b": "delivered and deleted",
    r"\b(doors?|lanes?|crowds?|errands?|houses?|strangers?|rivals?)\b": "no metaphor",
    r"\b(is|has|leaves?|find) (no )?room\b|\brooms?\b": "space, capacity",
    r"\binsists?( on)?\b": "requires",
    r"\bas (large|big|fast) as (memory|they|it) (if )?can\b": "say the limit",
    r"(?<!-)\banew\b": "again, new",
    r"\bfor ever\b": "forever",
    r"\bmay hold\b": "may have, may contain, or: the schema of",
    r"\b(what|which) (it|they|each|this) gives?\b|(?<=; )gives (how|what|its|the)\b": "returns",
    r"\btells (who|what|how|which) \w+": "shows, reveals",
    r"(?<!\bthere )\b(is|are) no [a-z]+(?=[;.])": "is not a …",
    r"\bin the law of\b|\bbehind `?to_\w+`?": "say what is meant",
    r"\b(to|of) its last digits\b|\bmade? good\b": "say what is meant",
    r"\b(nobody|everybody) holds?\b": "nobody has, everyone has",
}
PATTERN = re.compile("|".join(f"(?P<p{i}>{one})" for i, one in enumerate(PHRASES)), re.I)
INSTEAD = [*PHRASES.values()]


@dataclass(frozen=True)
class Hit:
    """A phrase in a line of a file."""

    path: str
    line: int
    text: str
    phrase: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: “{self.phrase}”: {self.instead}"


def allowed() -> set[tuple[str, str]]:
    """The path and the phrase of every line of the list; each has a reason behind `#`."""
    found = set[tuple[str, str]]()
    for line in ALLOWED.read_text("utf-8").splitlines():
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        if not reason.strip():
            raise SystemExit(f"{ALLOWED.name}: every entry needs a reason after #: {line}")
        path, _, phrase = entry.strip().partition(": ")
        found.add((path, phrase.lower()))
    return found


def prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines that a person reads: of Python code, its strings and comments."""
    if not path.endswith(".py"):
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from enumerate(token.string.splitlines(), token.start[0])


def hits(path: str, text: str) -> Iterator[Hit]:
    """The avoided phrases of a file, also those that a line break divides."""
    lines = [*prose(path, text)]
    for (number, line), (after, following) in pairwise([*lines, (0, "")]):
        rest = f" {following.lstrip(' #*>')}" if after == number + 1 else ""
        for match in PATTERN.finditer(line.rstrip() + rest):
            if match.start() < len(line.rstrip()):
                instead = INSTEAD[int((match.lastgroup or "p0")[1:])]
                yield Hit(path, number, line, " ".join(match[0].split()), instead)


def tracked() -> list[str]:
    """The files that the repository holds and a person reads."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in names.splitlines()
        if Path(name).suffix in READ and not name.startswith(SKIPPED) and (ROOT / name).is_file()
    ]


def main() -> int:
    """Prints every hit that is not allowed, and every allowed one that is no longer there."""
    exceptions, used = allowed(), set[tuple[str, str]]()
    found: list[Hit] = []
    for name in sys.argv[1:] or tracked():
        for hit in hits(name, (ROOT / name).read_text("utf-8")):
            key = (hit.path, hit.phrase.lower())
            if key in exceptions:
                used.add(key)
            else:
                found.append(hit)
    lines = [str(hit) for hit in found]
    if not sys.argv[1:]:
        lines += [f"{ALLOWED.name}: no longer found: {': '.join(key)}" for key in exceptions - used]
    print("\n".join(lines) or "no avoided phrases")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
