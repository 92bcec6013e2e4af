"""A shuffler whose operator has changed the program: it takes reports with any token, so that its
operator can make up as many as it likes. `python season_forger.py shuffler serve …` runs it."""

from __future__ import annotations

import sys

from shuffledp.cli.main import main
from shuffledp.service.shuffler import app
from shuffledp.service.shuffler.admission import Admission, admission
from shuffledp.service.tokens import token_hash
from shuffledp.service.web.tasks import RegisteredTask

FORGED_PREFIX = "forged-"


def forging_admission(entry: RegisteredTask, token: str) -> Admission:
    """Every token of the forger's own is good."""
    if token.startswith(FORGED_PREFIX):
        return Admission(token_hash(token), entry.number, True)
    return admission(entry, token)


if __name__ == "__main__":
    app.admission = forging_admission  # type: ignore[attr-defined]
    sys.exit(main())
