"""Options of an embedded log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hayase.log.embedded.checks import Check, check_setting, one_of, whole
from hayase.log.protocol import LogConfig

_CLEANER_INTERVAL_MS = 30_000
_CLEANER_TIMEOUT_MS = 300_000
_MAP_SIZE = 1 << 40  # a process has few logs open


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """The options of an embedded log.

    Attributes:
        fsync: whether what was acknowledged survives a power loss (`fsync`, default true).
        map_size: bytes of address space to begin with (`map.size`).
        cleaner_interval_ms: how often a log that is open for writing cleans (`cleaner.interval.ms`); 0: never.
        cleaner_timeout_ms: how long a cleaner may take for a step before another takes over (`cleaner.timeout.ms`).
    """

    fsync: bool = True
    map_size: int = _MAP_SIZE
    cleaner_interval_ms: int = _CLEANER_INTERVAL_MS
    cleaner_timeout_ms: int = _CLEANER_TIMEOUT_MS


_OPTIONS: Mapping[str, Check] = {
    "fsync": one_of("true", "false"),
    "map.size": whole(1 << 16),
    "cleaner.interval.ms": whole(0),
    "cleaner.timeout.ms": whole(1),
}


def read_options(config: LogConfig) -> EmbeddedSettings:
    """The options of a log's configuration.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, with the known ones; `INVALID_SETTING`, with the values allowed.
    """
    for name, value in config.options.items():
        check_setting(name, value, _OPTIONS, "the embedded log")
    return EmbeddedSettings(
        fsync=config.options.get("fsync", "true") == "true",
        map_size=int(config.options.get("map.size", _MAP_SIZE)),
        cleaner_timeout_ms=int(config.options.get("cleaner.timeout.ms", _CLEANER_TIMEOUT_MS)),
        cleaner_interval_ms=int(config.options.get("cleaner.interval.ms", _CLEANER_INTERVAL_MS)),
    )
