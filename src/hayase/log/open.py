"""Opening the log that a `LogConfig` names."""

from __future__ import annotations

from hayase.core.errors import ConfigError
from hayase.log.protocol import Log, LogConfig


def open_log(config: LogConfig) -> Log:
    """The log of that configuration. The clients are imported only when used.

    Raises:
        ConfigError: the kind is neither `embedded` nor `kafka`.
    """
    if config.kind == "embedded":
        from hayase.log.embedded.log import EmbeddedLog

        return EmbeddedLog(config)
    if config.kind == "kafka":
        from hayase.log.kafka.log import KafkaLog

        return KafkaLog(config)
    raise ConfigError("UNKNOWN_LOG_KIND", f"a log is of kind 'embedded' or 'kafka', not {config.kind!r}")
