"""The file with which an organisation introduces itself to the others: addresses, public keys, and
hashes of tokens. It contains no secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.documents.json_text import read_json_file
from shuffledp.documents.schema import HASH_TEXT, Listing, OneOf, Record
from shuffledp.errors import ParameterError
from shuffledp.tasks.keys import PUBLIC_KEY
from shuffledp.tasks.task import OPERATOR
from shuffledp.tasks.tokens import SERVER_URL, SPKI_TEXT

FORMAT = "shuffledp introduction 1"
SERVERS = ("shuffler", "analyzer", "issuer", "relay")
COLLECTOR = "collector"
MOST_BYTES = 1 << 18
MOST_REHEARSAL_TOKENS = 1000
TOKEN_HASHES = Record(dict.fromkeys(("shuffler", "analyzer", "issuer"), HASH_TEXT))
ROLES: Mapping[str, Record] = {
    "shuffler": Record({"url": SERVER_URL, "signing_key": HASH_TEXT, "delivery_sha256": HASH_TEXT}),
    "analyzer": Record({"url": SERVER_URL, "signing_key": HASH_TEXT, "key": PUBLIC_KEY}),
    "issuer": Record({"url": SERVER_URL, "issuer_key": SPKI_TEXT}),
    "relay": Record({"url": SERVER_URL}),
    COLLECTOR: Record(
        {
            "signing_key": HASH_TEXT,
            "token_sha256": TOKEN_HASHES,
            "rehearsal_sha256": Listing(HASH_TEXT, 0, MOST_REHEARSAL_TOKENS),
        }
    ),
}
"""What each role says about itself."""
KNOWN = {
    role: Record({"organisation": OPERATOR, **schema.fields}) for role, schema in ROLES.items()
}
"""What is kept about the organisation of each role."""
INTRODUCTION = Record(
    {
        "format": OneOf((FORMAT,)),
        "organisation": OPERATOR,
        "roles": Record({}, ROLES),
    }
)


@dataclass(frozen=True)
class Introduction:
    """What an organisation says about each of its roles."""

    organisation: str
    roles: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> str:
        """The text of the file."""
        data = {"format": FORMAT, "organisation": self.organisation, "roles": self.roles}
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Introduction:
        """The introduction in a file; raises `ParameterError` unless every field is well formed."""
        data = read_json_file(Path(path), MOST_BYTES)
        try:
            INTRODUCTION.check(data, "introduction")
        except ParameterError as error:
            raise ParameterError(
                f"{path} is not an introduction: {error} It is the file introduction.json that "
                "`shuffledp init` made."
            ) from None
        return cls(data["organisation"], data["roles"])
