"""Writes tokens.json: a task with an issuer, and a one-time token for it, step by step.

The steps follow docs/protocol.md §17 and the RFCs in plain arithmetic, without code of the package;
only the task is made by it. The issuer's key is that of the vectors in RFC 9578, so it is public.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from shuffledp.queries.count.planner import plan_count
from shuffledp.tasks.keys import PublicKey
from shuffledp.tasks.task import Task
from shuffledp.tasks.tokens import IssuerKey, TokenIssuer

HERE = Path(__file__).resolve().parent
ISSUER, SHUFFLER = "https://issuer.example:8443/tokens", "https://shuffler.example/survey"


def bytes_of(name: str, size: int) -> bytes:
    """So many bytes that follow from a name."""
    return hashlib.shake_256(f"shuffledp tokens {name}".encode()).digest(size)


def task(key: bytes) -> Task:
    """A count whose reports carry one-time tokens."""
    analyzer = PublicKey(1, 1, bytes_of("analyzer", 32))
    return Task.create(
        plan_count(100, 1, cell="bounded", padded=True).to_dict(),
        analyzer,
        "tokens",
        shuffler=SHUFFLER,
        issuer=TokenIssuer(ISSUER, IssuerKey(key), True),
        not_before=0,
        expires=253_402_300_799,
    )


def masked(data: bytes, seed: bytes) -> bytes:
    """data xor MGF1(seed) with SHA-384."""
    count = -(-len(data) // 48)
    mask = b"".join(hashlib.sha384(seed + bytes([0, 0, 0, i])).digest() for i in range(count))
    return bytes(a ^ b for a, b in zip(data, mask, strict=False))


def encoded(message: bytes, salt: bytes) -> int:
    """EMSA-PSS-ENCODE for a modulus of 2,048 bits, as a number."""
    stamp = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = masked(bytes(256 - 48 - 2 - len(salt)) + b"\x01" + salt, stamp)
    return int.from_bytes(bytes([block[0] & 0x7F]) + block[1:] + stamp + b"\xbc", "big")


def vector() -> dict[str, Any]:
    """All steps of one token."""
    case = json.loads((HERE / "rfc.json").read_text("utf-8"))["rfc9578"][0]
    loaded = load_pem_private_key(bytes.fromhex(case["skS"]), None)
    assert isinstance(loaded, RSAPrivateKey)
    numbers, key = loaded.private_numbers(), bytes.fromhex(case["pkS"])
    n, d = numbers.public_numbers.n, numbers.d
    made = task(key)
    names = b"issuer.example:8443", b"shuffler.example"
    challenge = (
        b"\0\2" + len(names[0]).to_bytes(2, "big") + names[0] + b"\x20" + made.id
        + len(names[1]).to_bytes(2, "big") + names[1]
    )  # fmt: skip
    nonce, salt = bytes_of("nonce", 32), bytes_of("salt", 48)
    blind = int.from_bytes(bytes_of("blind", 256), "big") % n
    key_id = hashlib.sha256(key).digest()
    token_input = b"\0\2" + nonce + hashlib.sha256(challenge).digest() + key_id
    blinded = encoded(token_input, salt) * pow(blind, 65537, n) % n
    answer = pow(blinded, d, n)
    signature = answer * pow(blind, -1, n) % n
    raw = token_input + signature.to_bytes(256, "big")
    return {
        "about": "A one-time token, step by step (docs/protocol.md §17); made by make_tokens.py.",
        "task": made.canonical().decode(),
        "id": made.id.hex(),
        "issuer_secret_key": case["skS"],
        "challenge": challenge.hex(),
        "nonce": nonce.hex(),
        "salt": salt.hex(),
        "blind": f"{blind:0512x}",
        "input": token_input.hex(),
        "request": (b"\0\2" + key_id[-1:] + blinded.to_bytes(256, "big")).hex(),
        "answer": f"{answer:0512x}",
        "token": "task-" + base64.urlsafe_b64encode(raw).decode(),
        "spent": hashlib.sha256(token_input).hexdigest(),
    }


if __name__ == "__main__":
    (HERE / "tokens.json").write_text(json.dumps(vector(), indent=1) + "\n", "utf-8")
