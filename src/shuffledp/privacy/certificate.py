"""A certificate: the proof, for these very numbers, that a protocol is ε-DP in the shuffle model.

`certify` gives a certificate, raises `PrivacyViolation` with a witness, or raises `Undecided`.
A certificate is plain JSON. Whoever holds it can check it again, with `verify` or with the
independent program `vectors/check_certificate.py`, which shares no code with this package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.errors import ParameterError, PrivacyViolation
from shuffledp.exact.numbers import show
from shuffledp.privacy.paper_proof import Tightest, tightest
from shuffledp.protocols import protocol_from_dict
from shuffledp.protocols.base import CellUse, Protocol
from shuffledp.protocols.results import NEIGHBOURS

FORMAT = "shuffledp certificate 1"

RULES = {
    "counting": "max(up, down)",
    "integers": "max(up, down)",
    "histogram": "up + down",
    "summation": "sum over cells of max(up, down)",
    "ranges": "sum over levels of up + down",
}


@dataclass(frozen=True)
class CellProof:
    """What was shown about one cell (and all its copies)."""

    copies: int
    up: Fraction
    down: Fraction
    tightest: Tightest

    def to_dict(self) -> dict[str, Any]:
        return {
            "copies": self.copies,
            "up": str(self.up),
            "down": str(self.down),
            "tightest": {
                "inequality": "down",
                "shift": self.tightest.shift,
                "value": self.tightest.value,
                "place": self.tightest.place,
                "margin": f"{float(self.tightest.margin):.6e}",
                "precision_bits": self.tightest.precision,
            },
        }


@dataclass(frozen=True)
class Certificate:
    """ε-DP in the shuffle model, shown for these parameters."""

    protocol: Protocol
    loss: Fraction
    proofs: tuple[CellProof, ...]
    version: str

    @property
    def epsilon(self) -> Fraction:
        return self.protocol.epsilon

    def to_dict(self) -> dict[str, Any]:
        """The certificate as JSON can hold it; rationals as exact text."""
        return {
            "format": FORMAT,
            "statement": "pure differential privacy in the shuffle model",
            "epsilon": str(self.epsilon),
            "loss": str(self.loss),
            "rule": RULES[self.protocol.kind],
            "neighbours": NEIGHBOURS,
            "users": self.protocol.users,
            "protocol": self.protocol.describe(),
            "cells": [proof.to_dict() for proof in self.proofs],
            "version": self.version,
        }


def certify(protocol: Protocol, progress: Callable[[int], None] | None = None) -> Certificate:
    """The certificate of a protocol.

    Ensures: returned only if for every cell up_epsilon ≤ up and the downward inequality holds for
    down, both in exact or ball arithmetic, and the composed loss is at most ε.
    """
    from shuffledp.version import __version__

    loss = protocol.loss()
    if loss > protocol.epsilon:
        raise PrivacyViolation(
            f"The cells' losses add up to {show(loss)}, above epsilon = {show(protocol.epsilon)}; "
            "lower up_epsilon or give the cells less.",
            {"loss": str(loss), "epsilon": str(protocol.epsilon)},
        )
    if any(use.cell.users != protocol.users for use in protocol.uses):
        raise PrivacyViolation(
            "The cells are planned for different numbers of users, so that a batch would carry "
            "less noise than some of them need; plan all for the same users.",
            {"users": [use.cell.users for use in protocol.uses]},
        )
    proofs = tuple(_prove(use, progress) for use in protocol.uses)
    return Certificate(protocol, loss, proofs, __version__)


def _prove(use: CellUse, progress: Callable[[int], None] | None) -> CellProof:
    if use.cell.up_epsilon > use.up:
        raise PrivacyViolation(
            f"up_epsilon = {show(use.cell.up_epsilon)} exceeds the {show(use.up)} that a change "
            "upwards may cost; lower it.",
            {"up_epsilon": str(use.cell.up_epsilon), "up": str(use.up)},
        )
    return CellProof(use.copies, use.up, use.down, tightest(use.cell, use.down, progress))


def verify(data: object) -> Certificate:
    """The certificate behind its JSON (or a plan's JSON), proved again from the parameters alone.

    Ensures: nothing the file claims is believed; a claim that differs from the proof is an error.
    """
    if isinstance(data, dict) and isinstance(data.get("certificate"), dict):
        data = data["certificate"]
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ParameterError(
            f"This is no certificate: its format must be {FORMAT!r}; "
            "give a file that `shuffledp plan … --json` wrote."
        )
    certificate = certify(protocol_from_dict(data.get("protocol")))
    shown = certificate.to_dict()
    for name in ("statement", "epsilon", "loss", "rule", "neighbours", "users", "cells"):
        if _claim(data.get(name)) != _claim(shown[name]):
            raise ParameterError(
                f"The certificate's {name!r} does not follow from its parameters; "
                "it was changed or made by another program: ask for a new one."
            )
    return certificate


def _claim(value: object) -> object:
    """A claim without the digits that depend on the arithmetic library."""
    if not isinstance(value, list):
        return value
    return [
        {**cell, "tightest": {k: v for k, v in cell.get("tightest", {}).items() if k in PLACE}}
        if isinstance(cell, dict)
        else cell
        for cell in value
    ]


PLACE = ("inequality", "shift", "value", "place")
