"""An authority, and certificates that it signs, as PEM and PKCS12 files."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Identity:
    """A private key with its certificate.

    Attributes:
        key: PEM.
        certificate: PEM.
        both: PEM, the key first.
        pkcs12: both, behind `password`.
    """

    key: Path
    certificate: Path
    both: Path
    pkcs12: Path
    password: str


class Authority:
    """Signs certificates for 127.0.0.1 and for clients."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._signed = _certificate(self._name, self._name, self._key, self._key, authority=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(self._signed.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str, password: str = "keep out") -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _certificate(_name(name), self._name, key, self._key, authority=False)
        pem = signed.public_bytes(serialization.Encoding.PEM)
        form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        key_pem = key.private_bytes(serialization.Encoding.PEM, form, none)
        packed = pkcs12.serialize_key_and_certificates(
            name.encode(), key, signed, [self._signed], serialization.BestAvailableEncryption(password.encode())
        )
        made = Identity(*(self._folder / f"{name}{end}" for end in (".key", ".crt", ".pem", ".p12")), password)
        made.key.write_bytes(key_pem)
        made.certificate.write_bytes(pem)
        made.both.write_bytes(key_pem + pem)
        made.pkcs12.write_bytes(packed)
        return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: Key, signer: Key, *, authority: bool) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(signer, hashes.SHA256())
    )
