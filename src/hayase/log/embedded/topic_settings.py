"""Settings of a topic of the embedded log: Kafka's names, defaults, allowed values, errors that list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hayase.core.errors import ConfigError
from hayase.log.embedded.checks import Check, check_setting, one_of, whole
from hayase.log.embedded.remote_files import checked_url

_DAY_MS = 86_400_000
_LARGEST = 2**63 - 1
_AS_TOTAL = -2


class _Setting(NamedTuple):
    default: str
    check: Check


def _policies(value: str) -> str | None:
    wanted = [part.strip() for part in value.split(",")]
    return None if set(wanted) <= {"delete", "compact"} else "delete, compact, or both with a comma between"


def _ratio(value: str) -> str | None:
    try:
        return None if 0 <= float(value) <= 1 else "a number from 0 to 1"
    except ValueError:
        return "a number from 0 to 1"


_SETTINGS: Mapping[str, _Setting] = {
    "cleanup.policy": _Setting("delete", _policies),
    "compression.type": _Setting("producer", one_of("producer", "uncompressed", "lz4", "zstd", "gzip", "snappy")),
    "delete.retention.ms": _Setting(str(_DAY_MS), whole(0)),
    "local.retention.bytes": _Setting(str(_AS_TOTAL), whole(_AS_TOTAL)),
    "local.retention.ms": _Setting(str(_AS_TOTAL), whole(_AS_TOTAL)),
    "max.compaction.lag.ms": _Setting(str(_LARGEST), whole(1)),
    "max.message.bytes": _Setting(str(1 << 30), whole(0)),
    "message.timestamp.type": _Setting("CreateTime", one_of("CreateTime", "LogAppendTime")),
    "min.cleanable.dirty.ratio": _Setting("0.5", _ratio),
    "min.compaction.lag.ms": _Setting("0", whole(0)),
    "min.insync.replicas": _Setting("1", whole(1)),
    "remote.storage.enable": _Setting("false", one_of("true", "false")),
    "remote.storage.url": _Setting("", lambda _: None),
    "retention.bytes": _Setting("-1", whole(-1)),
    "retention.ms": _Setting("-1", whole(-1)),
    "segment.bytes": _Setting(str(64 << 20), whole(14)),
    "segment.ms": _Setting(str(7 * _DAY_MS), whole(1)),
}

_CHECKS: Mapping[str, Check] = {name: setting.check for name, setting in _SETTINGS.items()}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What the cleaner and the writer need to know of a topic. Times in milliseconds; `None`: no bound.

    Attributes:
        deletes: retention applies.
        compacts: log compaction applies.
        compression: of stored batches.
        delete_retention_ms: how long a tombstone stays after the first compaction that met it.
        min_cleanable_dirty_ratio: how large a part of the log must be dirty before it is compacted.
        min_compaction_lag_ms: records younger than that are not compacted.
        max_compaction_lag_ms: a dirty record older than that brings compaction about, whatever the ratio.
        append_time: records get the time of the append.
        retention_ms: records older than that are removed.
        retention_bytes: what is above that is removed, from the start.
        remote_url: where old segments go; `None` if they stay.
        local_retention_ms: records older than that are moved.
        local_retention_bytes: what is above that is moved, from the start.
        segment_bytes: at most so many stored bytes move at a time.
        segment_ms: less than `segment_bytes` moves only when its first record is that old.
    """

    deletes: bool
    compacts: bool
    compression: str
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    append_time: bool
    retention_ms: int | None
    retention_bytes: int | None
    remote_url: str | None
    local_retention_ms: int | None
    local_retention_bytes: int | None
    segment_bytes: int
    segment_ms: int

    @classmethod
    def of(cls, config: Mapping[str, str]) -> TopicSettings:
        """From settings that were checked."""
        every = all_settings(config)
        policies = {part.strip() for part in every["cleanup.policy"].split(",")}
        retention_ms, retention_bytes = _bound(every["retention.ms"]), _bound(every["retention.bytes"])
        local_ms, local_bytes = every["local.retention.ms"], every["local.retention.bytes"]
        return cls(
            deletes="delete" in policies,
            compacts="compact" in policies,
            compression=compression_of(config),
            delete_retention_ms=int(every["delete.retention.ms"]),
            min_cleanable_dirty_ratio=float(every["min.cleanable.dirty.ratio"]),
            min_compaction_lag_ms=int(every["min.compaction.lag.ms"]),
            max_compaction_lag_ms=int(every["max.compaction.lag.ms"]),
            append_time=stamps_at_append(config),
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            remote_url=every["remote.storage.url"] if every["remote.storage.enable"] == "true" else None,
            local_retention_ms=retention_ms if int(local_ms) == _AS_TOTAL else _bound(local_ms),
            local_retention_bytes=retention_bytes if int(local_bytes) == _AS_TOTAL else _bound(local_bytes),
            segment_bytes=int(every["segment.bytes"]),
            segment_ms=int(every["segment.ms"]),
        )


def check_known(name: str) -> None:
    """Check that there is a setting of that name; raises ConfigError `UNKNOWN_SETTING`."""
    check_setting(name, all_settings({}).get(name, ""), _CHECKS, "a topic of the embedded log")


def check_topic_config(config: Mapping[str, str]) -> dict[str, str]:
    """The settings, if all are known, have allowed values and go together; the URL of a tier made absolute.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, with the known ones; `INVALID_SETTING`, with the values allowed.
    """
    for name, value in config.items():
        check_setting(name, value, _CHECKS, "a topic of the embedded log")
    checked = dict(config)
    if config.get("remote.storage.url"):
        checked["remote.storage.url"] = checked_url(config["remote.storage.url"])
    _check_together(TopicSettings.of(checked), checked)
    return checked


def all_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Every setting with the value in effect: the topic's own, else the default."""
    return {name: config.get(name, setting.default) for name, setting in _SETTINGS.items()}


def compression_of(config: Mapping[str, str]) -> str:
    """The compression of stored batches: `producer` means LZ4."""
    return config.get("compression.type", "producer").replace("producer", "lz4")


def stamps_at_append(config: Mapping[str, str]) -> bool:
    """Whether records get the time of the append."""
    return config.get("message.timestamp.type") == "LogAppendTime"


def _bound(value: str) -> int | None:
    return None if int(value) < 0 else int(value)


def _check_together(settings: TopicSettings, config: Mapping[str, str]) -> None:
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise ConfigError(
            "INVALID_SETTING",
            f"min.compaction.lag.ms is {settings.min_compaction_lag_ms} and max.compaction.lag.ms "
            f"{settings.max_compaction_lag_ms}: the former must not be larger",
            setting="min.compaction.lag.ms",
        )
    if settings.remote_url is None:
        return
    if not settings.remote_url:
        raise ConfigError(
            "INVALID_SETTING",
            "remote.storage.enable=true needs remote.storage.url: a folder or fsspec URL for old records, e.g. "
            "remote.storage.url=s3://bucket/topics",
            setting="remote.storage.url",
        )
    if settings.compacts:
        raise ConfigError(
            "INVALID_SETTING",
            "remote.storage.enable=true needs cleanup.policy=delete: a compacted topic has no tiers, as in Kafka",
            setting="remote.storage.enable",
        )
    for unit, local, total in (
        ("ms", settings.local_retention_ms, settings.retention_ms),
        ("bytes", settings.local_retention_bytes, settings.retention_bytes),
    ):
        if total is not None and (local is None or local > total):
            name = f"local.retention.{unit}"
            raise ConfigError(
                "INVALID_SETTING",
                f"{name} is {config[name]} and retention.{unit} {total}: the former must not be larger "
                "(-2: the same as the latter)",
                setting=name,
            )
