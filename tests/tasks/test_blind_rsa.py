"""Blind signatures and tokens agree with the published vectors of RFC 9474 and RFC 9578."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chi2 import p_value
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from rows import for_each

from shuffledp.tasks.blind_rsa import EXPONENT, BlindPrivateKey, BlindPublicKey
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.task import task_from_json
from shuffledp.tasks.tokens import (
    IssuerKey,
    TaskToken,
    TokenRequest,
    challenge,
    read_request,
    task_challenge,
)

ROOT = Path(__file__).resolve().parents[2]
VECTORS = json.loads((ROOT / "vectors" / "rfc.json").read_text("utf-8"))


def number(text: str) -> int:
    return int(text, 16)


@for_each(VECTORS["rfc9474"], lambda vector: vector["name"])
def test_vectors_of_rfc_9474(vector: dict[str, str]) -> None:
    private = BlindPrivateKey(number(vector["p"]), number(vector["q"]))
    key = private.public
    assert key.modulus == number(vector["n"]) and number(vector["e"]) == EXPONENT
    message, salt = bytes.fromhex(vector["prepared_msg"]), bytes.fromhex(vector["salt"])
    inverse = number(vector["inv"])
    blinded, found = key.blind(message, salt=salt, blinding=pow(inverse, -1, key.modulus))
    assert blinded.hex() == vector["blinded_msg"] and found == inverse
    answer = private.sign(blinded)
    assert answer.hex() == vector["blind_sig"]
    assert key.finalize(message, answer, inverse, len(salt)).hex() == vector["sig"]


def issuer(vector: dict[str, str]) -> BlindPrivateKey:
    loaded = load_pem_private_key(bytes.fromhex(vector["skS"]), None)
    assert isinstance(loaded, RSAPrivateKey)
    numbers = loaded.private_numbers()
    return BlindPrivateKey(numbers.p, numbers.q)


@for_each(VECTORS["rfc9578"])
def test_vectors_of_rfc_9578_type_2(vector: dict[str, str]) -> None:
    private, key = issuer(vector), IssuerKey.from_hex(vector["pkS"])
    assert key == IssuerKey.of(private.public.modulus)
    asked = bytes.fromhex(vector["token_challenge"])
    request = TokenRequest.make(
        key,
        asked,
        nonce=bytes.fromhex(vector["nonce"]),
        salt=bytes.fromhex(vector["salt"]),
        blinding=number(vector["blind"]),
    )
    assert request.to_bytes().hex() == vector["token_request"]
    answer = private.sign(read_request(request.to_bytes(), key))
    assert answer.hex() == vector["token_response"]
    token = request.finish(answer)
    assert (token.token_input + token.signature).hex() == vector["token"]
    assert token.valid(key, asked) and TaskToken.from_text(token.text) == token


def test_a_challenge_is_written_as_in_rfc_9577() -> None:
    """The first vector's challenge: issuer.example, a context of 32 bytes, origin.example."""
    asked = bytes.fromhex(VECTORS["rfc9578"][0]["token_challenge"])
    context = asked[19:51]
    assert challenge("issuer.example", context, "origin.example") == asked


@cache
def example() -> tuple[BlindPrivateKey, IssuerKey]:
    private = issuer(VECTORS["rfc9578"][0])
    return private, IssuerKey.of(private.public.modulus)


def fresh(asked: bytes = b"asked") -> tuple[TokenRequest, TaskToken]:
    private, key = example()
    request = TokenRequest.make(key, asked)
    return request, request.finish(private.sign(request.blinded))


def test_a_token_counts_for_its_own_challenge_and_key_alone() -> None:
    _, key = example()
    _, token = fresh()
    assert token.valid(key, b"asked")
    assert not token.valid(key, b"another task")
    other = IssuerKey.of(key.blind.modulus - 2)
    assert not token.valid(other, b"asked")


@pytest.mark.parametrize("place", [0, 5, 40, 70, 100, 353])
def test_a_changed_token_is_not_valid(place: int) -> None:
    _, key = example()
    _, token = fresh()
    raw = bytearray(token.token_input + token.signature)
    raw[place] ^= 1
    assert not TaskToken(bytes(raw[:98]), bytes(raw[98:])).valid(key, b"asked")


def test_a_signature_plus_the_modulus_is_not_a_second_token() -> None:
    """Nor can one token be written in two ways, so that it would count twice."""
    _, key = example()
    _, token = fresh()
    longer = int.from_bytes(token.signature, "big") + key.blind.modulus
    if longer < 1 << 2048:
        changed = TaskToken(token.token_input, longer.to_bytes(256, "big"))
        assert not changed.valid(key, b"asked")
    text = token.text
    for other in (
        text + "=",
        text + "\n",
        text.replace("task-", "each-"),
        f"{text[:9]} {text[9:]}",
    ):
        with pytest.raises(TaskError):
            TaskToken.from_text(other)


@pytest.mark.parametrize("blinded", [bytes(256), b"\xff" * 256, b"\x01" * 255, b""])
def test_the_issuer_signs_blinded_messages_only(blinded: bytes) -> None:
    with pytest.raises(TaskError):
        example()[0].sign(blinded)


def test_an_invalid_signature_is_refused() -> None:
    private, key = example()
    request = TokenRequest.make(key, b"asked")
    answer = bytearray(private.sign(request.blinded))
    answer[-1] ^= 1
    for wrong in (bytes(answer), bytes(255), b"\xff" * 256):
        with pytest.raises(TaskError):
            request.finish(wrong)


def test_another_request_is_refused() -> None:
    _, key = example()
    body = TokenRequest.make(key, b"asked").to_bytes()
    for wrong in (body[:-1], b"\x00\x01" + body[2:], body[:2] + bytes([body[2] ^ 1]) + body[3:]):
        with pytest.raises(TaskError):
            read_request(wrong, key)


@pytest.mark.parametrize("change", ["", "00", "zz"])
def test_other_keys_are_refused(change: str) -> None:
    text = example()[1].spki.hex()
    wrong: Any = {"": "", "00": text.replace("0203010001", "0203010003"), "zz": "zz" + text[2:]}
    with pytest.raises(TaskError):
        IssuerKey.from_hex(wrong[change])


@pytest.mark.attack("an issuer and a shuffler that compare requests with tokens")
def test_every_token_explains_every_request() -> None:
    """The issuer's view is independent of the token: for any request and any token there is exactly
    one blinding under which the request would have led to that token, so that all are equally
    likely. (Without blinding there would be one token only.)"""
    _, key = example()
    modulus = key.blind.modulus
    pairs = [fresh() for _ in range(3)]
    private = example()[0]
    for request, _ in pairs:
        answer = int.from_bytes(private.sign(request.blinded), "big")
        for _, token in pairs:
            signature = int.from_bytes(token.signature, "big")
            blinding = answer * pow(signature, -1, modulus) % modulus
            encoded = pow(signature, EXPONENT, modulus)
            explained = encoded * pow(blinding, EXPONENT, modulus) % modulus
            assert explained == int.from_bytes(request.blinded, "big")


def uniform(views: list[bytes], modulus: int) -> float:
    """The p-value of requests being uniform below the modulus, by which sixteenth they lie in."""
    places = np.array([16 * int.from_bytes(view, "big") // modulus for view in views])
    return p_value(places, [1 / 16] * 16)


def test_the_issuers_view_of_one_message_is_uniform_and_without_blinding_it_is_not() -> None:
    key: BlindPublicKey = example()[1].blind
    salt, message = bytes(48), b"the same message"
    views = [key.blind(message, salt=salt)[0] for _ in range(800)]
    assert len(set(views)) == 800 and uniform(views, key.modulus) > 1e-6
    unblinded = [key.blind(message, salt=salt, blinding=1)[0] for _ in range(800)]
    assert uniform(unblinded, key.modulus) < 1e-6  # the twin


def test_the_token_of_a_task_is_that_of_the_vectors() -> None:
    case = json.loads((ROOT / "vectors" / "tokens.json").read_text("utf-8"))
    task = task_from_json(case["task"], bytes.fromhex(case["id"]))
    assert task.issuer is not None and task.issuer.attested
    private = issuer({"skS": case["issuer_secret_key"]})
    assert task_challenge(task).hex() == case["challenge"]
    request = TokenRequest.make(
        task.issuer.key,
        task_challenge(task),
        nonce=bytes.fromhex(case["nonce"]),
        salt=bytes.fromhex(case["salt"]),
        blinding=number(case["blind"]),
    )
    assert request.token_input.hex() == case["input"]
    assert request.to_bytes().hex() == case["request"]
    answer = private.sign(request.blinded)
    assert answer.hex() == case["answer"]
    token = request.finish(answer)
    assert token.text == case["token"] and token.name.hex() == case["spent"]
