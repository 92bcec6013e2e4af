"""An independent check of shuffledp certificates: standard library only, integers only.

    python -m shuffledp_check FILE [FILE …]

It shares no code, no arithmetic library and no search with shuffledp. Bounded cells are checked by
bounded.py, those of them that share their way up by shared.py, sparse ones by sparse.py, all in
fractions. For the others, reals
are enclosed between integers over 2^BITS; e^x comes from its Taylor series with the remainder
added, r(m) from its product. What it proves is stated in docs/mathematics.md, "The inequality".
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import Any

from shuffledp_check.bounded import BoundedCell, Rejected
from shuffledp_check.shared import SharedCell, check_together
from shuffledp_check.sparse import SparseCell

BITS = 320
ONE = 1 << BITS


class Real:
    """A real number between low/2^BITS and high/2^BITS."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, number: Fraction | int) -> Real:
        scaled = Fraction(number) * ONE
        floor = scaled.numerator // scaled.denominator
        return cls(floor, floor + (scaled.denominator != 1))

    def __add__(self, other: Real) -> Real:
        return Real(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Real) -> Real:
        return Real(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Real) -> Real:
        """For numbers that are not negative."""
        if self.low < 0 or other.low < 0:
            raise Rejected("a negative factor")
        return Real(self.low * other.low >> BITS, -(-self.high * other.high >> BITS))

    def above(self, other: Real) -> bool:
        return self.low > other.high


def exponential(x: Fraction) -> Real:
    """e^x: halve the argument until it is small, add up the series, square back."""
    if x < 0:
        inverse = exponential(-x)
        return Real(ONE * ONE // inverse.high, -(-ONE * ONE // inverse.low))
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 8)
    small = Real.of(x / 2**halvings)
    total, term, k = Real.of(1), Real.of(1), 0
    while term.high > 1 and k < 4 * BITS:
        k += 1
        product = term * small
        term = Real(product.low // k, -(-product.high // k))
        total = total + term
    total.high += 2 * term.high + 2  # the rest of the series is below twice the last term
    for _ in range(halvings):
        total = total * total
    return total


class Float:
    """A positive real between two integers over a shared power of two; for long products."""

    def __init__(self, low: int, high: int, exponent: int) -> None:
        spare = max(0, high.bit_length() - BITS)
        self.low, self.high = low >> spare, -(-high >> spare)
        self.exponent = exponent + spare

    def times(self, numerator: int, denominator: int) -> Float:
        low = (self.low * numerator << 64) // denominator
        high = -((-self.high * numerator << 64) // denominator)
        return Float(low, high, self.exponent - 64)

    def real(self) -> Real:
        shift = self.exponent + BITS
        if shift >= 0:
            return Real(self.low << shift, self.high << shift)
        return Real(self.low >> -shift, -(-self.high >> -shift))


class Cell:
    """One cell's numbers, as the certificate gives them."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.users = int(data["users"])
        self.largest = int(data["largest"])
        self.up_loss = Fraction(data["up_epsilon"])
        self.b = Fraction(data["down_epsilon"])
        self.q = Fraction(data["mute_probability"])
        self.s = int(data["input_pairs"])
        self.flood = Fraction(data["flood_mean"])
        self.h = int(data["stand_in"])
        sound = self.users > 0 and self.largest > 0 and self.up_loss > 0 and self.b > 0
        if not (sound and 0 < self.q < 1 and self.s >= 0 and 0 <= self.h <= self.largest):
            raise Rejected("parameters outside their domain")
        if self.flood < 0 or (self.flood == 0 and (self.s > 0 or self.h > 0)):
            raise Rejected("no flood to hide the pairs")


class Inequality:
    """g for one cell, one loss, one change from x to x + delta."""

    def __init__(self, cell: Cell, loss: Fraction, delta: int, x: int) -> None:
        self.cell, self.delta = cell, delta
        t = min(x, cell.h)
        self.pairs = cell.s + t
        fade = (cell.up_loss * (x - t) + cell.b * (cell.h - t)) / cell.largest
        odds = Real.of(cell.q / (1 - cell.q))
        self.lift = (exponential(loss) - Real.of(1)) * odds * exponential(-fade)
        self.data = exponential(loss - cell.b * delta / cell.largest)
        self.known: dict[int, Real] = {}

    def __call__(self, m: int) -> Real:
        if m not in self.known:
            self.known[m] = self._value(m)
        return self.known[m]

    def _value(self, m: int) -> Real:
        top, bottom = self.cell.flood.numerator, self.cell.flood.denominator
        muted = Float(1, 1, 0)
        for k in range(1, self.pairs + 1):
            muted = muted.times(top, bottom * (m + k))
        total = self.lift * muted.real()
        if m >= self.delta:
            falling = Float(1, 1, 0)
            for k in range(self.delta):
                falling = falling.times((m - k) * bottom, top)
            total = total + self.data * falling.real()
        return total

    def check(self) -> None:
        """g ≥ 1 at every integer, by convexity."""
        one = Real.of(1)
        if self.cell.flood == 0:
            if not self.lift.above(one):
                raise Rejected("the inequality fails without a flood")
            return
        right = 1
        while not self(right + 1).above(self(right)):
            right *= 2
            if right > 1 << 80:
                raise Rejected("no rising place found")
        left = 0  # the least place at which g certainly rises lies in left..right
        while left < right:
            middle = (left + right) // 2
            if self(middle + 1).above(self(middle)):
                right = middle
            else:
                left = middle + 1
        place = right
        for _ in range(16):
            if not self(place).above(one):
                raise Rejected(f"the inequality fails or is undecided at m = {place}")
            if place == 0 or self(place - 1).above(self(place)):
                return
            place -= 1
        raise Rejected("no strict fall found to the left of the least place")


def check_cell(cell: AnyCell, up: Fraction, down: Fraction) -> None:
    """up_epsilon ≤ up, and the downward inequality for every change (x = 0, D − δ decide); bounded
    and sparse cells by their own rules."""
    if isinstance(cell, BoundedCell | SparseCell):
        cell.check(up, down)
        return
    if cell.up_loss > up:
        raise Rejected("up_epsilon exceeds what a change upwards may cost")
    for delta in range(1, cell.largest + 1):
        for x in {0, cell.largest - delta}:
            Inequality(cell, down, delta, x).check()


AnyCell = Cell | BoundedCell | SparseCell
Budget = tuple[AnyCell, Fraction, Fraction]
"""A cell, and what a change upwards and downwards may cost."""


def read_cell(data: dict[str, Any]) -> AnyCell:
    """The cell by its kind; refuses a shared cell, which is never alone."""
    kinds: dict[str, type[AnyCell]] = {"paper": Cell, "bounded": BoundedCell}
    if data.get("kind") == SharedCell.kind:
        raise Rejected("only the digits of a real sum share their way up")
    if data.get("kind") not in kinds:
        raise Rejected("unknown kind of cell")
    return kinds[data["kind"]](data)


def read_digits(digits: list[dict[str, Any]]) -> list[AnyCell]:
    """The digits of a real sum: all of them share their way up, or none does."""
    if not any(digit.get("kind") == SharedCell.kind for digit in digits):
        return [read_cell(digit) for digit in digits]
    group = [SharedCell(digit) for digit in digits]
    check_together(group)
    return list(group)


MOST_DITHER = 64


def budgets(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """(loss of a replacement, the cells with their budgets), by what the protocol answers."""
    epsilon, query = Fraction(protocol["epsilon"]), protocol["query"]
    if query in ("count", "integer-sum"):
        cell = read_cell(protocol["cell"])
        if query == "count" and cell.largest != 1:
            raise Rejected("a count is about 0 and 1")
        return max(cell.up_loss, epsilon), [(cell, cell.up_loss, epsilon)]
    if query == "histogram" and protocol["cell"].get("kind") == SparseCell.kind:
        return sparse_histogram(protocol)
    if query == "histogram":
        cell = read_cell(protocol["cell"])
        if cell.largest != 1 or len(set(protocol["labels"])) != len(protocol["labels"]):
            raise Rejected("a histogram needs distinct labels and cells for 0 and 1")
        return epsilon, [(cell, cell.up_loss, epsilon - cell.up_loss)]
    if query in ("frequencies", "heavy-hitters"):
        return hashed_labels(protocol)
    if query == "real-sum":
        cells = read_digits(protocol["digits"])
        loss = sum((cell.up_loss for cell in cells), start=Fraction(0))
        return loss, [(cell, cell.up_loss, cell.up_loss) for cell in cells]
    if query == "quantiles":
        parts = [(read_cell(one["cell"]), Fraction(one["down"])) for one in protocol["levels"]]
        if any(cell.largest != 1 for cell, _ in parts):
            raise Rejected("levels are about 0 and 1")
        total = sum((cell.up_loss + down for cell, down in parts), start=Fraction(0))
        return total, [(cell, cell.up_loss, down) for cell, down in parts]
    if query == "by-group":
        return by_group(protocol)
    raise Rejected(f"unknown query {query!r}")


def sparse_histogram(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """All buckets are drawn at once: replacing any value costs what the cell says."""
    cell, labels = SparseCell(protocol["cell"]), protocol["labels"]
    distinct = labels if type(labels) is int else len(set(labels))
    if cell.buckets != distinct or (type(labels) is not int and len(labels) != distinct):
        raise Rejected("a sparse cell is for as many distinct labels as it has buckets")
    return cell.up_loss, [(cell, cell.up_loss, cell.up_loss)]


def hashed_labels(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """Labels are mapped to buckets of a sparse cell. It costs the same for any two buckets, hence
    for any two random choices of buckets; the hash does not matter."""
    if protocol["cell"].get("kind") != SparseCell.kind:
        raise Rejected("hashed labels need a sparse cell")
    cell = SparseCell(protocol["cell"])
    if cell.buckets & (cell.buckets - 1):
        raise Rejected("hashed labels need a power of two of buckets")
    return cell.up_loss, [(cell, cell.up_loss, cell.up_loss)]


def by_group(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """A user who changes groups lowers every digit in one group's copies and raises every digit in
    another's; sizes of groups are counted by one more cell of the same kind."""
    labels, sizes = protocol["labels"], protocol.get("sizes")
    if len(set(labels)) != len(labels) or len(labels) < 2:
        raise Rejected("groups need distinct labels")
    needed = protocol["answer"] == "mean" or Fraction(protocol["low"]) != 0
    if (sizes is not None) != needed:
        raise Rejected("sizes of groups are counted where the answer needs them, and only there")
    parts = protocol["digits"] + ([] if sizes is None else [sizes])
    cells = [(read_cell(one["cell"]), Fraction(one["down"])) for one in parts]
    if sizes is not None and cells[-1][0].largest != 1:
        raise Rejected("sizes are about 0 and 1")
    total = sum((cell.up_loss + down for cell, down in cells), start=Fraction(0))
    return total, [(cell, cell.up_loss, down) for cell, down in cells]


def check_dither(protocol: dict[str, Any]) -> None:
    """A public dither costs nothing: its law is the same whatever the value, and given it a value
    changes the digits as it does without. Only sums by digits have one."""
    if "dither" not in protocol:
        return
    dither = protocol["dither"]
    if protocol["query"] != "real-sum" or type(dither) is not int or not 2 <= dither <= MOST_DITHER:
        raise Rejected(f"only real sums have a dither, of 2 to {MOST_DITHER} values")


def check(data: dict[str, Any]) -> Fraction:
    """ε, if the certificate (or the plan that holds one) proves it; raises `Rejected` otherwise."""
    data = data.get("certificate", data)
    if data.get("format") != "shuffledp certificate 2":
        raise Rejected("not a certificate")
    protocol = data["protocol"]
    epsilon = Fraction(protocol["epsilon"])
    check_dither(protocol)
    loss, cells = budgets(protocol)
    if loss > epsilon or Fraction(data["epsilon"]) != epsilon or Fraction(data["loss"]) != loss:
        raise Rejected("the losses do not add up to what is claimed")
    if any(cell.users != int(data["users"]) for cell, _, _ in cells):
        raise Rejected("the number of users differs")
    for cell, up, down in cells:
        check_cell(cell, up, down)
    return epsilon


USAGE = "Name certificate or plan files: python -m shuffledp_check FILE [FILE …]"
CERTIFIED, WRONG_CALL, REFUTED = 0, 2, 3
"""Exit codes."""


def verdict(name: str) -> tuple[int, str]:
    """The exit code for one file, `-` for standard input, and what to say about it."""
    try:
        if name == "-":
            data = json.load(sys.stdin)
        else:
            with open(name, encoding="utf-8") as file:
                data = json.load(file)
    except OSError as error:
        return WRONG_CALL, f"cannot be read ({error.strerror})"
    except (ValueError, RecursionError):
        return REFUTED, "rejected: no JSON"
    try:
        return CERTIFIED, f"certified for epsilon = {check(data)}"
    except Rejected as error:
        return REFUTED, f"rejected: {error}"
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return REFUTED, "rejected: malformed"


def main() -> int:
    """Checks every named file; the exit code is 0 only if all of them hold."""
    names = sys.argv[1:]
    if not names or names[0].startswith("--"):
        print(USAGE, file=sys.stderr)
        return CERTIFIED if "--help" in names else WRONG_CALL
    codes = []
    for name in names:
        code, said = verdict(name)
        print(f"{name}: {said}")
        codes.append(code)
    return max(codes)


if __name__ == "__main__":
    raise SystemExit(main())
