"""The parts of a plan in their own types, for tests that look inside."""

from __future__ import annotations

from typing import TypeVar

from shuffledp.cells.bounded.cell import BoundedCell
from shuffledp.cells.paper.cell import PaperCell
from shuffledp.plans.plan import Plan
from shuffledp.protocols.results import Result
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.quantiles.protocol import QuantilesProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol

Part = TypeVar("Part")


def _as(part: object, kind: type[Part]) -> Part:
    assert isinstance(part, kind)
    return part


def paper_cell(plan: Plan[Result]) -> PaperCell:
    """The only cell, or the cell of every bucket, or the first digit."""
    return _as(plan.protocol.uses[0].cell, PaperCell)


def bounded_cell(plan: Plan[Result]) -> BoundedCell:
    """The same for plans of bounded cells."""
    return _as(plan.protocol.uses[0].cell, BoundedCell)


def paper_cells(plan: Plan[Result]) -> list[PaperCell]:
    """Every copy of every cell."""
    return [_as(cell, PaperCell) for cell in plan.protocol.cells]


def bounded_cells(plan: Plan[Result]) -> list[BoundedCell]:
    """The same for plans of bounded cells."""
    return [_as(cell, BoundedCell) for cell in plan.protocol.cells]


def integer_sum(plan: Plan[Result]) -> IntegerSumProtocol:
    return _as(plan.protocol, IntegerSumProtocol)


def histogram(plan: Plan[Result]) -> HistogramProtocol:
    return _as(plan.protocol, HistogramProtocol)


def real_sum(plan: Plan[Result]) -> RealSumProtocol:
    return _as(plan.protocol, RealSumProtocol)


def quantiles(plan: Plan[Result]) -> QuantilesProtocol:
    return _as(plan.protocol, QuantilesProtocol)
