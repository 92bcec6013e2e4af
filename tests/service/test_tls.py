"""The whole trio over TLS, under a certificate that only SSL_CERT_FILE makes trusted."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from logged_tasks import KEYS
from service_programs import Programs
from service_trio import COLLECTOR, OPERATOR, TRUSTING, USERS, Trio, bearing

from shuffledp.service.client.collector import enrol, register
from shuffledp.service.client.connection import trusted_certificates
from shuffledp.service.client.sending import Client
from shuffledp.service.errors import UntrustedServer
from shuffledp.service.tokens import EACH_PREFIX


def self_signed(folder: Path) -> tuple[str, str]:
    """(certificate, key) for 127.0.0.1, as files."""
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shuffledp test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "tls.pem", folder / "tls.key"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(files[0]), str(files[1])


@pytest.fixture
def trusting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The certificate's files; this program and those it starts trust it."""
    files = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", files[0])
    trusted_certificates.cache_clear()
    yield files
    trusted_certificates.cache_clear()


def test_a_batch_over_tls(
    tmp_path: Path, trusting: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = trusting
    trio = Trio(tmp_path)
    trio.shuffler_config = replace(trio.shuffler_config, tls_certificate=certificate, tls_key=key)
    trio.analyzer_config = replace(trio.analyzer_config, tls_certificate=certificate, tls_key=key)
    programs = Programs(trio, scheme="https")
    task = trio.task()

    def device(number: int) -> Client:
        box = tmp_path / f"device {number}"
        return Client(task, shuffler, tokens[number], box, policy=TRUSTING, attempts=1)

    with programs.both() as (shuffler, _):
        for role in ("analyzer", "shuffler"):
            register(task, programs.urls[role], COLLECTOR, KEYS["collector"])
        tokens = enrol(shuffler, OPERATOR, USERS, EACH_PREFIX)
        for number in range(1, USERS):
            with device(number) as client:
                client.send(1)
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.get(shuffler.replace("https", "http"))
        monkeypatch.delenv("SSL_CERT_FILE")
        trusted_certificates.cache_clear()
        with device(0) as client, pytest.raises(UntrustedServer, match="SSL_CERT_FILE"):
            client.send(1)
        with pytest.raises(UntrustedServer, match="not trusted"):
            register(task, shuffler, COLLECTOR, KEYS["collector"])
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        trusted_certificates.cache_clear()
        assert (
            httpx2.get(f"{shuffler}/status", headers=bearing(OPERATOR)).json()["tasks"][0]["have"]
            == USERS - 1
        )
        with device(0) as client:  # it could not ask for the task's proof, so nothing was stored
            client.send(1)
        programs.results(task)
