"""From settings to what compiling and running need."""

from __future__ import annotations

from hayase.core.config import StreamsConfig
from hayase.log.protocol import LogConfig
from hayase.planner.compile import CompileOptions
from hayase.processor.handlers import ExceptionHandler, dead_letter, log_and_continue, log_and_fail
from hayase.processor.timestamps import TimestampExtractor, record_timestamp
from hayase.task.program import FailurePolicy

_HANDLERS: dict[str, ExceptionHandler] = {
    "log_and_fail": log_and_fail,
    "log_and_continue": log_and_continue,
    "dead_letter": dead_letter,
}


def compile_options(config: StreamsConfig, compacted: frozenset[str] = frozenset()) -> CompileOptions:
    """Settings that decide how nodes are compiled; `compacted` are the source topics with compaction."""
    extractor = config.default_timestamp_extractor
    return CompileOptions(
        config.default_key_serde,
        config.default_value_serde,
        extractor if isinstance(extractor, TimestampExtractor) else record_timestamp(),
        config.caching,
        config.processing_form,
        compacted,
    )


def failure_policy(config: StreamsConfig) -> FailurePolicy:
    """The exception handlers and the dead-letter topic."""
    return FailurePolicy(
        _handler(config.deserialization_exception_handler),
        _handler(config.processing_exception_handler),
        _handler(config.production_exception_handler),
        config.dead_letter_topic,
    )


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


def _handler(given: ExceptionHandler | str) -> ExceptionHandler:
    return _HANDLERS[given] if isinstance(given, str) else given
