"""Groups of settings that are passed on: to Kafka's clients, the schema registry's client, Spark, and processors."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.core import config_values as values
from hayase.core.config_keys import CLIENT_KEYS
from hayase.core.kafka_security import check_security, is_security_key
from hayase.core.secrets import Settings, check_references

CLIENTS: dict[str, str] = {
    "consumer.": "consumer_properties",
    "main.consumer.": "consumer_properties",
    "producer.": "producer_properties",
    "admin.": "admin_properties",
}
"""Attribute of `StreamsConfig` for one Kafka client's settings, by prefix."""
REGISTRY_PREFIX = "schema.registry."
OWN_PREFIX = "app."
"""Of settings that mean nothing to Hayase: processors read them."""
REGISTRY_KEYS = (
    "auto.register.schemas",
    "avro.empty.items.max",
    "key.subject.name.strategy",
    "normalize.schemas",
    "use.latest.version",
    "value.subject.name.strategy",
)


class Groups:
    """Collects the settings of groups, one by one."""

    def __init__(self) -> None:
        self._common: dict[str, str] = {}
        self._spark: dict[str, str] = {}
        self._registry: dict[str, object] = {}
        self._own: dict[str, object] = {}
        self._clients: dict[str, dict[str, str]] = {name: {} for name in CLIENTS.values()}

    def take(self, key: str, value: object) -> bool:
        """Keep the setting if it belongs to one of the groups."""
        if key.startswith("spark."):
            self._spark[key] = values.spark_master(key, value) if key == "spark.master" else _as_text(value)
        elif key.startswith(OWN_PREFIX):
            self._own[key] = value
        elif key.startswith(REGISTRY_PREFIX) or key in REGISTRY_KEYS:
            self._registry[key.removeprefix(REGISTRY_PREFIX)] = value
        elif key in CLIENT_KEYS:
            self._common[CLIENT_KEYS[key]] = _as_text(value)
        elif is_security_key(key):
            self._common[key] = _as_text(value)
        elif (prefix := next((each for each in CLIENTS if key.startswith(each)), None)) is not None:
            self._clients[CLIENTS[prefix]][key.removeprefix(prefix)] = _as_text(value)
        else:
            return False
        return True

    def properties(self) -> dict[str, Mapping[str, str]]:
        """By attribute; what is said for one client wins over what is said for all. Raises ConfigError."""
        properties: dict[str, Mapping[str, str]] = {
            name: Settings({**self._common, **own}) for name, own in self._clients.items()
        }
        for client in properties.values():
            check_security(client)
        check_references(self._registry)
        check_references(self._own)
        properties["own_properties"] = Settings(self._own)
        properties["schema_registry"] = Settings(self._registry)
        properties["spark_properties"] = Settings(self._spark)
        return properties


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
