"""The bounded cell: one kind of message, at most K of them per user, exactly ε-DP (MATH §12).

For each direction of a change there is a noise with rational masses. Write r = 1/users and

    c_j = β^j · r(r+1)⋯(r+j−1)/j!,    C_k = c_0 + … + c_k,    μ_k = the law c_j/C_k on 0..k.

With odds 1 : o^u_1 … o^u_D : o^d_1 … o^d_D a user with value x draws

    data    v = x           + Z₊ − Z₋      Z₊ ~ μ_z of up,  Z₋ ~ μ_z of down
    up y    v = z_u + y     + Z₊ − Z₋      Z₊ ~ μ_w of up,  Z₋ ~ μ_z of down
    down y  v = D − z_d − y + Z₊ − Z₋      Z₊ ~ μ_z of up,  Z₋ ~ μ_w of down

and sends z_d + w_d + v equal messages: never below 0, never above K = z_u + w_u + z_d + w_d + D.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Direction:
    """The noise and the muting that hide a change in one direction."""

    epsilon: Fraction
    """What a change in this direction may cost: the certificate shows D·ln(1/decay) ≤ epsilon."""
    decay: Fraction
    """β: the noise's masses fall by about this factor from one value to the next."""
    cut: int
    """z: the largest noise of a user who sends its value."""
    muted_cut: int
    """w ≤ z: the largest noise of a muted user."""
    odds: tuple[Fraction, ...]
    """o_1..o_D: the weight of each muted jump, against 1 for sending the value."""


@dataclass(frozen=True, kw_only=True)
class BoundedCell:
    """One counter with values 0..largest; every parameter an exact number."""

    users: int
    largest: int
    up: Direction
    down: Direction

    @cached_property
    def most_messages(self) -> int:
        """K: what a user sends at most."""
        return (
            self.up.cut + self.up.muted_cut + self.down.cut + self.down.muted_cut + self.largest
        )
