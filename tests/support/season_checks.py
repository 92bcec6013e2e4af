"""What must hold at the end of a season. Each check says what it found wrong; the tests of the
checks show that each of them can fail."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.tasks.encryption import open_all
from shuffledp.tasks.keys import PrivateKey
from shuffledp.tasks.opening import Tally
from shuffledp.tasks.replays import KEPT_KEY_BYTES, ReplayMemory
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import INPUT_BYTES, NONCE_BYTES, TOKEN_PREFIX, TOKEN_TYPE
from shuffledp.tasks.wire import DUMMY_NUMBER, MESSAGE_BYTES, read_upload

OUTSIDE = 1e-9
"""How likely a right result is to miss its forecast here: a test must not fail by chance."""
Sums = NDArray[np.int64]


# every acknowledged report is counted once


def messages_of(bodies: Iterable[bytes]) -> Counter[bytes]:
    """The beginnings of all messages of these reports, by which the analyzer tells them apart."""
    found: Counter[bytes] = Counter()
    for body in bodies:
        messages = read_upload(body).messages
        starts = range(0, len(messages), MESSAGE_BYTES)
        found.update(messages[start : start + KEPT_KEY_BYTES] for start in starts)
    return found


def counted_messages(spool: Path, task: Task) -> Counter[bytes]:
    """The beginnings of all messages that the analyzer has counted under a task's key."""
    memory = ReplayMemory(spool / f"seen-{task.key.key_id}-{task.key.epoch}")
    files = [*memory.files(), *(memory.run_of(name) for name in memory.waiting())]
    data = b"".join(file.read_bytes() for file in files)
    starts = range(0, len(data), KEPT_KEY_BYTES)
    return Counter(data[start : start + KEPT_KEY_BYTES] for start in starts)


def miscounted(acknowledged: Counter[bytes], counted: Counter[bytes], more: int = 0) -> str:
    """What is wrong if not every message of the acknowledged reports was counted once, beside
    `more` messages that the test does not know; empty if nothing is."""
    lost = len(acknowledged.keys() - counted.keys())
    twice = sum(times > 1 for times in counted.values())
    unknown = sum((counted - acknowledged).values())
    if not lost and not twice and unknown == more:
        return ""
    return f"{lost} messages lost, {twice} counted twice, {unknown} unknown instead of {more}"


# no device beyond its budget


def overspent(charges: Iterable[Fraction], most: Fraction) -> str:
    """What is wrong if a device has spent more than its policy allows; empty if nothing is."""
    spent = sum(charges, start=Fraction(0))
    return f"ε = {spent} of {most}" if spent > most else ""


# every published result is inside its forecast, or marked


def outside_forecast(task: Task, published: Mapping[str, Any], truth: Mapping[str, int]) -> str:
    """What is wrong if a result is further from the truth than forecast; empty if nothing is."""
    cell, users = _cell(task), task.batch.reports + task.publish_shares
    found = []
    for row in published["result"]["buckets"]:
        low, high = cell.error_range(users, truth[row["label"]], OUTSIDE)
        error = row["estimate"] - truth[row["label"]]
        if not low <= error <= high:
            found.append(f"an error of {error:.1f} outside {low:.1f} … {high:.1f}")
    return "; ".join(found)


def misses(published: Mapping[str, Any], truth: Mapping[str, int]) -> list[bool]:
    """Which of the published intervals do not hold the truth."""
    rows = published["result"]["buckets"]
    return [not row["interval"][0] <= truth[row["label"]] <= row["interval"][1] for row in rows]


def too_often(events: int, tries: int, chance: float) -> bool:
    """Whether so many events in independent tries are implausible (below `OUTSIDE`), if each has at
    most this chance."""
    tail = sum(
        math.comb(tries, k) * chance**k * (1 - chance) ** (tries - k)
        for k in range(events, tries + 1)
    )
    return tail < OUTSIDE


def _cell(task: Task) -> Any:
    assert isinstance(task.protocol, HistogramProtocol)
    return task.protocol.cell


# the noise was really added


def opened_sum(task: Task, key: PrivateKey, bodies: Iterable[bytes]) -> Sums:
    """The sum of these reports, cell by cell, as only the analyzer's key shows it."""
    data = b"".join(read_upload(body).messages for body in bodies)
    messages = (data[start : start + MESSAGE_BYTES] for start in range(0, len(data), MESSAGE_BYTES))
    numbers, unopened = open_all(messages, key.secret, task.key.info(task.id))
    assert not unopened
    plain = np.array([number for number in numbers if number != DUMMY_NUMBER], np.int64)
    signs = np.where(plain % 2 == 1, 1, -1)
    return np.bincount(plain // 2, signs, minlength=len(task.protocol.cells)).astype(np.int64)


def added_noise(task: Task, published: Mapping[str, Any], tally: Tally) -> Sums:
    """What the analyzer added to a batch before it published it, cell by cell."""
    users = task.batch.reports + task.publish_shares
    zero, one = _cell(task).estimates(np.array([0, 1]), users)
    shown = np.array([row["estimate"] for row in published["result"]["buckets"]])
    released = np.rint((shown - zero) / (one - zero)).astype(np.int64)
    noise: Sums = released - (tally.plus - tally.minus)
    return noise


def too_often_nothing(task: Task, noise: Sums) -> bool:
    """Whether the noise is 0 more often than its law allows."""
    _, masses = _cell(task).error_law(task.publish_shares, 0)
    most = float(masses.max())  # the chance of 0, or of a more likely number
    return too_often(int((noise == 0).sum()), noise.size, most)


# no token, value or address in any log or file


def token_forms(name: str, token: str) -> dict[bytes, str]:
    """Everything that would give a token away: its text, and the random bytes inside, as they are,
    in hexadecimal digits and in base64."""
    text = token.removeprefix(TOKEN_PREFIX)
    raw = base64.urlsafe_b64decode(text[text.find("-") + 1 :] + "==") if _is_each(token) else b""
    if token.startswith(TOKEN_PREFIX):
        whole = base64.urlsafe_b64decode(text)
        nonce = whole[len(TOKEN_TYPE) : len(TOKEN_TYPE) + NONCE_BYTES]
        parts = {f"{name}: nonce": nonce, f"{name}: signature": whole[INPUT_BYTES:][:64]}
    else:
        parts = {f"{name}: bytes": raw} if raw else {}
    forms = {token.encode(): f"{name}: text"}
    for what, part in parts.items():
        forms |= {part: what, part.hex().encode(): f"{what}, hexadecimal"}
        forms[base64.b64encode(part)[:40]] = f"{what}, base64"
        forms[base64.urlsafe_b64encode(part)[:40]] = f"{what}, base64 for URLs"
    return forms


def _is_each(token: str) -> bool:
    return token.startswith(("each-", "once-"))


PREFIX_BYTES = 8


class Needles:
    """Byte strings of at least eight bytes, looked for in files all at once."""

    def __init__(self, names: Mapping[bytes, str]) -> None:
        assert all(len(needle) >= PREFIX_BYTES for needle in names)
        self._names = names
        self._by_prefix: dict[int, list[bytes]] = {}
        for needle in names:
            prefix = int.from_bytes(needle[:PREFIX_BYTES], "little")
            self._by_prefix.setdefault(prefix, []).append(needle)
        self._prefixes = np.array(sorted(self._by_prefix), np.uint64)
        self._ends = np.zeros(1 << 16, bool)
        self._ends[(self._prefixes & np.uint64(0xFFFF)).astype(np.int64)] = True

    def inside(self, data: bytes) -> set[str]:
        """The names of the needles that are in some bytes."""
        found: set[str] = set()
        for shift in range(min(PREFIX_BYTES, len(data))):
            end = len(data) - (len(data) - shift) % PREFIX_BYTES
            words = np.frombuffer(data[shift:end], "<u8")
            likely = np.flatnonzero(self._ends[(words & np.uint64(0xFFFF)).astype(np.int64)])
            hits = likely[np.isin(words[likely], self._prefixes)]
            for hit in hits.tolist():
                start = shift + PREFIX_BYTES * hit
                for needle in self._by_prefix[int(words[hit])]:
                    if data.startswith(needle, start):
                        found.add(self._names[needle])
        return found

    def search(self, *folders: Path) -> dict[str, set[str]]:
        """What is found in each file of some folders; files without a find are left out."""
        found = {}
        for folder in folders:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and (names := self.inside(_content(file))):
                    found[str(file.relative_to(folder))] = names
        return found


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # of a database that runs
        return b""
