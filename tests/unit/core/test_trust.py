"""The machine's certificate authorities for Java."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from hayase.core.trust import java_key_store, trust_options


def test_a_key_store_has_the_layout_of_the_format() -> None:
    store = java_key_store([b"certificate"])
    head = bytes.fromhex("feedfeed 00000002 00000001 00000002 0004") + b"ca-0"
    assert store.startswith(head + bytes(8) + b"\x00\x05X.509" + b"\x00\x00\x00\x0bcertificate")
    assert len(store) == len(head) + 8 + 7 + 4 + 11 + 20  # 20: the checksum


def test_without_known_authorities_java_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    assert trust_options(tmp_path / "trust.jks") == []
    assert not (tmp_path / "trust.jks").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs Java's keytool")
def test_java_reads_every_certificate_of_the_key_store(tmp_path: Path) -> None:
    count = len(ssl.create_default_context().get_ca_certs())
    if count == 0:
        pytest.skip("this machine has no certificate authorities")
    trust_options(tmp_path / "trust.jks")
    listed = subprocess.run(
        ["keytool", "-list", "-keystore", tmp_path / "trust.jks", "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.count("trustedCertEntry") == count
