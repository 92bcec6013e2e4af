"""One-time tokens of a task: the structures of Privacy Pass (RFC 9577, RFC 9578 type 2, blind RSA).

    token = type ‖ nonce ‖ SHA-256(challenge) ‖ SHA-256(issuer's key) ‖ signature

The challenge names the issuer, the task and the shuffler, so a token counts in that task only. A
device gets one signature per task from the issuer, who does not see the nonce. `IssuerKeyFolder`
holds the issuer's private keys: one per task, each in a file that only its owner can read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from shuffledp.documents.files import write_whole
from shuffledp.documents.schema import Flag, Pattern, Record, Text
from shuffledp.tasks.blind_rsa import EXPONENT, BlindPrivateKey, BlindPublicKey
from shuffledp.tasks.errors import TaskError

if TYPE_CHECKING:
    from shuffledp.tasks.task import Task

TOKEN_TYPE = (2).to_bytes(2, "big")
MODULUS_BYTES = 256
NONCE_BYTES = 32
INPUT_BYTES = 2 + 3 * 32
TOKEN_BYTES = INPUT_BYTES + MODULUS_BYTES
REQUEST_BYTES = 3 + MODULUS_BYTES
TOKEN_PREFIX = "task-"
_SPKI_HEAD = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d"
    "010108300b0609608648016503040202a2030201300382010f003082010a0282010100"
)
_SPKI_TAIL = bytes.fromhex("0203010001")
SPKI_BYTES = len(_SPKI_HEAD) + MODULUS_BYTES + len(_SPKI_TAIL)
SPKI_TEXT = Text(2 * SPKI_BYTES, 2 * SPKI_BYTES, Pattern("[0-9a-f]*", "hexadecimal digits"))
SERVER_URL = Text(
    300,
    1,
    Pattern(
        r"(https://([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
        r"|http://(127\.0\.0\.1|localhost|\[::1\]))"
        r"(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~-]+)*",
        "a URL like https://shuffler.example, or http:// on this machine, without a slash at its "
        "end",
    ),
)
ISSUER = Record(
    {
        "url": SERVER_URL,
        "key": SPKI_TEXT,
        "attested": Flag(),
    }
)


@dataclass(frozen=True)
class IssuerKey:
    """The public half of an issuer's key: RSA of 2,048 bits with the exponent 65537, for PSS with
    SHA-384, as RFC 9578 §6.5 writes it."""

    spki: bytes

    @classmethod
    def of(cls, modulus: int) -> IssuerKey:
        """The key with this modulus."""
        return cls(_SPKI_HEAD + modulus.to_bytes(MODULUS_BYTES, "big") + _SPKI_TAIL)

    @classmethod
    def from_hex(cls, text: str) -> IssuerKey:
        """The key in a task; raises `TaskError` if it is malformed."""
        try:
            spki = bytes.fromhex(text)
        except ValueError:
            spki = b""
        first = spki[len(_SPKI_HEAD) : len(_SPKI_HEAD) + 1]
        if (
            len(spki) != SPKI_BYTES
            or not (spki.startswith(_SPKI_HEAD) and spki.endswith(_SPKI_TAIL))
            or first < b"\x80"
            or not spki[-len(_SPKI_TAIL) - 1] & 1
        ):
            raise TaskError(
                "The issuer's key is malformed; use what `shuffledp issuer new-key` prints."
            )
        return cls(spki)

    @cached_property
    def blind(self) -> BlindPublicKey:
        """The key as numbers."""
        return BlindPublicKey(int.from_bytes(self.spki[len(_SPKI_HEAD) : -len(_SPKI_TAIL)], "big"))

    @property
    def id(self) -> bytes:
        """The SHA-256 of the key, which tokens contain."""
        return hashlib.sha256(self.spki).digest()


@dataclass(frozen=True)
class TokenIssuer:
    """Who issues the one-time tokens of a task."""

    url: str
    key: IssuerKey
    """Used for this task and no other."""
    attested: bool = False
    """Whether tokens are for attested enrolments only."""

    def to_dict(self) -> dict[str, Any]:
        """The issuer as it appears in a task."""
        return {"url": self.url, "key": self.key.spki.hex(), "attested": self.attested}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenIssuer:
        """The issuer in a task; raises `TaskError` if its key is malformed."""
        return cls(data["url"], IssuerKey.from_hex(data["key"]), data["attested"])


def challenge(issuer: str, context: bytes, origin: str) -> bytes:
    """A TokenChallenge (RFC 9577 §2.1.1): the issuer, the task, and where tokens are presented."""
    return TOKEN_TYPE + _sized(issuer.encode(), 2) + _sized(context, 1) + _sized(origin.encode(), 2)


def _sized(data: bytes, length_bytes: int) -> bytes:
    return len(data).to_bytes(length_bytes, "big") + data


def task_challenge(task: Task) -> bytes:
    """The challenge of a task: its issuer's and its shuffler's host and port, and its id."""
    if task.issuer is None:
        raise TaskError("This task has no issuer; its reports carry enrolment tokens.")
    return challenge(_host(task.issuer.url), task.id, _host(task.shuffler))


def _host(url: str) -> str:
    """Host and port of a server's URL, as a task names it."""
    return re.sub("^https?://", "", url).partition("/")[0]


@dataclass(frozen=True, kw_only=True)
class TokenRequest:
    """A device's request to the issuer, and what it needs to use the response. Secret."""

    key: IssuerKey
    token_input: bytes
    blinded: bytes
    inverse: int

    @classmethod
    def make(
        cls,
        key: IssuerKey,
        challenge: bytes,
        *,
        nonce: bytes | None = None,
        salt: bytes | None = None,
        blinding: int | None = None,
    ) -> TokenRequest:
        """A fresh request; `nonce`, `salt` and `blinding` are for tests."""
        digest = hashlib.sha256(challenge).digest()
        token_input = TOKEN_TYPE + (nonce or os.urandom(NONCE_BYTES)) + digest + key.id
        blinded, inverse = key.blind.blind(token_input, salt=salt, blinding=blinding)
        return cls(key=key, token_input=token_input, blinded=blinded, inverse=inverse)

    def __repr__(self) -> str:
        return "TokenRequest()"

    def to_bytes(self) -> bytes:
        """The encoded request (RFC 9578 §6.1)."""
        return TOKEN_TYPE + self.key.id[-1:] + self.blinded

    def finish(self, answer: bytes) -> TaskToken:
        """The token, from the issuer's answer; raises `TaskError` unless it is valid."""
        signature = self.key.blind.finalize(self.token_input, answer, self.inverse)
        return TaskToken(self.token_input, signature)


def read_request(body: bytes, key: IssuerKey) -> bytes:
    """The blinded message in a request; raises `TaskError` unless it is one for this key."""
    if len(body) != REQUEST_BYTES or body[:3] != TOKEN_TYPE + key.id[-1:]:
        raise TaskError(
            f"The token request is malformed: it must have {REQUEST_BYTES} bytes and name the "
            "task's issuer key; make it from the task."
        )
    return body[3:]


@dataclass(frozen=True)
class TaskToken:
    """A one-time token. Secret until it is used."""

    token_input: bytes
    signature: bytes

    def __repr__(self) -> str:
        return "TaskToken()"

    @property
    def text(self) -> str:
        """The token as it is presented to the shuffler."""
        raw = self.token_input + self.signature
        return TOKEN_PREFIX + base64.urlsafe_b64encode(raw).decode()

    @property
    def name(self) -> bytes:
        """The hash of everything but the signature, under which it is recorded as spent."""
        return hashlib.sha256(self.token_input).digest()

    @classmethod
    def from_text(cls, text: str) -> TaskToken:
        """The token in a request; raises `TaskError` unless it has the form that `text` writes."""
        raw = b""
        with contextlib.suppress(binascii.Error, ValueError):
            raw = base64.b64decode(text.removeprefix(TOKEN_PREFIX), altchars=b"-_", validate=True)
        token = cls(raw[:INPUT_BYTES], raw[INPUT_BYTES:])
        if len(raw) != TOKEN_BYTES or token.text != text:
            raise TaskError("This is not a one-time token; get one from the task's issuer.")
        return token

    def valid(self, key: IssuerKey, challenge: bytes) -> bool:
        """Whether this token was signed with this key, for this challenge."""
        digest = hashlib.sha256(challenge).digest()
        rest = self.token_input[2 + NONCE_BYTES :]
        return (
            self.token_input[:2] == TOKEN_TYPE
            and rest == digest + key.id
            and key.blind.verify(self.token_input, self.signature)
        )


class IssuerKeyFolder:
    """Keys by their ids. A file is read when its key is first used, so keys can be added while the
    issuer runs."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[bytes, BlindPrivateKey] = {}

    def new(self) -> IssuerKey:
        """Stores a fresh key durably and returns its public half."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        private = generate_private_key(EXPONENT, 8 * MODULUS_BYTES)
        key = IssuerKey.of(private.public_key().public_numbers().n)
        text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_whole(self._file(key), text, durable=True, secret=True)
        return key

    def find(self, key: IssuerKey) -> BlindPrivateKey | None:
        """The private half of a key; None if it is not here."""
        if key.id not in self._known:
            file = self._file(key)
            if not file.exists():
                return None
            self._known[key.id] = _read(file, key)
        return self._known[key.id]

    def _file(self, key: IssuerKey) -> Path:
        return self.path / f"issuer-{key.id.hex()}.pem"


def _read(file: Path, key: IssuerKey) -> BlindPrivateKey:
    try:
        loaded = load_pem_private_key(file.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        loaded = None
    if isinstance(loaded, RSAPrivateKey):
        numbers = loaded.private_numbers()
        if IssuerKey.of(numbers.public_numbers.n) == key:
            return BlindPrivateKey(numbers.p, numbers.q)
    raise TaskError(f"The key file {file.name} cannot be read; restore it from a backup.")
