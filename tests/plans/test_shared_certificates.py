"""Cells that share their way up are certified as the digits of one sum only, all together."""

from __future__ import annotations

from fractions import Fraction

import pytest
from shared_groups import group

import shuffledp
from shuffledp.cells.base import Cell
from shuffledp.errors import ParameterError
from shuffledp.plans.certificate import certify
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol

BITS = group(5, (1, 1), 4, (Fraction(1, 2), Fraction(1, 3)))


def real_sum(*digits: Cell) -> RealSumProtocol:
    return RealSumProtocol(epsilon=Fraction(80), digits=digits, low=Fraction(0), high=Fraction(1))


def test_another_protocol_does_not_draw_them_together() -> None:
    epsilon = Fraction(80)
    with pytest.raises(ParameterError, match="real sum only"):
        certify(CountProtocol(epsilon=epsilon, cell=BITS[0]))
    with pytest.raises(ParameterError, match="real sum only"):
        certify(HistogramProtocol(epsilon=epsilon, cell=BITS[0], labels=(0, 1)))


def test_a_sum_takes_all_of_them_and_no_others() -> None:
    bounded = shuffledp.plan_count(5, 1).protocol.uses[0].cell
    assert real_sum(*BITS).digits == tuple(BITS)
    for digits in [BITS[:1], (bounded, BITS[0]), (BITS[0], bounded), (*BITS, BITS[0])]:
        with pytest.raises(ParameterError, match=r"fit together|cannot be mixed"):
            real_sum(*digits)
