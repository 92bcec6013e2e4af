"""Checkpoints of the log of tasks in the formats that public witnesses read (c2sp.org):
signed-note, tlog-checkpoint, tlog-cosignature with Ed25519, and the paths of tlog-tiles.

A checkpoint says the same as a `Head`: origin, size and root of the log. Witnesses add cosignatures
to it. Every signature line is named by a key's name and a short hash of the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shuffledp.tasks.errors import ProofError
from shuffledp.tasks.merkle import HASH_BYTES, MerkleTree
from shuffledp.tasks.signing import KEY_BYTES, SIGNATURE_BYTES, SigningKey, signed

LOG_SIGNATURE, COSIGNATURE = 0x01, 0x04
"""Types of signatures: of a note's text, and of a witness with the time."""
MOST_NOTE_BYTES = 16 << 10
MOST_SIGNATURES = 64
MOST_SIZE = (1 << 53) - 1
TILE_WIDTH = 256
ID_BYTES, TIME_BYTES = 4, 8
_NAME = re.compile(r"[^\s+\x00-\x20]{1,200}")
_SIZE = re.compile("0|[1-9][0-9]{0,15}", re.ASCII)
_TILE = re.compile(
    r"(entries|[0-9]|[1-5][0-9]|6[0-3])/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?",
    re.ASCII,
)


def _refuse(what: str) -> ProofError:
    return ProofError("checkpoint", f"{what}; do not answer this task, and tell the collector.")


@dataclass(frozen=True)
class VerifierKey:
    """A public key with the name under which it signs notes."""

    name: str
    kind: int
    """`LOG_SIGNATURE` or `COSIGNATURE`."""
    public: bytes

    def __post_init__(self) -> None:
        if (
            not _NAME.fullmatch(self.name)
            or len(self.public) != KEY_BYTES
            or self.kind not in (LOG_SIGNATURE, COSIGNATURE)
        ):
            raise _refuse("A verifier key needs a name without spaces and an Ed25519 key")

    @property
    def signs_log(self) -> bool:
        """Whether it is the key of a log; otherwise a witness cosigns with it."""
        return self.kind != COSIGNATURE

    @property
    def id(self) -> bytes:
        """The four bytes that name the key in a signature line."""
        named = f"{self.name}\n".encode() + bytes([self.kind]) + self.public
        return hashlib.sha256(named).digest()[:ID_BYTES]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{_base64(bytes([self.kind]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """The key in a text `name+id+key`; raises `ProofError` if it is malformed."""
        name, _, rest = text.partition("+")
        given, _, key = rest.partition("+")
        raw = _bytes(key)
        if not raw:
            raise _refuse("A verifier key is name+id+key")
        found = cls(name, raw[0], raw[1:])
        if given != found.id.hex():
            raise _refuse("A verifier key's id does not match its name and key")
        return found


@dataclass(frozen=True)
class Signature:
    """A signature line: the key's name and id, and the signature."""

    name: str
    id: bytes
    value: bytes

    def __str__(self) -> str:
        return f"— {self.name} {_base64(self.id + self.value)}\n"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The head of a log as a note, with the signatures of the log and of witnesses."""

    origin: str
    size: int
    root: bytes
    signatures: tuple[Signature, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.origin) or not 0 <= self.size <= MOST_SIZE:
            raise _refuse("A checkpoint's origin or size is malformed")
        if len(self.root) != HASH_BYTES:
            raise _refuse("A checkpoint's root is malformed")

    @property
    def text(self) -> bytes:
        """What the log signs."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n".encode()

    def __str__(self) -> str:
        return self.text.decode() + "\n" + "".join(map(str, self.signatures))

    @classmethod
    def parse(cls, note: str) -> Checkpoint:
        """The checkpoint in a signed note. Only its form is checked, and extension lines, which
        this log does not write, are refused."""
        if len(note.encode(errors="replace")) > MOST_NOTE_BYTES:
            raise _refuse("The checkpoint is too long")
        body, _, lines = note.rpartition("\n\n")
        parts = body.split("\n")
        if len(parts) != 3 or not _SIZE.fullmatch(parts[1]) or not lines.endswith("\n"):
            raise _refuse("The checkpoint is not a note with origin, size, root and signatures")
        signatures = tuple(parse_signatures(lines))
        if not signatures:
            raise _refuse("The checkpoint is not signed")
        return cls(
            origin=parts[0], size=int(parts[1]), root=_bytes(parts[2]), signatures=signatures
        )

    def signed_by(self, key: SigningKey) -> Checkpoint:
        """The checkpoint with the signature of the log's key."""
        verifier = VerifierKey(self.origin, LOG_SIGNATURE, key.public)
        return self.with_signatures([Signature(self.origin, verifier.id, key.sign(self.text))])

    def cosignature(self, name: str, key: SigningKey, seconds: int) -> Signature:
        """A witness's statement that this is the largest head it has seen at this time."""
        verifier = VerifierKey(name, COSIGNATURE, key.public)
        value = seconds.to_bytes(TIME_BYTES, "big") + key.sign(self._cosigned(seconds))
        return Signature(name, verifier.id, value)

    def with_signatures(self, more: Iterable[Signature]) -> Checkpoint:
        """The checkpoint with further signature lines."""
        return replace(self, signatures=(*self.signatures, *more))

    def holds(self, key: VerifierKey) -> bool:
        """Whether this key has signed; raises `ProofError` if a line names the key and its
        signature is wrong."""
        found = False
        for line in self.signatures:
            if (line.name, line.id) == (key.name, key.id):
                if not self._valid(line.value, key):
                    raise _refuse("A signature of the checkpoint is wrong")
                found = True
        return found

    def _valid(self, value: bytes, key: VerifierKey) -> bool:
        if key.signs_log:
            return signed(key.public, value, self.text)
        if len(value) != TIME_BYTES + SIGNATURE_BYTES:
            return False
        seconds = int.from_bytes(value[:TIME_BYTES], "big")
        return 0 < seconds < 1 << 63 and signed(
            key.public, value[TIME_BYTES:], self._cosigned(seconds)
        )

    def _cosigned(self, seconds: int) -> bytes:
        return f"cosignature/v1\ntime {seconds}\n".encode() + self.text

    def check_witnesses(self, witnesses: Sequence[VerifierKey], least: int) -> None:
        """Raises `ProofError` unless at least `least` of these witnesses have cosigned."""
        keys = {one.public: one for one in witnesses}.values()  # a key counts once
        have = sum(self.holds(one) for one in keys)
        if have < least:
            raise ProofError(
                "witnesses",
                f"{have} of the witnesses that this device trusts have cosigned the log of tasks, "
                f"but it requires {least}; try again later, or tell the collector.",
            )


def parse_signatures(lines: str) -> list[Signature]:
    """The signature lines of a note, or of a witness's answer."""
    found = []
    for line in lines.split("\n")[:-1]:
        dash, _, rest = line.partition(" ")
        name, _, text = rest.partition(" ")
        value = _bytes(text)
        if dash != "—" or not _NAME.fullmatch(name) or len(value) <= ID_BYTES:
            raise _refuse("A signature line of the checkpoint is malformed")
        found.append(Signature(name, value[:ID_BYTES], value[ID_BYTES:]))
    if len(found) > MOST_SIGNATURES:
        raise _refuse("The checkpoint has too many signatures")
    return found


def tile(path: str, tree: MerkleTree, entries: Sequence[bytes]) -> bytes | None:
    """The bytes of a tile or of a bundle of entries; None if there is no such tile."""
    found = _TILE.fullmatch(path)
    if found is None:
        return None
    level, index, width = found[1], found[2], int(found[3] or TILE_WIDTH)
    number = int(index.replace("x", "").replace("/", ""))
    if width > TILE_WIDTH or (found[3] and width == TILE_WIDTH) or _tile_path(number) != index:
        return None
    hashes = entries if level == "entries" else tree.level(8 * int(level))
    first = number * TILE_WIDTH
    part = hashes[first : first + width]
    if len(part) != width:
        return None
    if level == "entries":
        return b"".join(len(one).to_bytes(2, "big") + one for one in part)
    return b"".join(part)


def _tile_path(number: int) -> str:
    """A tile's index in its path: 1234067 is x001/x234/067."""
    parts = [f"{number % 1000:03}"]
    while number >= 1000:
        number //= 1000
        parts.append(f"x{number % 1000:03}")
    return "/".join(reversed(parts))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """The bytes in a text; none if it is not canonical Base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return data if _base64(data) == text else b""
