"""Pooled cells. What is checked, and why it is enough: docs/mathematics.md, "Histograms with one
way up". Every quantity is bounded on its unsafe side."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shuffledp_check.bounded import Direction, High, Rejected

POOLED = "pooled way up"


class PooledCell:
    """A pooled cell's numbers; downwards every bucket is a bounded cell."""

    kind = "pooled"
    largest = 1

    def __init__(self, data: dict[str, Any]) -> None:
        self.users, self.buckets = data["users"], data["buckets"]
        self.up = Direction(self.users, 1, data["up"])
        self.down = Direction(self.users, 1, data["down"])
        if self.up.z != self.up.w:
            raise Rejected("the way up must have equal cuts")
        if self.buckets + self.up.z * self.users > 1 << 53:
            raise Rejected("the tokens of an urn need too large numbers")
        self.up_loss = self.up.epsilon
        below = self.buckets * (self.down.z + self.down.w)
        self.most_messages = below + 2 * self.up.z + 1

    def check(self, up: Fraction, down: Fraction) -> dict[str, Any]:
        """What a proof says that replacing a label costs at most `up` + `down`; raises `Rejected`
        if there is none."""
        if self.up.epsilon > up or self.down.epsilon > down:
            raise Rejected("a direction's loss exceeds what it may cost")
        if self.down.ratio < self.up.beta:
            raise Rejected("the ratio downwards is below the decay upwards")
        self.up.check_loss()
        if self.drop_claim().exceeds(1):
            raise Rejected("labels are dropped too rarely for the cut of the noise upwards")
        return {
            "most_messages": self.most_messages,
            "up": {"rule": POOLED},
            "down": {"rule": self.down.check()},
        }

    def drop_claim(self) -> High:
        """At least β_d·m·s_(Z+1)/((1 − β_u·β_d)·R), s_(t+1)/s_t = β_u(B + t·m)/(m(t + 1))."""
        m, both = self.users, self.up.beta * self.down.beta
        claim = High.of(self.down.beta * m / ((1 - both) * self.up.odds[0]))
        top, bottom = self.up.beta.as_integer_ratio()
        for t in range(self.up.z + 1):
            claim = claim.scaled(top * (self.buckets + t * m), bottom * m * (t + 1))
        return claim
