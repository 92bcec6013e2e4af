"""The proof of each kind of cell: a new kind of cell adds its proof to this table."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from shuffledp.cells.base import Cell
from shuffledp.cells.bounded import proof as bounded_proof
from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.digits import proof as shared_proof
from shuffledp.cells.digits.cell import SharedCell
from shuffledp.cells.paper import proof as paper_proof
from shuffledp.cells.paper.cell import PaperCell


class Proof(Protocol):
    """What was shown about a cell."""

    def to_dict(self) -> dict[str, Any]:
        """The proof as a certificate holds it."""

    def summary(self) -> str:
        """Where the proof is tightest, for people."""

    def claims(self) -> dict[str, Any]:
        """The part of `to_dict` that every correct proof of the same cell agrees on."""


PROVERS: dict[str, Callable[..., Proof]] = {
    BoundedCell.kind: bounded_proof.prove,
    PaperCell.kind: paper_proof.prove,
    SharedCell.kind: shared_proof.prove,
}


def prove(
    cell: Cell, up: Fraction, down: Fraction, progress: Callable[[int], None] | None = None
) -> Proof:
    """The proof that changing one user's value upwards costs at most `up`, downwards `down`.

    Ensures: returns only if that was shown; raises `PrivacyViolation` with a witness where it
    fails, `Undecided` where the precision limit comes first.
    """
    return PROVERS[cell.kind](cell, up, down, progress)
