"""Blind RSA signatures after RFC 9474 (RSABSSA-SHA384-PSS): the signer never sees what it signs.

    device    blinded, inverse = key.blind(message)
    signer    answer = private.sign(blinded)
    device    signature = key.finalize(message, answer, inverse)
    anyone    key.verify(message, signature)

The blinded message is uniform over everything that the key can sign, for every message, so the
signer learns nothing about the message or the signature.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass
from functools import cached_property

import flint
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA384

from shuffledp.tasks.errors import TaskError

EXPONENT = 65_537
SALT_BYTES = HASH_BYTES = 48
EXPONENT_BLINDING_BITS = 64


@dataclass(frozen=True)
class BlindPublicKey:
    """The public key that devices blind with and shufflers verify with. The exponent is 65537."""

    modulus: int

    @property
    def size(self) -> int:
        """Bytes of a blinded message and of a signature."""
        return (self.modulus.bit_length() + 7) // 8

    def blind(
        self, message: bytes, *, salt: bytes | None = None, blinding: int | None = None
    ) -> tuple[bytes, int]:
        """(the blinded message, what `finalize` needs). `salt` and `blinding` are for tests; by
        default they come from the operating system's randomness."""
        encoded = pss_encode(
            message,
            secrets.token_bytes(SALT_BYTES) if salt is None else salt,
            self.modulus.bit_length() - 1,
        )
        number = int.from_bytes(encoded, "big")
        if math.gcd(number, self.modulus) != 1:
            raise TaskError("This message cannot be signed with this key; draw another one.")
        while blinding is None:
            drawn = 1 + secrets.randbelow(self.modulus - 1)
            blinding = drawn if math.gcd(drawn, self.modulus) == 1 else None
        blinded = number * pow(blinding, EXPONENT, self.modulus) % self.modulus
        return blinded.to_bytes(self.size, "big"), pow(blinding, -1, self.modulus)

    def finalize(
        self, message: bytes, answer: bytes, inverse: int, salt_bytes: int = SALT_BYTES
    ) -> bytes:
        """The signature of a message, from the signer's answer to its blinded form.

        Ensures: raises `TaskError` unless the signature is valid.
        """
        number = int.from_bytes(answer, "big")
        if len(answer) == self.size and number < self.modulus:
            signature = (number * inverse % self.modulus).to_bytes(self.size, "big")
            if self.verify(message, signature, salt_bytes):
                return signature
        raise TaskError(
            "The issuer's answer is not a signature under its key; nothing was used: ask again."
        )

    def verify(self, message: bytes, signature: bytes, salt_bytes: int = SALT_BYTES) -> bool:
        """Whether a signature is one of this message under this key."""
        try:
            self._key.verify(signature, message, PSS(MGF1(SHA384()), salt_bytes), SHA384())
        except InvalidSignature:
            return False
        return True

    @cached_property
    def _key(self) -> RSAPublicKey:
        return RSAPublicNumbers(EXPONENT, self.modulus).public_key()


class BlindPrivateKey:
    """The issuer's private key. Secret: it prints nothing."""

    def __init__(self, p: int, q: int) -> None:
        self.public = BlindPublicKey(p * q)
        self._order = (p - 1) * (q - 1)
        self._exponent = pow(EXPONENT, -1, self._order)
        self._ring = flint.fmpz_mod_ctx(self.public.modulus)

    def __repr__(self) -> str:
        return "BlindPrivateKey()"

    def check(self, blinded: bytes) -> int:
        """The number in a blinded message; cheap. Raises `TaskError` for anything else."""
        modulus, number = self.public.modulus, int.from_bytes(blinded, "big")
        if (
            len(blinded) != self.public.size
            or not 0 < number < modulus
            or math.gcd(number, modulus) != 1
        ):
            raise TaskError(
                "This is not a blinded message for this key; make it with the task's key."
            )
        return number

    def sign(self, blinded: bytes) -> bytes:
        """The answer to a blinded message: always the same one for the same message.

        The power is taken of a random multiple, with a random representative of the exponent, so
        that the time it takes says nothing about the key.
        Ensures: raises `TaskError` for anything that is not a blinded message, and if the power was
        computed wrongly.
        """
        number, public = self.check(blinded), self.public
        modulus = public.modulus
        mask = 1 + secrets.randbelow(modulus - 1)
        if math.gcd(mask, modulus) != 1:
            raise TaskError("The signature was computed wrongly; ask again.")
        exponent = self._exponent + secrets.randbits(EXPONENT_BLINDING_BITS) * self._order
        masked = number * pow(mask, EXPONENT, modulus) % modulus
        power = int(self._ring(masked) ** exponent)
        signed = power * pow(mask, -1, modulus) % modulus
        if pow(signed, EXPONENT, modulus) != number:
            raise TaskError("The signature was computed wrongly; ask again.")
        return signed.to_bytes(public.size, "big")


def pss_encode(message: bytes, salt: bytes, bits: int) -> bytes:
    """EMSA-PSS-ENCODE of RFC 8017 §9.1.1 with SHA-384 and MGF1."""
    size = (bits + 7) // 8
    digest = hashlib.sha384(message).digest()
    stamp = hashlib.sha384(bytes(8) + digest + salt).digest()
    data = b"\x01" + salt
    data = bytes(size - HASH_BYTES - 1 - len(data)) + data
    masked = bytearray(a ^ b for a, b in zip(data, _mask(stamp, len(data)), strict=True))
    masked[0] &= 0xFF >> (8 * size - bits)
    return bytes(masked) + stamp + b"\xbc"


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1 of RFC 8017 §B.2.1 with SHA-384."""
    parts = (
        hashlib.sha384(seed + counter.to_bytes(4, "big")).digest()
        for counter in range(-(-size // HASH_BYTES))
    )
    return b"".join(parts)[:size]
