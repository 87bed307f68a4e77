"""The registry for tests, over https."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hayase.core.errors import SchemaRegistryError
from hayase.serde.registry import SchemaRegistry
from hayase.testing import SchemaRegistryServer


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return files


def test_a_certificate_that_is_trusted_is_accepted(certificate: tuple[Path, Path]) -> None:
    with SchemaRegistryServer(certificate=certificate[0], key=certificate[1]) as server:
        assert SchemaRegistry(server.url, {"ssl.ca.location": str(certificate[0])}).subjects() == []


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: tuple[Path, Path]) -> None:
    server = SchemaRegistryServer(certificate=certificate[0], key=certificate[1])
    with server, pytest.raises(SchemaRegistryError, match="certificate") as found:
        SchemaRegistry(server.url, {"max.retries": 0}).subjects()
    assert found.value.condition == "SCHEMA_REGISTRY_UNREACHABLE"
