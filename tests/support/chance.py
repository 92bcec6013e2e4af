"""How far a released number may be from the truth before a test fails: from its law, so that a test
fails by chance less than once in 10⁷ runs.

A multiple of the RMSE is no such bar. In a bounded cell users rarely jump, and a jump is far beyond
the RMSE if that is small because jumps are rare.
"""

from __future__ import annotations

from shuffledp.protocols.registry import protocol_from_dict
from shuffledp.protocols.results import Result

OUTSIDE = 1e-8


def reach(found: Result) -> float:
    """What each number of a result exceeds with probability `OUTSIDE`, whatever the data.

    Requires: the protocol knows the exact law of its error, as those of counts, sums of numbers,
    histograms and whole numbers by group do.
    """
    assert found.certificate is not None
    protocol = protocol_from_dict(found.certificate["protocol"])
    return max(map(abs, protocol.error_range(found.users, OUTSIDE)))
