"""The issuer's private keys in a folder: one per task, each in a file that only its owner reads."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from shuffledp.documents.files import write_whole
from shuffledp.tasks.blind_rsa import EXPONENT, BlindPrivateKey
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.task_tokens import MODULUS_BYTES, IssuerKey


class IssuerKeyFolder:
    """Keys by their ids. Files are read when a key is looked for, so that keys may be added while
    the issuer runs."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[bytes, BlindPrivateKey] = {}

    def new(self) -> IssuerKey:
        """A fresh key, stored durably; gives its public half."""
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

    def count(self) -> int:
        """How many keys there are."""
        return sum(1 for _ in self.path.glob("issuer-*.pem")) if self.path.is_dir() else 0

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
    raise TaskError(f"The key file {file.name} cannot be read; restore it from a copy.")
