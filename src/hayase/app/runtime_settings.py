"""Settings of a shared runtime and of its topologies: which belong where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]*")
_ID = "application.id"
_CHECKPOINT = "checkpoint.dir"

OF_TOPOLOGIES = frozenset(
    {
        "auto.offset.reset",
        "commit.interval.ms",
        "default.dsl.store",
        "default.key.serde",
        "default.timestamp.extractor",
        "default.value.serde",
        "deserialization.exception.handler",
        "dsl.store.suppliers.class",
        "ensure.explicit.internal.resource.naming",
        "errors.dead.letter.queue.topic.name",
        "max.poll.interval.ms",
        "max.records.per.epoch",
        "max.task.idle.ms",
        "metadata.max.age.ms",
        "num.bundles",
        "num.standby.replicas",
        "processing.exception.handler",
        "processing.form",
        "processing.guarantee",
        "processing.log.rows.include",
        "processing.log.topic.name",
        "production.exception.handler",
        "repartition.purge.interval.ms",
        "source.range.lost",
        "state.history.retention.ms",
        "state.snapshot.deltas.max",
        "state.snapshot.min.bytes",
        "state.snapshot.restore.max.ms",
        "statestore.cache.max.bytes",
        "topology.optimization",
    }
)
"""Settings of one topology, beside those that begin with `app.`; all others belong to the runtime."""


def is_of_topologies(key: str) -> bool:
    """Whether a setting belongs to one topology."""
    return key in OF_TOPOLOGIES or str(key).startswith("app.")  # what is no text is named as an unknown setting


def check_runtime_settings(settings: Mapping[str, object]) -> StreamsConfig:
    """The settings of a runtime, checked.

    Raises:
        ConfigError: `SETTING_OF_TOPOLOGY`: one belongs to a topology; others as StreamsConfig raises them.
    """
    for key in settings:
        if is_of_topologies(key):
            raise ConfigError(
                "SETTING_OF_TOPOLOGY",
                f"{key} is a setting of one topology: give it to add_topology(name, topology, settings)",
                setting=key,
            )
    return StreamsConfig(settings)


def topology_config(
    runtime: Mapping[str, object], name: str, settings: Mapping[str, object], application_id: str | None
) -> StreamsConfig:
    """The settings of a topology: the runtime's, its own, and its `application.id`.

    Raises:
        ConfigError: `INVALID_NAME`; `SETTING_OF_RUNTIME`: one belongs to the runtime; others as StreamsConfig raises
            them.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            "INVALID_NAME",
            f"{name!r} is no name of a topology: letters, digits, '_' and '.', with no '-' in it, because the "
            "topology's application.id is <runtime>-<name> and must be read in one way only",
        )
    own = application_id if application_id is not None else f"{runtime[_ID]}-{name}"
    merged = {key: value for key, value in runtime.items() if not key.startswith("metrics.p")}
    if _CHECKPOINT in runtime:
        merged[_CHECKPOINT] = folder_in(str(runtime[_CHECKPOINT]), own)
    config = StreamsConfig({**merged, **settings, _ID: own})  # it knows best what is no setting at all
    for key in settings:
        if not is_of_topologies(key):
            raise ConfigError(
                "SETTING_OF_RUNTIME",
                f"{key} is a setting of the whole runtime: give it to StreamsRuntime(settings); topologies have "
                f"{', '.join(sorted(OF_TOPOLOGIES))} and app.*",
                setting=key,
            )
    return config


def own_config(runtime: Mapping[str, object]) -> StreamsConfig:
    """The settings by which the runtime keeps what it has itself."""
    config = dict(runtime)
    if _CHECKPOINT in runtime:
        config[_CHECKPOINT] = folder_in(str(runtime[_CHECKPOINT]), str(runtime[_ID]))
    return StreamsConfig(config)


def folder_in(location: str, name: str) -> str:
    """A folder inside a location, which may be a URL with a query.

    Example:
        >>> folder_in("s3://bucket/all?region=eu", "shop-a"), folder_in("/data", "shop-a")
        ('s3://bucket/all/shop-a?region=eu', '/data/shop-a')
    """
    if "://" not in location:
        return str(Path(location) / name)
    path, mark, query = location.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{query}"
