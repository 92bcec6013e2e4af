"""Protocols made of cells. `protocol_from_dict` is the registry of what they answer."""

from __future__ import annotations

from typing import Any

from shuffledp.protocols.base import Protocol
from shuffledp.protocols.by_group import ByGroup
from shuffledp.protocols.counting import Counting
from shuffledp.protocols.frequencies import Frequencies
from shuffledp.protocols.heavy_hitters import HeavyHitters
from shuffledp.protocols.histogram import Histogram
from shuffledp.protocols.integer_sum import IntegerSum
from shuffledp.protocols.quantiles import Quantiles
from shuffledp.protocols.real_sum import RealSum
from shuffledp.protocols.results import Result
from shuffledp.protocols.schema import PROTOCOL

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
        Counting,
        IntegerSum,
        RealSum,
        Histogram,
        Quantiles,
        Frequencies,
        HeavyHitters,
        ByGroup,
    )
}
"""Every protocol by what it answers; a new one is added here."""


def protocol_from_dict(data: Any) -> Protocol[Result]:
    """The protocol behind `Protocol.to_dict`; refuses what is not one.

    Ensures: raises `ParameterError`, and nothing else, before anything is computed with a number
    that is out of its bounds (`shuffledp.protocols.schema`).
    """
    PROTOCOL.check(data, "protocol")
    return PROTOCOLS[data["query"]].from_dict(data)
