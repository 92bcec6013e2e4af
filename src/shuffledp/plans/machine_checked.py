"""Which certificates rely only on machine-checked theorems.

The theorems are in proofs/ of the repository, and proofs/README.md maps every inequality of a
certificate to a hypothesis. The machine checks the theorem about the randomizer, not the
implementation.
"""

from __future__ import annotations

from shuffledp.cells.bounded.proof import EQUAL_CUTS, BoundedProof
from shuffledp.cells.digits.proof import SHARED
from shuffledp.cells.sparse.proof import SPARSE, UrnProof
from shuffledp.plans.certificate import Certificate

CHECKED_RULES = frozenset({EQUAL_CUTS, SHARED, SPARSE})
"""Rules whose theorem is machine-checked."""
CHECKED_LOSSES = frozenset(
    {
        "max(up, down)",
        "up + down",
        "any replacement",
        "sum over cells of max(up, down)",
        "sum over cells of up + down",
        "sum over levels of up + down",
    }
)
"""Rules of composition whose theorem is machine-checked."""


def machine_checked(certificate: Certificate) -> str:
    """A sentence that says whether every theorem behind the certificate is machine-checked, and
    otherwise which are not."""
    missing = _missing(certificate)
    if missing:
        return "not yet machine-checked: " + ", ".join(missing)
    return (
        "the privacy theorems of this plan are machine-checked; the implementation is tested "
        "against them (proofs/README.md)"
    )


def _missing(certificate: Certificate) -> list[str]:
    """What the certificate relies on besides machine-checked theorems, each once."""
    missing: dict[str, None] = {}
    for cell in certificate.proofs:
        if isinstance(cell.proof, UrnProof) and cell.proof.rule in CHECKED_RULES:
            continue
        if not isinstance(cell.proof, BoundedProof):
            missing[f"the proof of {cell.kind} cells"] = None
            continue
        for side in (cell.proof.up, cell.proof.down):
            if side.rule not in CHECKED_RULES:
                missing[f"the rule '{side.rule}'"] = None
    protocol = certificate.protocol
    if protocol.loss_in_words not in CHECKED_LOSSES:
        missing["groups that users draw"] = None
    elif protocol.public_counters:
        missing["public counters"] = None
    return list(missing)
