"""Every query that shuffledp answers: a new one is a folder beside this file and a line here."""

from __future__ import annotations

from typing import Any

from shuffledp.protocols.base import Protocol
from shuffledp.protocols.registry import register
from shuffledp.queries.by_group.protocol import ByGroupProtocol
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.quantiles.protocol import QuantilesProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp.queries.schema import SCHEMAS

CATALOGUE: tuple[type[Protocol[Any]], ...] = (
    CountProtocol,
    IntegerSumProtocol,
    RealSumProtocol,
    HistogramProtocol,
    FrequenciesProtocol,
    HeavyHittersProtocol,
    ByGroupProtocol,
    QuantilesProtocol,
)

for _protocol in CATALOGUE:
    register(_protocol, SCHEMAS[_protocol.query])
