"""Protocols made of cells. `protocol_from_dict` is the registry of what they answer."""

from __future__ import annotations

from typing import Any

from shuffledp.protocols.base import Protocol
from shuffledp.queries.by_group.protocol import ByGroupProtocol
from shuffledp.queries.count.protocol import CountProtocol
from shuffledp.queries.frequencies.protocol import FrequenciesProtocol
from shuffledp.queries.heavy_hitters.protocol import HeavyHittersProtocol
from shuffledp.queries.histogram.protocol import HistogramProtocol
from shuffledp.queries.integer_sum.protocol import IntegerSumProtocol
from shuffledp.queries.quantiles.protocol import QuantilesProtocol
from shuffledp.queries.real_sum.protocol import RealSumProtocol
from shuffledp.protocols.results import Result
from shuffledp.queries.schema import PROTOCOL

__all__ = [
    "ByGroup",
    "Counting",
    "Frequencies",
    "HeavyHitters",
    "Histogram",
    "IntegerSum",
    "Protocol",
    "Quantiles",
    "RealSum",
    "protocol_from_dict",
]

PROTOCOLS: dict[str, type[Protocol[Result]]] = {
    protocol.query: protocol
    for protocol in (
        CountProtocol,
        IntegerSumProtocol,
        RealSumProtocol,
        HistogramProtocol,
        QuantilesProtocol,
        FrequenciesProtocol,
        HeavyHittersProtocol,
        ByGroupProtocol,
    )
}
"""Every protocol by what it answers; a new one is added here."""


def protocol_from_dict(data: Any) -> Protocol[Result]:
    """The protocol behind `Protocol.to_dict`; refuses what is not one.

    Ensures: raises `ParameterError`, and nothing else, before anything is computed with a number
    that is out of its bounds (`shuffledp.queries.schema`).
    """
    PROTOCOL.check(data, "protocol")
    return PROTOCOLS[data["query"]].from_dict(data)
