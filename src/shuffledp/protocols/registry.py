"""Every protocol by what it answers. The catalogue of queries fills it (`queries/catalogue.py`)."""

from __future__ import annotations

from typing import Any

from shuffledp.documents.schema import Record, Tagged
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.results import Result

PROTOCOLS: dict[str, type[Protocol[Result]]] = {}
_SCHEMAS: dict[str, Record] = {}
PROTOCOL = Tagged("query", _SCHEMAS)
"""What the JSON of a protocol may hold."""


def register(protocol: type[Protocol[Any]], schema: Record) -> None:
    """Adds a protocol and what its JSON may hold."""
    PROTOCOLS[protocol.query], _SCHEMAS[protocol.query] = protocol, schema


def protocol_from_dict(data: Any) -> Protocol[Result]:
    """The protocol behind `Protocol.to_dict`; refuses what is not one.

    Ensures: raises `ParameterError`, and nothing else, before anything is computed with a number
    that is out of its bounds.
    """
    PROTOCOL.check(data, "protocol")
    return PROTOCOLS[data["query"]].from_dict(data)
