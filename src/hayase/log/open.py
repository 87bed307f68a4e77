"""Opening the log that a `LogConfig` names."""

from __future__ import annotations

from hayase.core.errors import ConfigError
from hayase.log.protocol import Log, LogConfig


def open_log_of_user(config: LogConfig) -> Log:
    """As `open_log`, for a command line: brokers that do not answer are named in its log soon, not after a minute."""
    if config.kind == "kafka":
        from hayase.log.kafka.access import warn_of_silence
        from hayase.log.kafka.clients import client_settings

        warn_of_silence(client_settings(config, "admin"))
    return open_log(config)


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
