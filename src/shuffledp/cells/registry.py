"""All kinds of cells. To add one, add a folder next to this file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from shuffledp.cells import bounded, digits, paper, pooled, sparse
from shuffledp.cells.base import Cell, CellGroup, Proof
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.kind import CellKind
from shuffledp.cells.report_size import padded_size
from shuffledp.cells.search import BEST, CellTarget, FoundCells, checked_cell_choice
from shuffledp.documents.schema import Tagged
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import fraction_above

KINDS: dict[str, CellKind] = {
    kind.name: kind
    for kind in (
        bounded.KIND,
        digits.KIND,
        pooled.KIND,
        paper.KIND,
        sparse.KIND,
        sparse.KEPT_KIND,
    )
}
"""Every kind of cell by its name in JSON, in the order in which planners try them."""

SAME_COST = 1e-3
"""Averages that differ by at most this part of them count as equal."""

CELL = Tagged("kind", {kind.name: kind.schema for kind in KINDS.values()})
"""The JSON schema of a cell."""


def cell_from_dict(data: Mapping[str, Any]) -> Cell:
    """The cell that `Cell.to_dict` describes."""
    kind = KINDS.get(data["kind"])
    if kind is None:
        raise ParameterError(
            f"There is no cell of kind {str(data['kind'])[:40]!r}; there are {', '.join(KINDS)}."
        )
    return kind.cell.from_dict(data)


def group_of_buckets(cell: Cell, buckets: int, up: Fraction, down: Fraction) -> CellGroup:
    """One equal cell per bucket; a user has a 1 in one of them. A change upwards may cost `up`, one
    downwards `down`."""
    return KINDS[cell.kind].buckets(cell, buckets, up, down)


def groups_of_digits(cells: Sequence[Cell]) -> tuple[CellGroup, ...]:
    """The groups of a sum's cells (one per digit, in their order) that are drawn at once."""
    kinds = {KINDS[cell.kind].digits for cell in cells}
    if len(kinds) > 1:
        raise ParameterError("Cells that share their way up cannot be mixed with others.")
    (groups,) = kinds
    return tuple(groups(cells))


def prove(
    cell: Cell, up: Fraction, down: Fraction, progress: Callable[[int], None] | None = None
) -> Proof:
    """The proof that changing one user's value upwards costs at most `up`, downwards `down`.

    Ensures: returns only if that was proved; raises `PrivacyViolation` with a witness if it fails,
    `Undecided` if the precision limit is reached first.
    """
    return KINDS[cell.kind].prove(cell, up, down, progress)


# Searches among the kinds that the planners' argument `cell` allows


def search_cell(cell: str, target: CellTarget, messages: float | None) -> FoundCells:
    """One cell: the cheapest for the target's error, or of least error for `max_messages`."""
    return _best(
        cell,
        messages,
        lambda kind: kind.search_cell and partial(kind.search_cell, target, messages),
    )


def search_buckets(
    cell: str,
    epsilon: Fraction,
    target: CellTarget,
    messages: float | None,
    buckets: int,
    *,
    levels: bool = False,
) -> FoundCells:
    """The cell of each bucket, of which one may go up and one down at ε in all; with `levels`,
    only of kinds that may be a level behind quantiles. Where averages hardly differ, the kind with
    the shorter padded report is taken."""

    def search_of(kind: CellKind) -> Search | None:
        if kind.search_buckets is None or (levels and not kind.cell.for_levels):
            return None
        return partial(kind.search_buckets, epsilon, target, messages, buckets)

    def better(one: FoundCells, other: FoundCells) -> bool:
        one, other = at_count(target, one), at_count(target, other)
        on_average = messages is None and not target.padded
        if on_average and abs(one.cost - other.cost) <= SAME_COST * other.cost:
            return longest(one) < longest(other)
        return one.beats(other, messages is not None)

    def longest(found: FoundCells) -> int:
        up = found.cell.up_loss
        groups = (group_of_buckets(found.cell, buckets, up, epsilon - up),)
        return padded_size(groups, target.users)

    return _best(cell, messages, search_of, better)


def at_count(target: CellTarget, found: FoundCells) -> FoundCells:
    """The result of a search, with the error at the target's count."""
    if target.error_at is None:
        return found
    count = min(target.error_at, target.expected)
    return replace(found, mse=fraction_above(found.cell.mean_squared_error(target.expected, count)))


def search_digits(cell: str, target: SumTarget, messages: float | None) -> FoundCells:
    """The cells of a sum's digits: the cheapest, or of least error for `max_messages`."""
    return _best(
        cell,
        messages,
        lambda kind: kind.search_digits and partial(kind.search_digits, target, messages),
    )


Search = Callable[[FoundCells | None], FoundCells | None]
Better = Callable[[FoundCells, FoundCells], bool]


def _best(
    cell: str,
    messages: float | None,
    search_of: Callable[[CellKind], Search | None],
    better: Better | None = None,
) -> FoundCells:
    """What costs fewest messages or, within a number of messages, errs least; or what is `better`;
    among the kinds that the planners' argument `cell` allows."""
    choice = checked_cell_choice(cell)
    kinds = [kind for kind in KINDS.values() if choice in (BEST, kind.chosen_by)]
    searches = [search for kind in kinds if (search := search_of(kind)) is not None]
    return best_of(searches, better or (lambda one, other: one.beats(other, messages is not None)))


def best_of(searches: Iterable[Search], better: Better) -> FoundCells:
    """The best result of searches, each of which gets the best one so far.

    Raises the last search's `PlanningError` if no search finds anything.
    """
    refusal: PlanningError | None = None
    best: FoundCells | None = None
    for search in searches:
        try:
            found = search(best)
        except PlanningError as error:
            refusal = error
            continue
        if found is not None and (best is None or better(found, best)):
            best = found
    if best is None:
        raise refusal or PlanningError("This kind of cell cannot answer it; choose the cell best.")
    return best
