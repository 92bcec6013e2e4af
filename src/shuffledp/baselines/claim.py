"""The privacy claim of a baseline: pure ε or (ε, δ), whom you must trust, and its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from shuffledp.errors import ParameterError
from shuffledp.numbers.exact import show

Kind = Literal["pure", "approximate"]
Trust = Literal["central", "shuffler", "local"]
Basis = Literal["computed", "theorem", "not verified", "violated"]

BASES: dict[Basis, str] = {
    "computed": "computed for these exact parameters, in exact or ball arithmetic or with a "
    "margin far above the rounding error",
    "theorem": "relies on the published theorem; not computed for these parameters",
    "not verified": "no proof is available, and it is too large to compute here",
    "violated": "a computation found a view that breaks it",
}

TRUSTED: dict[Trust, str] = {
    "central": "the party that collects the raw values",
    "shuffler": "the shuffler",
    "local": "nobody",
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A privacy promise: ε and δ, who must be trusted, and what supports it.

    Whether it is pure follows from δ alone, so a claim with δ > 0 cannot be shown as pure.
    """

    epsilon: Fraction
    delta: Fraction
    trust: Trust
    """Who must be honest: the party that collects the raw values, the shuffler, or nobody."""
    basis: Basis
    """What supports the claim; `BASES` explains each."""
    note: str = ""
    """What was computed or cited, in a few words."""

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 <= self.delta < 1:
            raise ParameterError("A privacy claim needs ε > 0 and 0 ≤ δ < 1; change one of them.")

    @property
    def pure(self) -> bool:
        """Whether δ is exactly 0."""
        return self.delta == 0

    @property
    def kind(self) -> Kind:
        """ "pure" if δ is exactly 0, else "approximate"."""
        return "pure" if self.pure else "approximate"

    @property
    def holds(self) -> bool:
        """Whether a computation or a published theorem supports the claim."""
        return self.basis in ("computed", "theorem")

    def __str__(self) -> str:
        if self.pure:
            return f"pure ε = {show(self.epsilon)}"
        return f"(ε, δ) = ({show(self.epsilon)}, {float(self.delta):g})"

    def in_words(self) -> str:
        """The kind of privacy, who must be trusted, and a warning if nothing supports it."""
        kind = "pure ε-DP" if self.pure else f"(ε, δ)-DP with δ = {float(self.delta):g}"
        warning = "" if self.holds else f"; the claim is {self.basis}"
        return f"{kind}, trusting {TRUSTED[self.trust]}{warning}"

    def to_dict(self) -> dict[str, str]:
        """The claim as a JSON object, its numbers as exact text."""
        return {
            "kind": self.kind,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "trust": self.trust,
            "basis": self.basis,
            "note": self.note,
        }


def pure_claim(epsilon: Fraction, trust: Trust, basis: Basis, note: str = "") -> Claim:
    """The claim that replacing one user's value changes no probability by more than e^ε."""
    return Claim(epsilon=epsilon, delta=Fraction(0), trust=trust, basis=basis, note=note)
