"""Which log an application has, by its settings."""

from __future__ import annotations

from hayase.core.config import StreamsConfig
from hayase.log.protocol import LogConfig


def log_config(config: StreamsConfig) -> LogConfig:
    """The log of an application: a Kafka cluster if `bootstrap.servers` is set, else the embedded one at `log.dir`."""
    if config.bootstrap_servers:
        options = {
            f"{client}.{key}": value
            for client, properties in (
                ("consumer", config.consumer_properties),
                ("producer", config.producer_properties),
                ("admin", config.admin_properties),
            )
            for key, value in properties.items()
        }
        return LogConfig("kafka", ",".join(config.bootstrap_servers), options)
    return LogConfig("embedded", str(config.log_dir), {"fsync": "true" if config.checkpoint_fsync else "false"})
