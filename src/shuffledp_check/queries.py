"""What the certificate of each query claims: the fields of its protocol, and how the losses of its
cells add up. A new query is a line in `QUERIES`, and its functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from shuffledp_check.bounded import BoundedCell, Rejected
from shuffledp_check.document import (
    BOUND,
    CELL,
    DIRECTED,
    EPSILON,
    LABEL,
    LARGEST_BOUND,
    MOST_BUCKETS,
    MOST_COUNTED_GROUPS,
    MOST_GROUPS,
    Check,
    constant,
    label,
    listing,
    record,
    text,
    whole,
)
from shuffledp_check.paper import Cell
from shuffledp_check.pooled import PooledCell
from shuffledp_check.shared import SharedCell, check_together
from shuffledp_check.sparse import KeptCell, SparseCell

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
    kinds = {digit["kind"] for digit in digits}
    if SharedCell.kind not in kinds:
        return [read_cell(digit) for digit in digits]
    if len(kinds) > 1:
        raise Rejected("all digits share their way up, or none does")
    group = [SharedCell(digit) for digit in digits]
    check_together(group)
    return list(group)


FINEST_GRID = 1 << 24
LEAST_HASHED, MOST_HASHED = 1 << 6, 1 << 23
SPARSE_RULE = "any replacement"
HEAVY_RULE = "larger up + larger down"
Losses = tuple[Fraction, list[Budget]]
"""The loss of a replacement, and the cells with their budgets."""


def budgets(protocol: dict[str, Any]) -> Losses:
    """How the losses of a protocol's cells add up."""
    return QUERIES[protocol["query"]].losses(protocol)


def rule_of(protocol: dict[str, Any], cells: list[Budget]) -> str:
    """The same in words."""
    if "heavy" in protocol:
        return HEAVY_RULE
    sparse = cells[0].cell.kind == SparseCell.kind
    return SPARSE_RULE if sparse else QUERIES[protocol["query"]].rule


def count(protocol: dict[str, Any]) -> Losses:
    if read_cell(protocol["cell"]).largest != 1:
        raise Rejected("a count is about 0 and 1")
    return integer_sum(protocol)


def integer_sum(protocol: dict[str, Any]) -> Losses:
    """One cell, which a replacement changes upwards or downwards."""
    epsilon, cell = Fraction(protocol["epsilon"]), read_cell(protocol["cell"])
    return max(cell.up_loss, epsilon), [Budget(cell, cell.up_loss, epsilon)]


def histogram(protocol: dict[str, Any]) -> Losses:
    """One bucket goes down and one goes up, unless all are drawn at once."""
    if "heavy" in protocol:
        return heavy_histogram(protocol)
    epsilon = Fraction(protocol["epsilon"])
    if protocol["cell"]["kind"] in DRAWN_AT_ONCE:
        return drawn_at_once(protocol["cell"], bucket_count(protocol), epsilon)
    cell, copies = read_cell(protocol["cell"], bit=True), bucket_count(protocol)
    return epsilon, [Budget(cell, cell.up_loss, epsilon - cell.up_loss, copies)]


def real_sum(protocol: dict[str, Any]) -> Losses:
    """A replacement may change every digit."""
    cells = read_digits(protocol["digits"])
    check_grid(protocol, cells)
    loss = sum((cell.up_loss for cell in cells), start=Fraction(0))
    return loss, [Budget(cell, cell.up_loss, cell.up_loss) for cell in cells]


def check_grid(protocol: dict[str, Any], cells: list[AnyCell]) -> None:
    """A public dither costs nothing: its law does not depend on the value, and given the dither, a
    value changes the digits as it does without one. Bounds and grid must fit."""
    low, high = Fraction(protocol["low"]), Fraction(protocol["high"])
    if high - low < Fraction(1, LARGEST_BOUND):
        raise Rejected("the lower bound must lie below the upper bound")
    points = math.prod(cell.largest + 1 for cell in cells)
    if points * protocol.get("dither", 1) > FINEST_GRID:
        raise Rejected("the digits span too many grid points")


def quantiles(protocol: dict[str, Any]) -> Losses:
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


def drawn_at_once(data: dict[str, Any], buckets: int, epsilon: Fraction) -> Losses:
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


def heavy_histogram(protocol: dict[str, Any]) -> Losses:
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


def hashed_labels(protocol: dict[str, Any]) -> Losses:
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


def by_group(protocol: dict[str, Any]) -> Losses:
    """A user who changes groups lowers every digit in one group's copies and raises every digit in
    another's; sizes of groups are counted by one more cell of the same kind."""
    labels, sizes, answer = protocol["labels"], protocol.get("sizes"), protocol["answer"]
    if len(set(labels)) != len(labels) or len({type(name) for name in labels}) > 1:
        raise Rejected("groups need distinct labels, all texts or all whole numbers")
    if answer != "count" and len(labels) > MOST_GROUPS:
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


def count_at_once(protocol: dict[str, Any], buckets: int) -> Losses:
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


class Query(NamedTuple):
    """What a certificate of a query is made of."""

    rule: str
    """How losses add up, in words."""
    losses: Callable[[dict[str, Any]], Losses]
    fields: dict[str, Check]
    optional: dict[str, Check] | None = None

    def check(self, name: str) -> Check:
        """The fields of the query's protocol."""
        common = {"query": constant(name), "epsilon": EPSILON}
        return record({**common, **self.fields}, self.optional)


def labels(data: Any) -> None:
    """A list of labels, or a number of labels 0, 1, …"""
    (whole(2, MOST_BUCKETS) if type(data) is int else listing(LABEL, 2, MOST_BUCKETS))(data)


HASHED: dict[str, Check] = {"cell": CELL, "hash_seed": text(64, 64, "0123456789abcdef")}
LEVEL = record({"buckets": whole(2, MOST_BUCKETS), "cell": CELL, "down": EPSILON})
QUERIES = {
    "count": Query("max(up, down)", count, {"cell": CELL}),
    "integer-sum": Query("max(up, down)", integer_sum, {"cell": CELL}),
    "histogram": Query(
        "up + down",
        histogram,
        {
            "cell": CELL,
            "labels": labels,
            "other": lambda data: None if data is None else LABEL(data),
        },
        {"heavy": record({"labels": listing(LABEL, 1, MOST_BUCKETS), "cell": CELL})},
    ),
    "real-sum": Query(
        "sum over cells of max(up, down)",
        real_sum,
        {"low": BOUND, "high": BOUND, "digits": listing(CELL, 1, 25)},
        {"dither": whole(2, 64)},
    ),
    "quantiles": Query(
        "sum over levels of up + down",
        quantiles,
        {"low": BOUND, "high": BOUND, "levels": listing(LEVEL, 1, 20)},
        {"points": constant(True), "unit": constant("day", "second")},
    ),
    "by-group": Query(
        "sum over cells of up + down",
        by_group,
        {
            "answer": constant("count", "integer-sum", "real-sum", "mean"),
            "labels": listing(LABEL, 2, MOST_COUNTED_GROUPS),
            "low": BOUND,
            "high": BOUND,
            "digits": listing(DIRECTED, 1, 25),
        },
        {"sizes": DIRECTED},
    ),
    "frequencies": Query(
        SPARSE_RULE,
        hashed_labels,
        {**HASHED, "candidates": listing(label(2**64 - 1), 0, 10**5)},
    ),
    "heavy-hitters": Query(SPARSE_RULE, hashed_labels, {**HASHED, "id_bits": whole(8, 22)}),
}
