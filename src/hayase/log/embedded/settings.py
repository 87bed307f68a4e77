"""Settings of an embedded log and of its topics: names, allowed values, errors that list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hayase.core.errors import ConfigError
from hayase.log.protocol import LogConfig
from hayase.storage.lmdb_env import DEFAULT_MAP_SIZE


def _whole(smallest: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        try:
            return None if int(value) >= smallest else f"a whole number from {smallest}"
        except ValueError:
            return f"a whole number from {smallest}"

    return check


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    return lambda value: None if value in allowed else "one of " + ", ".join(allowed)


def _policies(value: str) -> str | None:
    wanted = [part.strip() for part in value.split(",")]
    return None if set(wanted) <= {"delete", "compact"} else "delete, compact, or both with a comma between"


def _ratio(value: str) -> str | None:
    try:
        return None if 0 <= float(value) <= 1 else "a number from 0 to 1"
    except ValueError:
        return "a number from 0 to 1"


_TOPIC_SETTINGS: Mapping[str, Callable[[str], str | None]] = {
    "cleanup.policy": _policies,
    "compression.type": _one_of("producer", "uncompressed", "lz4", "zstd", "gzip", "snappy"),
    "delete.retention.ms": _whole(0),
    "max.compaction.lag.ms": _whole(1),
    "max.message.bytes": _whole(0),
    "message.timestamp.type": _one_of("CreateTime"),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _whole(0),
    "min.insync.replicas": _whole(1),
    "retention.bytes": _whole(-1),
    "retention.ms": _whole(-1),
    "segment.bytes": _whole(14),
    "segment.ms": _whole(1),
}


def check_topic_config(config: Mapping[str, str]) -> dict[str, str]:
    """The topic settings, if all are known and have allowed values.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, with the known ones; `INVALID_SETTING`, with the values allowed.
    """
    for name, value in config.items():
        _check(name, value, _TOPIC_SETTINGS, "a topic of the embedded log")
    return dict(config)


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """The options of an embedded log.

    Attributes:
        fsync: whether what was acknowledged survives a power loss (`fsync`, default true).
        map_size: bytes of address space to begin with (`map.size`).
    """

    fsync: bool = True
    map_size: int = DEFAULT_MAP_SIZE


_OPTIONS: Mapping[str, Callable[[str], str | None]] = {"fsync": _one_of("true", "false"), "map.size": _whole(1 << 16)}


def read_options(config: LogConfig) -> EmbeddedSettings:
    """The options of a log's configuration.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, with the known ones; `INVALID_SETTING`, with the values allowed.
    """
    for name, value in config.options.items():
        _check(name, value, _OPTIONS, "the embedded log")
    return EmbeddedSettings(
        fsync=config.options.get("fsync", "true") == "true",
        map_size=int(config.options.get("map.size", DEFAULT_MAP_SIZE)),
    )


def _check(name: str, value: str, known: Mapping[str, Callable[[str], str | None]], of: str) -> None:
    if name not in known:
        raise ConfigError(
            "UNKNOWN_SETTING", f"{name!r} is no setting of {of}; it knows {', '.join(sorted(known))}", setting=name
        )
    allowed = known[name](value)
    if allowed is not None:
        raise ConfigError("INVALID_SETTING", f"{name} must be {allowed}, not {value!r}", setting=name)
