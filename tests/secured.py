"""A broker that asks for TLS and passwords, and what its clients need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.certificates import Authority, Identity

from hayase.testing.kafka_broker import PATIENT, KafkaBroker
from hayase.testing.kafka_listeners import SecureListener

USER, PASSWORD = "ada", "swordfish-in-clear-7"


@dataclass(frozen=True)
class Secured:
    """Its listeners: TLS, MUTUAL (TLS with client certificates), SASL (TLS and a password), OPEN (password, no TLS)."""

    broker: KafkaBroker
    authority: Authority
    client: Identity

    def address(self, name: str) -> str:
        return self.broker.address_of(name)

    def password_settings(self, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """Of a client of SASL, under librdkafka's names."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.file),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
        }


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    authority = Authority(folder / "authority", "The Authority")
    own, client = authority.identity("broker"), authority.identity("client")
    users = {USER: PASSWORD}
    listeners = [
        SecureListener("TLS", "SSL", own.both),
        SecureListener("MUTUAL", "SSL", own.both, authority.file),
        SecureListener("SASL", "SASL_SSL", own.both, users=users),
        SecureListener("OPEN", "SASL_PLAINTEXT", users=users),
    ]
    with KafkaBroker(
        folder / "broker", secure=listeners, heap_mb=256, extra_config=PATIENT, start_timeout_s=600
    ) as broker:
        yield Secured(broker, authority, client)
