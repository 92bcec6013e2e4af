"""Certificates: proofs, for exact parameters, that a protocol is ε-DP in the shuffle model.

`certify` returns a certificate, or raises `PrivacyViolation` with a witness, or `Undecided`.
A certificate is plain JSON. Anyone can check it again, with `verify` or with the independent
program `shuffledp_check`, which shares no code with this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shuffledp.cells.base import CELL_EPSILON, LARGEST_EPSILON_OF_CELL, MOST_USERS, Proof
from shuffledp.cells.registry import prove
from shuffledp.cells.sparse.cell import MOST_SPARSE_BUCKETS
from shuffledp.documents.schema import Anything, Listing, OneOf, Rational, Record, Text, Whole
from shuffledp.errors import FalseClaim, ParameterError, PrivacyViolation
from shuffledp.numbers.exact import show
from shuffledp.protocols.base import MOST_BUCKETS, MOST_DIGITS, Progress, Protocol
from shuffledp.protocols.registry import PROTOCOL, protocol_from_dict
from shuffledp.protocols.results import NEIGHBOURS, Result

CERTIFICATE_FORMAT = "shuffledp certificate 2"
SENTENCE = Text(500)

CELL_PROOF = Record(
    {
        "kind": Text(40),
        "copies": Whole(1, max(MOST_BUCKETS, MOST_SPARSE_BUCKETS)),
        "up": CELL_EPSILON,
        "down": CELL_EPSILON,
        "proof": Anything(most_items=50, exact=True),
    }
)
CERTIFICATE = Record(
    {
        "format": OneOf((CERTIFICATE_FORMAT,)),
        "statement": SENTENCE,
        "epsilon": CELL_EPSILON,
        "loss": Rational(Fraction(0), LARGEST_EPSILON_OF_CELL),
        "rule": SENTENCE,
        "neighbours": SENTENCE,
        "users": Whole(1, MOST_USERS),
        "protocol": PROTOCOL,
        "cells": Listing(CELL_PROOF, 1, MOST_DIGITS),
    },
    {"version": Text(40)},
)
"""The JSON schema of a certificate."""


@dataclass(frozen=True, kw_only=True)
class CellProof:
    """What was proved about one cell (and all its copies)."""

    kind: str
    copies: int
    up: Fraction
    down: Fraction
    proof: Proof

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "copies": self.copies,
            "up": str(self.up),
            "down": str(self.down),
            "proof": self.proof.to_dict(),
        }

    def claims(self) -> dict[str, Any]:
        """`to_dict` without the digits that depend on the arithmetic library."""
        return {**self.to_dict(), "proof": self.proof.claims()}


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """ε-DP in the shuffle model, proved for these parameters."""

    protocol: Protocol[Result]
    loss: Fraction
    proofs: tuple[CellProof, ...]
    version: str

    @property
    def epsilon(self) -> Fraction:
        return self.protocol.epsilon

    def to_dict(self) -> dict[str, Any]:
        """The certificate as a JSON object; rationals as exact text."""
        return {
            "format": CERTIFICATE_FORMAT,
            "statement": "pure differential privacy in the shuffle model",
            "epsilon": str(self.epsilon),
            "loss": str(self.loss),
            "rule": self.protocol.loss_in_words,
            "neighbours": NEIGHBOURS,
            "users": self.protocol.users,
            "protocol": self.protocol.to_dict(),
            "cells": [proof.to_dict() for proof in self.proofs],
            "version": self.version,
        }


def certify(protocol: Protocol[Result], progress: Progress | None = None) -> Certificate:
    """The certificate of a protocol.

    Ensures: returned only if every cell was proved to cost at most what its `Member` allows, in
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
            "lower up_epsilon or the cells' shares.",
            {"loss": str(loss), "epsilon": str(protocol.epsilon)},
        )
    if any(member.cell.users != protocol.users for member in protocol.members):
        raise PrivacyViolation(
            "The cells are planned for different numbers of users, so a batch would contain "
            "less noise than some of them need; plan all for the same users.",
            {"users": [member.cell.users for member in protocol.members]},
        )
    proofs = tuple(
        CellProof(
            kind=member.cell.kind,
            copies=member.copies,
            up=member.up,
            down=member.down,
            proof=prove(member.cell, member.up, member.down, progress),
        )
        for member in protocol.members
    )
    return Certificate(protocol=protocol, loss=loss, proofs=proofs, version=__version__)


def verify(data: object) -> Certificate:
    """The certificate from its JSON (or a plan's JSON), proved again from the parameters alone.

    Ensures: nothing in the file is trusted; a claim that differs from the proof is an error.

    >>> import shuffledp
    >>> shuffledp.verify(shuffledp.plan_count(1000, 1).to_dict()).protocol.users
    1000
    """
    if isinstance(data, dict) and isinstance(data.get("certificate"), dict):
        data = data["certificate"]
    if not isinstance(data, dict) or data.get("format") != CERTIFICATE_FORMAT:
        raise ParameterError(
            f"This is not a certificate: its format must be {CERTIFICATE_FORMAT!r}; "
            "use a file that `shuffledp plan … --json` wrote."
        )
    CERTIFICATE.check(data, "certificate")
    certificate = certify(protocol_from_dict(data["protocol"]))
    shown = certificate.to_dict()
    if shown["protocol"] != data["protocol"]:
        raise ParameterError(
            "The certificate's protocol has a part that this version does not know, or is "
            "written in another way; ask for a new certificate."
        )
    for name in ("statement", "epsilon", "loss", "rule", "neighbours", "users"):
        if data.get(name) != shown[name]:
            raise _altered(name)
    cells, claims = data["cells"], [proof.claims() for proof in certificate.proofs]
    if len(cells) != len(claims) or not all(map(_says, cells, claims)):
        raise _altered("cells")
    return certificate


def _says(given: object, claims: dict[str, Any]) -> bool:
    """Whether a part of a certificate makes all these claims."""
    if not isinstance(given, dict):
        return False
    return all(
        _says(given.get(name), claim)
        if isinstance(claim, dict)
        else type(given.get(name)) is type(claim) and given[name] == claim
        for name, claim in claims.items()
    )


def _altered(name: str) -> FalseClaim:
    return FalseClaim(
        f"The certificate's {name!r} does not follow from its parameters; "
        "it was changed or made by another program: ask for a new one."
    )
