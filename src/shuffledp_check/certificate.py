"""An independent check of shuffledp certificates: standard library only, integers only.

    python -m shuffledp_check FILE [FILE …]

It shares no code, no arithmetic library and no search with shuffledp. Bounded cells are checked by
bounded.py, those of them that share their way up by shared.py and pooled.py, sparse ones by
sparse.py, all in fractions. For the others, reals are enclosed between integers over 2^BITS; e^x
comes from its Taylor series with the remainder added, r(m) from its product. What it proves is
stated in docs/mathematics.md, "The inequality".
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from shuffledp_check import document
from shuffledp_check.bounded import BoundedCell, Rejected
from shuffledp_check.pooled import PooledCell
from shuffledp_check.shared import SharedCell, check_together
from shuffledp_check.sparse import KeptCell, SparseCell

BITS = 320
ONE = 1 << BITS
MOST_STEPS = 4_000_000
"""The most factors that are multiplied for one certificate: a few seconds."""


class Work:
    """How many more steps a certificate may take."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise Rejected("too long for this program to check")


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

    def __mul__(self, other: Real) -> Real:
        """For numbers that are not negative."""
        return Real(self.low * other.low >> BITS, -(-self.high * other.high >> BITS))

    def above(self, other: Real) -> bool:
        return self.low > other.high

    def nearest(self) -> float:
        """A float close to it; infinite if it is too large."""
        try:
            return self.low / ONE
        except OverflowError:
            return math.inf


class Float:
    """A real, not negative, between two integers over a shared power of two; for long products."""

    def __init__(self, low: int, high: int, exponent: int) -> None:
        spare = max(0, high.bit_length() - BITS)
        self.low, self.high = low >> spare, -(-high >> spare)
        self.exponent = exponent + spare

    def times(self, numerator: int, denominator: int) -> Float:
        more = 64 + max(0, denominator.bit_length() - numerator.bit_length())
        low = (self.low * numerator << more) // denominator
        high = -((-self.high * numerator << more) // denominator)
        return Float(low, high, self.exponent - more)

    def __mul__(self, other: Float) -> Float:
        return Float(self.low * other.low, self.high * other.high, self.exponent + other.exponent)

    def real(self) -> Real:
        shift = self.exponent + BITS
        if shift >= 0:
            return Real(self.low << shift, self.high << shift)
        return Real(self.low >> -shift, -(-self.high >> -shift))


def exponential(x: Fraction) -> Float:
    """e^x: halve the argument until it is small, add up the series, square back."""
    if x < 0:
        inverse = exponential(-x)
        one = inverse.high.bit_length() + BITS
        low, high = (1 << one) // inverse.high, -(-(1 << one) // inverse.low)
        return Float(low, high, -one - inverse.exponent)
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
    return Float(total.low, total.high, -BITS)


class Cell:
    """One cell's numbers from the certificate."""

    kind = "paper"

    def __init__(self, data: dict[str, Any]) -> None:
        self.users, self.largest = data["users"], data["largest"]
        self.up_loss = Fraction(data["up_epsilon"])
        self.b = Fraction(data["down_epsilon"])
        self.q = Fraction(data["mute_probability"])
        self.s, self.h = data["input_pairs"], data["stand_in"]
        self.flood = Fraction(data["flood_mean"])
        sound = self.users > 0 and self.largest > 0 and self.up_loss > 0 and self.b > 0
        if not (sound and 0 < self.q < 1 and self.s >= 0 and 0 <= self.h <= self.largest):
            raise Rejected("parameters outside their domain")
        if self.flood < 0 or (self.flood == 0 and (self.s > 0 or self.h > 0)):
            raise Rejected("no flood to hide the pairs")

    def check(self, up: Fraction, down: Fraction, work: Work) -> dict[str, Any]:
        """What a proof says: up_epsilon ≤ up, and the downward inequality for every change (x = 0
        and x = D − δ decide); raises `Rejected` if there is none."""
        if self.up_loss > up or down <= 0:
            raise Rejected("up_epsilon exceeds what a change upwards may cost")
        found: list[Least] = []
        guess = int(self.flood)
        for delta in range(1, self.largest + 1):
            highest = self.largest - delta
            for x in sorted({0, highest}) if self.h else [highest]:
                found.append(Inequality(self, down, delta, x, work).check(guess))
                guess = found[-1].at
        least = min(found, key=lambda one: one.value.low)
        return {"inequality": "down", "shift": least.delta, "value": least.x, "at": least.at}


class Least(NamedTuple):
    """Where g is least for one change."""

    delta: int
    x: int
    at: int
    value: Real


class Inequality:
    """g for one cell, one loss, one change from x to x + delta."""

    def __init__(self, cell: Cell, loss: Fraction, delta: int, x: int, work: Work) -> None:
        self.cell, self.delta, self.x, self.work = cell, delta, x, work
        t = min(x, cell.h)
        self.pairs = cell.s + t
        fade = (cell.up_loss * (x - t) + cell.b * (cell.h - t)) / cell.largest
        grown = exponential(loss).real()
        lift = Float(grown.low - ONE, grown.high - ONE, -BITS) * exponential(-fade)
        odds = cell.q / (1 - cell.q)
        self.lift = lift.times(odds.numerator, odds.denominator)
        self.data = exponential(loss - cell.b * delta / cell.largest)
        self.known: dict[int, Real] = {}

    def __call__(self, m: int) -> Real:
        """g(m); raises `Rejected` where it is below 1."""
        if m not in self.known:
            self.work.spend(self.pairs + self.delta + 1)
            self.known[m] = self._value(m)
            if self.known[m].high < ONE:
                raise Rejected(f"the inequality fails at m = {m}")
        return self.known[m]

    def _value(self, m: int) -> Real:
        if self.cell.flood == 0:
            return self.lift.real()  # no flood, no pairs: m = 0 is all there is
        top, bottom = self.cell.flood.numerator, self.cell.flood.denominator
        muted = self.lift
        for k in range(1, self.pairs + 1):
            muted = muted.times(top, bottom * (m + k))
        if m < self.delta:
            return muted.real()
        falling = self.data
        for k in range(self.delta):
            falling = falling.times((m - k) * bottom, top)
        return muted.real() + falling.real()

    def check(self, guess: int) -> Least:
        """Where g is least; raises `Rejected` unless g > 1 at every integer, by convexity."""
        places = [0] if self.cell.flood == 0 else self.lowest_places(guess)
        if not all(self(m).above(Real.of(1)) for m in places):
            raise Rejected("the inequality is undecided")
        at = min(places, key=lambda m: self(m).nearest())
        return Least(self.delta, self.x, at, self(at))

    def lowest_places(self, guess: int) -> list[int]:
        """Integers to the left of which g falls strictly, and to the right of which it rises."""
        place = last = self.first_rise(guess)
        while place > 0 and not self(place - 1).above(self(place)):
            place -= 1
            if last - place > 8:
                raise Rejected("no strict fall found to the left of the least place")
        return list(range(place, last + 1))

    def first_rise(self, guess: int) -> int:
        """The least m at which g certainly rises to m + 1, looked for from a guess on."""
        left, right, step = -1, guess, 1  # no rise at left, a rise at right
        while not self.rises(right):
            left, right, step = right, right + step, 2 * step
            if step > (guess + 1) << 64:
                raise Rejected("no rising place found")
        step = 1
        while left < 0 < right:
            lower = max(right - step, 0)
            if self.rises(lower):
                right, step = lower, 2 * step
            else:
                left = lower
        while right - left > 1:
            middle = (left + right) // 2
            left, right = (left, middle) if self.rises(middle) else (middle, right)
        return right

    def rises(self, m: int) -> bool:
        return self(m + 1).above(self(m))


DRAWN_AT_ONCE = (SparseCell.kind, PooledCell.kind)
"""Kinds of cells that are drawn for all buckets at once."""
AnyCell = Cell | BoundedCell | PooledCell | SparseCell | KeptCell


class Budget(NamedTuple):
    """Equal cells, and what a change upwards and downwards may cost."""

    cell: AnyCell
    up: Fraction
    down: Fraction
    copies: int = 1


def read_cell(data: dict[str, Any], bit: bool = False) -> AnyCell:
    """The cell by its kind; refuses a shared cell, which is never alone. With `bit`, one for the
    values 0 and 1 without a stand-in."""
    if data["kind"] == SharedCell.kind:
        raise Rejected("only the digits of a real sum share their way up")
    if data["kind"] in DRAWN_AT_ONCE:
        raise Rejected("only histograms, quantiles and counts by group have such cells")
    if data["kind"] == KeptCell.kind:
        raise Rejected("only a histogram with heavy labels has a kept cell")
    cell = Cell(data) if data["kind"] == Cell.kind else BoundedCell(data)
    if bit and (cell.largest != 1 or stand_in(cell)):
        raise Rejected("a cell for 0 and 1 without a stand-in is needed")
    return cell


def stand_in(cell: AnyCell) -> int:
    return cell.h if isinstance(cell, Cell) else 0


def read_digits(digits: list[dict[str, Any]]) -> list[AnyCell]:
    """The digits of a real sum: all of them share their way up, or none does."""
    if not any(digit["kind"] == SharedCell.kind for digit in digits):
        return [read_cell(digit) for digit in digits]
    group = [SharedCell(digit) for digit in digits]
    check_together(group)
    return list(group)


STATEMENT = "pure differential privacy in the shuffle model"
NEIGHBOURS = "replace one user's value"
FINEST_GRID = 1 << 24
LEAST_HASHED, MOST_HASHED = 1 << 6, 1 << 23
RULES = {
    "count": "max(up, down)",
    "integer-sum": "max(up, down)",
    "histogram": "up + down",
    "real-sum": "sum over cells of max(up, down)",
    "quantiles": "sum over levels of up + down",
    "by-group": "sum over cells of up + down",
}
"""In words, how losses add up."""
SPARSE_RULE = "any replacement"
HEAVY_RULE = "larger up + larger down"


def budgets(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """(loss of a replacement, the cells with their budgets), depending on the query."""
    epsilon, query = Fraction(protocol["epsilon"]), protocol["query"]
    if query in ("count", "integer-sum"):
        cell = read_cell(protocol["cell"])
        if query == "count" and cell.largest != 1:
            raise Rejected("a count is about 0 and 1")
        return max(cell.up_loss, epsilon), [Budget(cell, cell.up_loss, epsilon)]
    if query == "histogram" and "heavy" in protocol:
        return heavy_histogram(protocol)
    if query == "histogram" and protocol["cell"]["kind"] in DRAWN_AT_ONCE:
        return drawn_at_once(protocol["cell"], bucket_count(protocol), epsilon)
    if query == "histogram":
        cell, copies = read_cell(protocol["cell"], bit=True), bucket_count(protocol)
        return epsilon, [Budget(cell, cell.up_loss, epsilon - cell.up_loss, copies)]
    if query in ("frequencies", "heavy-hitters"):
        return hashed_labels(protocol)
    if query == "real-sum":
        cells = read_digits(protocol["digits"])
        check_grid(protocol, cells)
        loss = sum((cell.up_loss for cell in cells), start=Fraction(0))
        return loss, [Budget(cell, cell.up_loss, cell.up_loss) for cell in cells]
    if query == "quantiles":
        return quantiles(protocol)
    return by_group(protocol)


def check_grid(protocol: dict[str, Any], cells: list[AnyCell]) -> None:
    """A public dither costs nothing: its law does not depend on the value, and given the dither, a
    value changes the digits as it does without one. Bounds and grid must fit."""
    low, high = Fraction(protocol["low"]), Fraction(protocol["high"])
    if high - low < Fraction(1, document.LARGEST_BOUND):
        raise Rejected("the lower bound must lie below the upper bound")
    points = math.prod(cell.largest + 1 for cell in cells)
    if points * protocol.get("dither", 1) > FINEST_GRID:
        raise Rejected("the digits span too many grid points")


def quantiles(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """On every level one bucket goes down and one goes up."""
    low, high = Fraction(protocol["low"]), Fraction(protocol["high"])
    points, buckets = "points" in protocol, [one["buckets"] for one in protocol["levels"]]
    if not low < high or ("unit" in protocol and not points):
        raise Rejected("the bounds or the unit do not fit")
    if points and (low.denominator, high.denominator) != (1, 1):
        raise Rejected("the bounds of whole numbers must be whole")
    if points and max(abs(low), abs(high)) >= 1 << 53:
        raise Rejected("the bounds of whole numbers are too large")
    if any(fine % coarse or fine == coarse for coarse, fine in pairwise(buckets)):
        raise Rejected("each level's number of buckets must divide the next one's")
    found = [read_level(one) for one in protocol["levels"]]
    return sum((one.up + one.down for one in found), start=Fraction(0)), found


def read_level(level: dict[str, Any]) -> Budget:
    """The cells of one level: equal ones, or a pooled cell for its own buckets and losses."""
    down, buckets = Fraction(level["down"]), level["buckets"]
    if level["cell"]["kind"] != PooledCell.kind:
        cell = read_cell(level["cell"], bit=True)
        return Budget(cell, cell.up_loss, down, buckets)
    pooled = PooledCell(level["cell"])
    if (pooled.buckets, pooled.down.epsilon) != (buckets, down):
        raise Rejected("a pooled cell is for its own buckets and losses")
    return Budget(pooled, pooled.up_loss, down, buckets)


def bucket_count(protocol: dict[str, Any]) -> int:
    """How many buckets a histogram has; raises `Rejected` unless its labels are distinct and one of
    them takes other values, if any does."""
    labels, other = protocol["labels"], protocol["other"]
    names = range(labels) if type(labels) is int else labels
    if len(set(names)) != len(names) or (other is not None and other not in names):
        raise Rejected("a histogram needs distinct labels, one of them for other values")
    return len(names)


def drawn_at_once(
    data: dict[str, Any], buckets: int, epsilon: Fraction
) -> tuple[Fraction, list[Budget]]:
    """All buckets are drawn at once. Replacing any value costs what a sparse cell says; replacing a
    label by another one costs what a pooled cell says, upwards and downwards, and that must be all
    of epsilon."""
    cell = SparseCell(data) if data["kind"] == SparseCell.kind else PooledCell(data)
    if cell.buckets != buckets:
        raise Rejected(f"a {cell.kind} cell is for as many labels as it has buckets")
    if isinstance(cell, SparseCell):
        return cell.up_loss, [Budget(cell, cell.up_loss, cell.up_loss, buckets)]
    if cell.up.epsilon + cell.down.epsilon != epsilon:
        raise Rejected("a pooled cell is for its own losses")
    return epsilon, [Budget(cell, cell.up.epsilon, cell.down.epsilon, buckets)]


def heavy_histogram(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """Heavy labels have an exact cell each, all others share a kept cell. A replacement takes one
    label down and another one up, each among the heavy ones or among the others; the two parts are
    drawn independently, so that their losses add up."""
    epsilon, names = Fraction(protocol["epsilon"]), protocol["heavy"]["labels"]
    labels, count = protocol["labels"], bucket_count(protocol)
    known = set(range(labels) if type(labels) is int else labels)
    if len(set(names)) != len(names) or not set(names) < known:
        raise Rejected("heavy labels must be distinct, and some of the labels")
    if protocol["cell"]["kind"] != KeptCell.kind:
        raise Rejected("beside heavy labels a kept cell is needed")
    exact, rest = read_cell(protocol["heavy"]["cell"], bit=True), KeptCell(protocol["cell"])
    if not isinstance(exact, BoundedCell):
        raise Rejected("heavy labels need bounded cells")
    if rest.buckets != count - len(names):
        raise Rejected("a kept cell is for as many other labels as it has buckets")
    up = max(exact.up_loss, rest.up_loss)
    down = epsilon - up
    if down <= 0:
        raise Rejected("nothing is left for changes downwards")
    found = [
        Budget(exact, exact.up_loss, down, len(names)),
        Budget(rest, rest.up_loss, rest.down_loss, rest.buckets),
    ]
    return up + max(down, rest.down_loss), found


def hashed_labels(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """Labels are mapped to buckets of a sparse cell. It costs the same for any two buckets, hence
    for any two random choices of buckets; the hash does not matter."""
    if protocol["cell"]["kind"] != SparseCell.kind:
        raise Rejected("hashed labels need a sparse cell")
    cell, names = SparseCell(protocol["cell"]), protocol.get("candidates", [])
    if not LEAST_HASHED <= cell.buckets <= MOST_HASHED or cell.buckets & (cell.buckets - 1):
        raise Rejected("hashed labels need a power of two of buckets")
    if cell.up_loss != Fraction(protocol["epsilon"]):
        raise Rejected("the cell is for another epsilon")
    different = {name % 2**64 if type(name) is int else name for name in names}
    if len(different) < len(names) or len({type(name) for name in names}) > 1:
        raise Rejected("candidates must be distinct, all texts or all whole numbers")
    return cell.up_loss, [Budget(cell, cell.up_loss, cell.up_loss, cell.buckets)]


def by_group(protocol: dict[str, Any]) -> tuple[Fraction, list[Budget]]:
    """A user who changes groups lowers every digit in one group's copies and raises every digit in
    another's; sizes of groups are counted by one more cell of the same kind."""
    labels, sizes, answer = protocol["labels"], protocol.get("sizes"), protocol["answer"]
    if len(set(labels)) != len(labels) or len({type(name) for name in labels}) > 1:
        raise Rejected("groups need distinct labels, all texts or all whole numbers")
    if answer != "count" and len(labels) > document.MOST_GROUPS:
        raise Rejected("sums and means have fewer groups")
    low, high = Fraction(protocol["low"]), Fraction(protocol["high"])
    if (sizes is not None) != (answer == "mean" or low != 0):
        raise Rejected("sizes of groups are counted where the answer needs them, and only there")
    if answer == "count" and protocol["digits"][0]["cell"]["kind"] in DRAWN_AT_ONCE:
        return count_at_once(protocol, len(labels) + 1)
    found = [
        Budget(read_cell(one["cell"]), Fraction(0), Fraction(one["down"]), len(labels))
        for one in protocol["digits"] + ([] if sizes is None else [sizes])
    ]
    found = [one._replace(up=one.cell.up_loss) for one in found]
    digits = [one.cell for one in found[: len(protocol["digits"])]]
    check_grid(protocol, digits)
    if any(stand_in(one.cell) for one in found):
        raise Rejected("cells of groups have no stand-in")
    if sizes is not None and found[-1].cell.largest > 1:
        raise Rejected("sizes are about 0 and 1")
    if len({cell.users for cell in digits}) > 1:
        raise Rejected("the number of users differs")
    if answer in ("count", "integer-sum"):
        largest = 1 if answer == "count" else digits[0].largest
        if len(digits) > 1 or low != 0 or not high == digits[0].largest == largest:
            raise Rejected("whole numbers by group are one digit from 0 on")
    return sum((one.up + one.down for one in found), start=Fraction(0)), found


def count_at_once(protocol: dict[str, Any], buckets: int) -> tuple[Fraction, list[Budget]]:
    """A count whose cell draws all groups at once, and a bucket for the users who hold 0."""
    if len(protocol["digits"]) > 1 or (protocol["low"], protocol["high"]) != ("0", "1"):
        raise Rejected("whole numbers by group are one digit from 0 on")
    (one,) = protocol["digits"]
    loss, found = drawn_at_once(one["cell"], buckets, Fraction(protocol["epsilon"]))
    if found[0].down != Fraction(one["down"]):
        raise Rejected("the cell of a count is for its own losses")
    return loss, found


def users_of(cells: list[Budget]) -> int:
    """How many users a release needs: those of every cell, which are the same."""
    users = cells[0].cell.users
    if any(one.cell.users != users for one in cells):
        raise Rejected("the number of users differs")
    return int(users)


def prove(one: Budget, work: Work) -> dict[str, Any]:
    """What a proof says about a cell; raises `Rejected` if there is none."""
    if isinstance(one.cell, BoundedCell | PooledCell | SparseCell | KeptCell):
        return one.cell.check(one.up, one.down)
    return one.cell.check(one.up, one.down, work)


def check(data: Any) -> Fraction:
    """ε, if the certificate (or the plan that holds one) proves it; raises `Rejected` otherwise."""
    if type(data) is dict and type(data.get("certificate")) is dict:
        data = data["certificate"]
    document.CERTIFICATE(data)
    protocol = data["protocol"]
    loss, cells = budgets(protocol)
    epsilon = Fraction(protocol["epsilon"])
    if loss > epsilon:
        raise Rejected("the losses add up to more than epsilon")
    claims = {
        "statement": STATEMENT,
        "epsilon": str(epsilon),
        "loss": str(loss),
        "rule": rule_of(protocol, cells),
        "neighbours": NEIGHBOURS,
        "users": users_of(cells),
    }
    if not says(data, claims) or len(data["cells"]) != len(cells):
        raise Rejected("a claim does not follow from the parameters")
    work = Work()
    for one, given in zip(cells, data["cells"], strict=True):
        claim = {
            "kind": one.cell.kind,
            "copies": one.copies,
            "up": str(one.up),
            "down": str(one.down),
        }
        if not says(given, claim):
            raise Rejected("a claim about a cell does not follow from the parameters")
        shown = prove(one, work)
        if not says(given, {"proof": shown}):
            raise Rejected("a proof is not what was found")
    return epsilon


def rule_of(protocol: dict[str, Any], cells: list[Budget]) -> str:
    """How the losses add up, in words."""
    if "heavy" in protocol:
        return HEAVY_RULE
    return SPARSE_RULE if cells[0].cell.kind == SparseCell.kind else RULES[protocol["query"]]


def says(given: Any, claims: dict[str, Any]) -> bool:
    """Whether a part of a certificate makes all these claims."""
    return type(given) is dict and all(
        says(given.get(name), claim)
        if type(claim) is dict
        else type(given.get(name)) is type(claim) and given[name] == claim
        for name, claim in claims.items()
    )


USAGE = "Name certificate or plan files: python -m shuffledp_check FILE [FILE …]"
CERTIFIED, WRONG_CALL, REFUTED = 0, 2, 3
"""Exit codes."""


def verdict(name: str) -> tuple[int, str]:
    """The exit code for one file, `-` for standard input, and what to say about it."""
    most = document.MOST_BYTES + 1
    try:
        if name == "-":
            text = sys.stdin.buffer.read(most)
        else:
            with open(name, "rb") as file:
                text = file.read(most)
    except OSError as error:
        return WRONG_CALL, f"cannot be read ({error.strerror})"
    try:
        return CERTIFIED, f"certified for epsilon = {check(document.read(text))}"
    except Rejected as error:
        return REFUTED, f"rejected: {error}"
    except (ArithmeticError, LookupError, TypeError, ValueError):
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
