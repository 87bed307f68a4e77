"""`producer.override.…` and `consumer.override.…`: which a connector may give, and what they are for the log."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.connect.config.worker_config import WorkerConfig
from hayase.core.errors import ConfigError

PREFIXES = {"source": "producer.override.", "sink": "consumer.override."}
POLL_RECORDS = "consumer.override.max.poll.records"
_PRINCIPAL = frozenset(("sasl.jaas.config", "sasl.mechanism", "security.protocol"))
_HANDLED = ("auto.offset.reset", "max.poll.records", "group.id")
"""Overrides that the loops of sinks act on themselves."""
_ALWAYS = ("isolation.level", "read_committed")
"""What a consumer is, so that it may be said."""


class ClientOverrides:
    """What the worker's `connector.client.config.override.policy` allows.

    Args:
        config: of the worker.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._policy = config.string("connector.client.config.override.policy")
        self._allowed = {
            "None": frozenset[str](),
            "Principal": _PRINCIPAL,
            "Allowlist": frozenset(config.list("connector.client.config.allowlist")),
        }.get(self._policy)

    def errors(self, props: Mapping[str, str], kind: str) -> dict[str, str]:
        """What is wrong with the overrides of a configuration, by key.

        Args:
            props: configuration of the connector.
            kind: `source` or `sink`.
        """
        prefix = PREFIXES[kind]
        found = {
            prefix + name: f"the worker's connector.client.config.override.policy is {self._policy}, which does not "
            f"allow {prefix}{name}"
            for name in _given(props, prefix)
            if self._allowed is not None and name not in self._allowed
        }
        records = props.get(POLL_RECORDS)
        if kind == "sink" and records is not None and not (records.strip().isascii() and records.strip().isdigit()):
            found[POLL_RECORDS] = f"Invalid value {records} for configuration {POLL_RECORDS}: Not a number of type INT"
        return found

    def options(self, props: Mapping[str, str], kind: str) -> dict[str, str]:
        """The overrides of a connector as options of the log, arguments as those of `errors`.

        Raises:
            ConfigError: `OVERRIDE_NOT_ALLOWED`.
        """
        for name, message in self.errors(props, kind).items():
            raise ConfigError("OVERRIDE_NOT_ALLOWED", message, setting=name)
        prefix = PREFIXES[kind]
        client = prefix.partition(".")[0]
        return {
            f"{client}.{name}": value
            for name, value in _given(props, prefix).items()
            if name not in _HANDLED and (name, value) != _ALWAYS
        }


def _given(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in props.items() if name.startswith(prefix)}
