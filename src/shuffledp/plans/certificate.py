"""A certificate: the proof, for these very numbers, that a protocol is ε-DP in the shuffle model.

`certify` gives a certificate, raises `PrivacyViolation` with a witness, or raises `Undecided`.
A certificate is plain JSON. Whoever holds it can check it again, with `verify` or with the
independent program `shuffledp_check`, which shares no code with this package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.cells.proofs import Proof, prove
from shuffledp.cells.use import CellUse
from shuffledp.errors import FalseClaim, ParameterError, PrivacyViolation
from shuffledp.numbers.exact import show
from shuffledp.plans.certificate_schema import CERTIFICATE, CERTIFICATE_FORMAT
from shuffledp.protocols.base import Protocol
from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.protocols.results import NEIGHBOURS, Result

Progress = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class CellProof:
    """What was shown about one cell (and all its copies)."""

    kind: str
    copies: int
    up: Fraction
    down: Fraction
    proof: Proof

    def to_dict(self) -> dict[str, Any]:
        return {**self._head(), "proof": self.proof.to_dict()}

    def claims(self) -> dict[str, Any]:
        """What `to_dict` says but for digits that depend on the arithmetic library."""
        return {**self._head(), "proof": self.proof.claims()}

    def _head(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "copies": self.copies,
            "up": str(self.up),
            "down": str(self.down),
        }


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """ε-DP in the shuffle model, shown for these parameters."""

    protocol: Protocol[Result]
    loss: Fraction
    proofs: tuple[CellProof, ...]
    version: str

    @property
    def epsilon(self) -> Fraction:
        return self.protocol.epsilon

    def to_dict(self) -> dict[str, Any]:
        """The certificate as JSON can hold it; rationals as exact text."""
        return {
            "format": CERTIFICATE_FORMAT,
            "statement": "pure differential privacy in the shuffle model",
            "epsilon": str(self.epsilon),
            "loss": str(self.loss),
            "rule": self.protocol.loss_rule,
            "neighbours": NEIGHBOURS,
            "users": self.protocol.users,
            "protocol": self.protocol.to_dict(),
            "cells": [proof.to_dict() for proof in self.proofs],
            "version": self.version,
        }


def certify(protocol: Protocol[Result], progress: Progress | None = None) -> Certificate:
    """The certificate of a protocol.

    Ensures: returned only if every cell was proved to cost at most `up` and `down` of its use, in
    exact or ball arithmetic, and the composed loss is at most ε.

    >>> import shuffledp
    >>> shuffledp.certify(shuffledp.plan_count(1000, 1).protocol).epsilon
    Fraction(1, 1)
    """
    from shuffledp.version import __version__

    loss = protocol.loss()
    if loss > protocol.epsilon:
        raise PrivacyViolation(
            f"The cells' losses add up to {show(loss)}, above epsilon = {show(protocol.epsilon)}; "
            "lower up_epsilon or give the cells less.",
            {"loss": str(loss), "epsilon": str(protocol.epsilon)},
        )
    if any(use.cell.users != protocol.users_of_cells for use in protocol.uses):
        raise PrivacyViolation(
            "The cells are planned for different numbers of users, so that a batch would carry "
            "less noise than some of them need; plan all for the same users.",
            {"users": [use.cell.users for use in protocol.uses]},
        )
    _check_drawn_together(protocol)
    proofs = tuple(_prove(use, progress) for use in protocol.uses)
    return Certificate(protocol=protocol, loss=loss, proofs=proofs, version=__version__)


def _check_drawn_together(protocol: Protocol[Result]) -> None:
    """Refuses cells that are drawn together beside others than those they were made for: what is
    proved about one of them holds only among these."""
    cells = [use.cell for use in protocol.uses]
    if any(cell.draws_together for cell in cells) and not protocol.draws_cells_together:
        raise ParameterError(
            "Cells that are drawn together are for the digits of a real sum only; plan this "
            "question again."
        )
    for cell in cells:
        cell.check_together(cells)


def _prove(use: CellUse, progress: Progress | None) -> CellProof:
    proof = prove(use.cell, use.up, use.down, progress)
    return CellProof(kind=use.cell.kind, copies=use.copies, up=use.up, down=use.down, proof=proof)


def verify(data: object) -> Certificate:
    """The certificate behind its JSON (or a plan's JSON), proved again from the parameters alone.

    Ensures: nothing the file claims is believed; a claim that differs from the proof is an error.

    >>> import shuffledp
    >>> shuffledp.verify(shuffledp.plan_count(1000, 1).to_dict()).protocol.users
    1000
    """
    if isinstance(data, dict) and isinstance(data.get("certificate"), dict):
        data = data["certificate"]
    if not isinstance(data, dict) or data.get("format") != CERTIFICATE_FORMAT:
        raise ParameterError(
            f"This is no certificate: its format must be {CERTIFICATE_FORMAT!r}; "
            "give a file that `shuffledp plan … --json` wrote."
        )
    CERTIFICATE.check(data, "certificate")
    certificate = certify(protocol_from_dict(data["protocol"]))
    shown = certificate.to_dict()
    if shown["protocol"] != data["protocol"]:
        raise ParameterError(
            "The certificate's protocol holds something that this version does not know, or is "
            "written in another way; ask for a new certificate."
        )
    for name in ("statement", "epsilon", "loss", "rule", "neighbours", "users"):
        if data.get(name) != shown[name]:
            raise _altered(name)
    cells = data["cells"]
    if len(cells) != len(certificate.proofs):
        raise _altered("cells")
    for given, proof in zip(cells, certificate.proofs, strict=True):
        if not _says(given, proof.claims()):
            raise _altered("cells")
    return certificate


def _says(given: object, claims: dict[str, Any]) -> bool:
    """Whether a part of a certificate makes all these claims."""
    if not isinstance(given, dict):
        return False
    return all(
        _says(given.get(name), claim) if isinstance(claim, dict) else given.get(name) == claim
        for name, claim in claims.items()
    )


def _altered(name: str) -> FalseClaim:
    return FalseClaim(
        f"The certificate's {name!r} does not follow from its parameters; "
        "it was changed or made by another program: ask for a new one."
    )
