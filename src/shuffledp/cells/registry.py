"""All kinds of cells. To add one, add a folder next to this file and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from shuffledp.cells import bounded, digits, paper, pooled, sparse
from shuffledp.cells.base import Cell, CellGroup, Proof
from shuffledp.cells.digit_search import SumTarget
from shuffledp.cells.kind import CellKind
from shuffledp.cells.search import BEST, CellTarget, FoundCells, checked_cell_choice
from shuffledp.documents.schema import Tagged
from shuffledp.errors import ParameterError, PlanningError
from shuffledp.numbers.exact import fraction_above

KINDS: dict[str, CellKind] = {
    kind.name: kind
    for kind in (
        bounded.KIND,
        digits.KIND,
        paper.KIND,
        pooled.KIND,
        sparse.KIND,
        sparse.KEPT_KIND,
    )
}
"""Every kind of cell by its name in JSON, in the order in which planners try them."""

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
    independent: bool = False,
) -> FoundCells:
    """The cell of each bucket; a replacement moves one up and one down, at ε in total. With
    `independent`, only kinds whose buckets are independent of each other are tried."""

    def search_of(kind: CellKind) -> Search | None:
        if kind.search_buckets is None or (independent and not kind.independent_buckets):
            return None
        return partial(kind.search_buckets, epsilon, target, messages, buckets)

    return _best(cell, messages, search_of, partial(_at_count, target))


def _at_count(target: CellTarget, found: FoundCells) -> FoundCells:
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


def _best(
    cell: str,
    messages: float | None,
    search_of: Callable[[CellKind], Search | None],
    judged: Callable[[FoundCells], FoundCells] = lambda found: found,
) -> FoundCells:
    """The result with the fewest messages or, within a number of messages, with the least error.

    Raises the last search's `PlanningError` if no search finds anything.
    """
    choice, least_error = checked_cell_choice(cell), messages is not None
    refusal: PlanningError | None = None
    best: FoundCells | None = None
    for kind in KINDS.values():
        allowed = choice == kind.chosen_by or (choice == BEST and not kind.by_name)
        search = search_of(kind) if allowed else None
        if search is None:
            continue
        try:
            found = search(best)
        except PlanningError as error:
            refusal = error
            continue
        if found is not None and (best is None or judged(found).beats(judged(best), least_error)):
            best = found
    if best is None:
        raise refusal or PlanningError("This kind of cell cannot answer it; choose the cell best.")
    return best
