"""A shuffler whose operator has changed the program: it takes reports with any token, so that its
operator can make up as many as it likes. `python season_forger.py shuffler serve …` runs it."""

from __future__ import annotations

import sys

from shuffledp.cli.main import main
from shuffledp.service import workers
from shuffledp.service.http.tasks import RegisteredTask
from shuffledp.service.shuffler import uploads
from shuffledp.service.shuffler.uploads import Admission, admission
from shuffledp.service.tokens import token_hash

FORGED_PREFIX = "forged-"
WORKER = "service.workers"
"""The only word with which this program is started as one of the shuffler's processes."""


def forging_admission(entry: RegisteredTask, token: str) -> Admission:
    """Every token of the forger's own is good."""
    if token.startswith(FORGED_PREFIX):
        return Admission(token_hash(token), entry.number, True)
    return admission(entry, token)


if __name__ == "__main__":
    uploads.admission = forging_admission
    if sys.argv[1:] == [WORKER]:
        workers.main()
    else:
        workers.COMMAND = (__file__, WORKER)
        sys.exit(main())
