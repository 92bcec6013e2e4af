"""A shuffler whose operator has changed the program: it takes reports with any token, so that its
operator can make up as many as it likes. `python season_forger.py shuffler serve …` runs it."""

from __future__ import annotations

import sys

from shuffledp.cli.main import main
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler import door, doors, uploads
from shuffledp.service.shuffler.admission import Admission, admission
from shuffledp.service.tokens import token_hash

FORGED_PREFIX = "forged-"
DOOR = "shuffler.door"
"""The only word with which this program is started as one of the shuffler's further processes."""


def forging_admission(entry: RegisteredTask, token: str) -> Admission:
    """Every token of the forger's own is good."""
    if token.startswith(FORGED_PREFIX):
        return Admission(token_hash(token), entry.number, True)
    return admission(entry, token)


if __name__ == "__main__":
    uploads.admission = forging_admission  # type: ignore[attr-defined]
    if sys.argv[1:] == [DOOR]:
        door.main()
    else:
        doors.DOOR = (__file__, DOOR)
        sys.exit(main())
