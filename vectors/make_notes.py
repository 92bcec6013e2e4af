"""Makes vectors/notes.json: checkpoints and cosignatures of the log of tasks.

    python vectors/make_notes.py

The signatures come from `cryptography` and the lines are written here, from the texts of
c2sp.org/signed-note, tlog-checkpoint and tlog-cosignature, without code of the package.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ORIGIN = "statistics.example/tasks"
ROOT = hashlib.sha256(b"a root").digest()
LOG = Ed25519PrivateKey.from_private_bytes(b"\x10" * 32)
WITNESSES = {
    f"witness{number}.example": Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    for number in (1, 2, 3)
}
SPECIFICATION = {
    "vkey": "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
    "checkpoint": "example.com/behind-the-sofa\n20852163\n"
    "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/"
    "Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2"
    "oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n",
}
"""The examples of the specifications."""


def encoded(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


def key_id(name: str, kind: int, key: Ed25519PrivateKey) -> bytes:
    """The id of a key."""
    public = key.public_key().public_bytes_raw()
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:4]


def vkey(name: str, kind: int, key: Ed25519PrivateKey) -> str:
    """A verifier key."""
    raw = bytes([kind]) + key.public_key().public_bytes_raw()
    return f"{name}+{key_id(name, kind, key).hex()}+{encoded(raw)}"


def body(size: int = 70, root: bytes = ROOT, origin: str = ORIGIN) -> str:
    """The text of a checkpoint."""
    return f"{origin}\n{size}\n{encoded(root)}\n"


def log_line(text: str, key: Ed25519PrivateKey = LOG) -> str:
    """The signature line of the log."""
    return f"— {ORIGIN} {encoded(key_id(ORIGIN, 1, key) + key.sign(text.encode()))}\n"


def witness_line(name: str, text: str, seconds: int = 1_800_000_000) -> str:
    """The cosignature line of a witness."""
    signed = WITNESSES[name].sign(f"cosignature/v1\ntime {seconds}\n{text}".encode())
    value = key_id(name, 4, WITNESSES[name]) + seconds.to_bytes(8, "big") + signed
    return f"— {name} {encoded(value)}\n"


def cases() -> dict[str, tuple[str, int | None]]:
    """Notes by name, with the number of witnesses that cosigned, or None if refused."""
    text, (one, two, three) = body(), WITNESSES
    log, other = log_line(text), body(71)
    stranger = Ed25519PrivateKey.from_private_bytes(b"\x77" * 32)
    wrong = witness_line(one, other)
    return {
        "the log alone": (f"{text}\n{log}", 0),
        "one witness": (f"{text}\n{log}{witness_line(one, text)}", 1),
        "all witnesses": (f"{text}\n{log}" + "".join(witness_line(w, text) for w in WITNESSES), 3),
        "the same witness twice": (
            f"{text}\n{log}{witness_line(two, text)}{witness_line(two, text, 1_800_000_001)}",
            1,
        ),
        "an unknown key beside": (
            f"{text}\n{log}{log_line(text, stranger)}{witness_line(three, text)}",
            1,
        ),
        "empty log": (f"{body(0)}\n{log_line(body(0))}", 0),
        "cosignature of another size": (f"{text}\n{log}{wrong}", None),
        "not signed by the log": (f"{text}\n{witness_line(one, text)}", None),
        "signed by a stranger": (f"{text}\n{log_line(text, stranger)}", None),
        "another size": (f"{other}\n{log}", None),
        "no signature": (f"{text}\n", None),
        "no blank line": (f"{text}{log}", None),
        "a leading zero": (text.replace("\n70\n", "\n070\n") + f"\n{log}", None),
        "an extension line": (f"{text}more\n\n{log}", None),
        "a hyphen for the dash": (f"{text}\n{log}".replace("—", "-"), None),
        "no last newline": (f"{text}\n{log}".rstrip("\n"), None),
        "a short root": (f"{body(70, ROOT[:31])}\n{log_line(body(70, ROOT[:31]))}", None),
    }


def vectors() -> dict[str, Any]:
    """All vectors."""
    witnesses = [vkey(name, 4, key) for name, key in WITNESSES.items()]
    log = vkey(ORIGIN, 1, LOG)
    keys = [SPECIFICATION["vkey"], log, *witnesses]
    return {
        "specification": SPECIFICATION,
        "keys": [{"vkey": one, "id": one.split("+")[1]} for one in keys],
        "checkpoints": [
            {"name": name, "note": note, "log": log, "witnesses": witnesses, "cosigned": cosigned}
            for name, (note, cosigned) in cases().items()
        ],
    }


if __name__ == "__main__":
    file = Path(__file__).with_name("notes.json")
    file.write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n", "utf-8")
