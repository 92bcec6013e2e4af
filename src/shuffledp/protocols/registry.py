"""All protocols by the name of their query; `queries/catalogue.py` fills this table."""

from __future__ import annotations

from typing import Any

from shuffledp.documents.schema import Record, Tagged
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.results import Result

PROTOCOLS: dict[str, type[Protocol[Result]]] = {}
_SCHEMAS: dict[str, Record] = {}
PROTOCOL = Tagged("query", _SCHEMAS)
"""The JSON schema of a protocol."""


def register(protocol: type[Protocol[Any]], schema: Record) -> None:
    """Adds a protocol and its JSON schema."""
    PROTOCOLS[protocol.query], _SCHEMAS[protocol.query] = protocol, schema


def protocol_from_dict(data: Any) -> Protocol[Result]:
    """The protocol that `Protocol.to_dict` describes.

    Ensures: raises `ParameterError`, and nothing else, before computing with any number that is out
    of bounds.
    """
    PROTOCOL.check(data, "protocol")
    return PROTOCOLS[data["query"]].from_dict(data)
