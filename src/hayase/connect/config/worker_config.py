"""The configuration of a worker: keys of Kafka Connect's distributed worker that act here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, non_empty, one_of

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def worker_config_def() -> ConfigDef:
    """The keys."""
    return (
        ConfigDef()
        .define(
            "group.id", ConfigType.STRING, "connect-cluster", non_empty, _HIGH,
            "Name of the worker: connectors, offsets and markers belong to it.",
        )
        .define(
            "key.converter", ConfigType.CLASS, "org.apache.kafka.connect.json.JsonConverter", None, _HIGH,
            "Converter of keys of connectors that name none.",
        )
        .define(
            "value.converter", ConfigType.CLASS, "org.apache.kafka.connect.json.JsonConverter", None, _HIGH,
            "Converter of values of connectors that name none.",
        )
        .define(
            "header.converter", ConfigType.CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", None, _LOW,
            "Converter of headers of connectors that name none.",
        )
        .define(
            "config.storage.topic", ConfigType.STRING, "connect-configs", non_empty, _HIGH,
            "Topic of connectors' configurations.",
        )
        .define(
            "offset.storage.topic", ConfigType.STRING, "connect-offsets", non_empty, _HIGH,
            "Topic of source connectors' offsets.",
        )
        .define(
            "offset.storage.partitions", ConfigType.INT, 25, at_least(1), _LOW,
            "Partitions of that topic when it is made.",
        )
        .define(
            "status.storage.topic", ConfigType.STRING, "connect-status", non_empty, _HIGH,
            "Topic of states of connectors and tasks.",
        )
        .define(
            "status.storage.partitions", ConfigType.INT, 5, at_least(1), _LOW,
            "Partitions of that topic when it is made.",
        )
        .define(
            "offset.flush.interval.ms", ConfigType.LONG, 60_000, at_least(1), _LOW,
            "How often sinks commit offsets, and the interval of transaction.boundary=interval.",
        )
        .define(
            "task.shutdown.graceful.timeout.ms", ConfigType.LONG, 5_000, at_least(0), _LOW,
            "How long a task may take to stop before the worker goes on without it; it is fenced in any case.",
        )
        .define(
            "plugin.path", ConfigType.LIST, [], None, _LOW,
            "Folders of connectors, transforms, predicates and converters: Python files and packages.",
        )
        .define(
            "topic.creation.enable", ConfigType.BOOLEAN, True, None, _LOW,
            "Whether topic.creation.… of source connectors acts.",
        )
        .define(
            "topic.tracking.enable", ConfigType.BOOLEAN, True, None, _LOW,
            "Whether the worker keeps which topics a connector uses.",
        )
        .define(
            "topic.tracking.allow.reset", ConfigType.BOOLEAN, True, None, _LOW,
            "Whether that may be reset.",
        )
        .define(
            "connector.client.config.override.policy", ConfigType.STRING, "All",
            one_of("All", "None", "Principal", "Allowlist"), _MEDIUM,
            "Which producer.override.… and consumer.override.… a connector may give.",
        )
        .define(
            "connector.client.config.allowlist", ConfigType.LIST, [], None, _LOW,
            "Those that the policy Allowlist allows.",
        )
        .define(
            "listeners", ConfigType.LIST, ["http://127.0.0.1:8083"], None, _LOW,
            "Where the REST interface listens.",
        )
        .define(
            "rest.advertised.host.name", ConfigType.STRING, None, None, _LOW,
            "The host that worker_id names.",
        )
        .define(
            "rest.advertised.port", ConfigType.INT, None, None, _LOW,
            "The port that worker_id names.",
        )
        .define(
            "rest.basic.auth.file", ConfigType.STRING, None, None, _MEDIUM,
            "A properties file of users and passwords that the REST interface asks for.",
        )
        .define(
            "rest.request.max.bytes", ConfigType.INT, 1 << 20, at_least(1), _LOW,
            "The largest body of a request.",
        )
        .define(
            "ssl.certificate", ConfigType.STRING, None, None, _MEDIUM,
            "Certificate of https listeners, a PEM file.",
        )
        .define(
            "ssl.key", ConfigType.STRING, None, None, _MEDIUM,
            "Its private key, a PEM file.",
        )
    )  # fmt: skip


class WorkerConfig(TypedConfig):
    """A worker's configuration.

    Example:
        >>> WorkerConfig({"group.id": "shop"}).string("offset.storage.topic")
        'connect-offsets'
    """

    def __init__(self, props: Mapping[str, str]) -> None:
        super().__init__(worker_config_def(), props)
        self.props = dict(props)

    @property
    def group(self) -> str:
        """The worker's `group.id`."""
        return self.string("group.id")

    @property
    def plugin_folders(self) -> list[Path]:
        """The folders of `plugin.path`."""
        return [Path(each).expanduser() for each in self.list("plugin.path")]

    def converter_props(self, kind: str) -> dict[str, object]:
        """What `key.converter.…`, `value.converter.…` or `header.converter.…` say for the worker's own converter."""
        return self.with_prefix(f"{kind}.")
