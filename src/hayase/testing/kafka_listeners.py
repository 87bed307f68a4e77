"""Listeners of the broker for tests that ask for TLS or a password."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hayase.testing.servers import HOST

Protocol = Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class SecureListener:
    """One more address of a `KafkaBroker`.

    Attributes:
        name: letters in capitals, another one for each listener.
        protocol: what clients call `security.protocol`.
        key_store: PEM file with the broker's private key (PKCS8) and its certificates; for TLS.
        trust_store: PEM file with the authorities of clients: given, a client must show a certificate (mutual TLS).
        users: passwords by user name, for SASL: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. Letters, digits and dashes.
    """

    name: str
    protocol: Protocol
    key_store: Path | None = None
    trust_store: Path | None = None
    users: Mapping[str, str] = field(default_factory=dict)

    def properties(self) -> dict[str, str]:
        """What the broker's configuration says about it."""
        prefix = f"listener.name.{self.name.lower()}"
        properties: dict[str, str] = {}
        if self.key_store is not None:
            properties |= {f"{prefix}.ssl.keystore.type": "PEM", f"{prefix}.ssl.keystore.location": str(self.key_store)}
        if self.trust_store is not None:
            properties |= {
                f"{prefix}.ssl.truststore.type": "PEM",
                f"{prefix}.ssl.truststore.location": str(self.trust_store),
                f"{prefix}.ssl.client.auth": "required",
            }
        if self.users:
            plain = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
            properties[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(("PLAIN", *SCRAM))
            properties[f"{prefix}.plain.sasl.jaas.config"] = f"{_MODULES}.plain.PlainLoginModule required {plain};"
            for mechanism in SCRAM:
                key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
                properties[key] = f"{_MODULES}.scram.ScramLoginModule required;"
        return properties

    def format_options(self) -> list[str]:
        """Options for the command that formats the broker's folder: the users of SCRAM."""
        return [
            option
            for user, password in self.users.items()
            for mechanism in SCRAM
            for option in ("--add-scram", f"{mechanism}=[name={user},password={password}]")
        ]


def listener_properties(plain: int, controller: int, secure: Sequence[tuple[SecureListener, int]]) -> dict[str, str]:
    """The broker's configuration of its listeners.

    Args:
        plain: port of the listener that asks for nothing.
        controller: port of the controller.
        secure: the others, with their ports.
    """
    addresses = [f"PLAINTEXT://{HOST}:{plain}", *(f"{each.name}://{HOST}:{port}" for each, port in secure)]
    protocols = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{each.name}:{each.protocol}" for each, _ in secure)]
    properties = {
        "listeners": ",".join([*addresses, f"CONTROLLER://{HOST}:{controller}"]),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(protocols),
    }
    for each, _ in secure:
        properties |= each.properties()
    return properties
