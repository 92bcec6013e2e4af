"""Oblivious HTTP agrees with the example of RFC 9458, and refuses everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import for_each

from shuffledp.errors import ParameterError
from shuffledp.service.binary_http import BinaryRequest, BinaryResponse, read_request, read_response
from shuffledp.tasks.errors import TaskError
from shuffledp.tasks.oblivious import (
    REQUEST_OVERHEAD,
    GatewayKey,
    HpkeContext,
    open_answer,
    open_request,
    seal_answer,
    seal_request,
)

ROOT = Path(__file__).resolve().parents[2]
RFC = {
    name: bytes.fromhex(text)
    for name, text in json.loads((ROOT / "vectors/rfc.json").read_text("utf-8"))["rfc9458"].items()
}
SECRET = RFC["gateway_secret"]
PUBLIC = X25519PrivateKey.from_private_bytes(SECRET).public_key().public_bytes_raw()
KEY = GatewayKey(1, PUBLIC)


def find(number: int) -> bytes | None:
    return SECRET if number == 1 else None


def test_the_example_of_rfc_9458() -> None:
    config = RFC["key_configuration"]
    assert config[: 3 + 32] == KEY.to_bytes()[: 3 + 32]  # the RFC's offers a second cipher
    ephemeral = X25519PrivateKey.from_private_bytes(RFC["ephemeral_secret"])
    sealed, context = seal_request(KEY, RFC["request"], ephemeral)
    assert sealed == RFC["encapsulated_request"]
    opened, receiving = open_request(find, sealed)
    assert opened == RFC["request"]
    assert context.export(b"message/bhttp response", 16) == RFC["exported"]
    answer = seal_answer(receiving, RFC["response"], RFC["salt"][32:])
    assert answer == RFC["encapsulated_response"]
    assert open_answer(context, answer) == RFC["response"]
    request = read_request(RFC["request"])
    assert (request.method, request.authority, request.path) == ("GET", "example.com", "/")
    assert read_response(RFC["response"]).status == 200


def test_contexts_agree_with_the_librarys_hpke() -> None:
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    private = X25519PrivateKey.from_private_bytes(SECRET)
    context = HpkeContext.sending(PUBLIC, b"info")
    assert suite.decrypt(context.enc + context.seal(b"text"), private, b"info") == b"text"
    sealed = suite.encrypt(b"text", private.public_key(), b"info")
    assert HpkeContext.receiving(SECRET, sealed[:32], b"info").open(sealed[32:]) == b"text"


def test_a_request_is_longer_by_a_fixed_number_of_bytes_and_fresh_each_time() -> None:
    first, second = (seal_request(KEY, b"request")[0] for _ in range(2))
    assert len(first) == len(second) == 7 + REQUEST_OVERHEAD
    assert first[7:] != second[7:] and first[:7] == second[:7]


@for_each(range(0, 62, 3))
def test_a_changed_request_is_refused(place: int) -> None:
    sealed = bytearray(seal_request(KEY, b"request")[0])
    sealed[place] ^= 1
    with pytest.raises(TaskError):
        open_request(find, bytes(sealed))


def test_short_requests_and_bad_keys_are_refused() -> None:
    for wrong in (b"", b"\x01", KEY.header, KEY.header + bytes(48), KEY.header + bytes(200)):
        with pytest.raises(TaskError):
            open_request(find, wrong)
    with pytest.raises(TaskError):
        seal_request(GatewayKey(1, bytes(32)), b"request")
    for text in ("", "zz", KEY.to_bytes().hex()[:-2], RFC["key_configuration"].hex()):
        with pytest.raises(TaskError):
            GatewayKey.from_hex(text)
    assert GatewayKey.from_hex(KEY.to_bytes().hex()) == KEY


def test_an_answer_opens_for_its_own_request_alone() -> None:
    sealed, context = seal_request(KEY, b"one")
    _, other = seal_request(KEY, b"two")
    answer = seal_answer(open_request(find, sealed)[1], b"answer")
    assert open_answer(context, answer) == b"answer"
    for wrong, with_context in ((answer, other), (answer[:-1], context), (b"", context)):
        with pytest.raises(TaskError):
            open_answer(with_context, wrong)


FIELDS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=20), st.binary(max_size=100)), max_size=5
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(FIELDS, st.binary(max_size=20_000), st.sampled_from([1, 512]), st.integers(200, 599))
def test_binary_http_comes_back_as_it_was(
    fields: list[tuple[bytes, bytes]], content: bytes, multiple: int, status: int
) -> None:
    request = BinaryRequest(
        method="POST", authority="a.example", path="/p", fields=fields, content=content
    )
    data = request.to_bytes(multiple)
    assert len(data) % multiple == 0 and read_request(data) == request
    response = BinaryResponse(status, fields, content)
    assert read_response(response.to_bytes(multiple)) == response


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=80))
def test_other_bytes_are_refused_in_one_sentence(data: bytes) -> None:
    for read in (read_request, read_response):
        try:
            read(data)
        except ParameterError as error:
            assert str(error).count(".") == 1 or "RFC" in str(error)


def test_padding_must_be_zeros() -> None:
    data = BinaryRequest(method="GET", authority="a", path="/").to_bytes(64)
    with pytest.raises(ParameterError):
        read_request(data[:-1] + b"\x01")
    with pytest.raises(ParameterError):
        read_request(data[:3])
