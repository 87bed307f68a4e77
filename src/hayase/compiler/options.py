"""From settings to what compiling and running need."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hayase.core.config import StreamsConfig
from hayase.core.errors import TopologyError
from hayase.processor.handlers import ExceptionHandler, dead_letter, log_and_continue, log_and_fail
from hayase.processor.timestamps import (
    TimestampExtractor,
    callable_timestamp,
    record_timestamp,
    wall_clock_timestamp,
)
from hayase.serde import Serde, Serdes
from hayase.serde.protocol import Side
from hayase.state.stores.spec import StoreType
from hayase.task.compiled_subtopology import FailurePolicy, ProcessingLogPolicy
from hayase.topology.defaults import with_default_serdes, with_store_type, with_topics
from hayase.topology.explicit_names import check_explicit_names
from hayase.topology.lines import naming_lines
from hayase.topology.resolve import with_application_id
from hayase.topology.topology import Topology

_HANDLERS: dict[str, ExceptionHandler] = {
    "log_and_fail": log_and_fail,
    "log_and_continue": log_and_continue,
    "dead_letter": dead_letter,
}
_EXTRACTORS: dict[str, TimestampExtractor] = {
    "fail_on_invalid": record_timestamp("fail"),
    "log_and_skip": record_timestamp("skip"),
    "use_partition_time": record_timestamp("partition_time"),
    "wall_clock": wall_clock_timestamp(),
}


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Settings that decide how nodes are compiled."""

    default_key_serde: Serde | None = None
    default_value_serde: Serde | None = None
    default_extractor: TimestampExtractor = field(default_factory=record_timestamp)
    caching: bool = True
    form: Literal["auto", "rows", "columns"] = "auto"
    compacted: frozenset[str] = frozenset()
    """Source topics with compaction: a replay may find fewer records, so nothing that reads them is pure."""
    own_handlers: bool = True
    """Exception handlers are Hayase's own, which answer the same when an epoch is replayed."""
    prefix: bool = True
    """In rows, run the expressions right below the sources in columns (`hayase.task.run_prefix`)."""
    small_in_rows: bool = True
    """In columns, run epochs of few records in rows, which takes less for them."""
    registry_settings: Mapping[str, object] = field(default_factory=dict)
    """For the default serdes of sinks and edges, see `Serde.for_topic`."""
    app_configs: Mapping[str, object] = field(default_factory=dict)
    """For processors, see `ProcessingContext.app_configs`."""

    def default_serde(self, side: Side, topic: str | None) -> Serde | None:
        """The default serde for keys or values of a topic (`None`: chosen record by record), if there is one."""
        default = self.default_key_serde if side == "key" else self.default_value_serde
        return default if default is None or topic is None else default.for_topic(topic, side, self.registry_settings)


def configured(topology: Topology, config: StreamsConfig) -> Topology:
    """The topology with names for its internal topics, the configuration's serdes and its type of stores.

    The first step of compilation. Each serde is made for its topic.

    Raises:
        TopologyError: `UNKNOWN_SERDE`: a key's serde is not known. `EMPTY_TOPOLOGY`. `GENERATED_NAMES`.
    """
    if not (topology.nodes or topology.global_tables):
        raise TopologyError("EMPTY_TOPOLOGY", "the topology has no nodes; begin with add_source")
    if config.ensure_explicit_naming:
        check_explicit_names(topology)
    return _configured(topology, config)


def _configured(topology: Topology, config: StreamsConfig) -> Topology:
    key_serde, value_serde = _serde(config.default_key_serde), _serde(config.default_value_serde)
    with naming_lines(topology):
        topology = with_default_serdes(topology, key_serde, value_serde, Serdes.bytes())
    topology = with_store_type(topology, StoreType(config.store_type))
    topology = with_application_id(topology, config.application_id)
    topology = with_topics(topology, config.application_id, config.schema_registry)
    earlier = None if topology.earlier is None else _configured(topology.earlier, config)
    return dataclasses.replace(topology, earlier=earlier)


def compile_options(config: StreamsConfig, compacted: frozenset[str] = frozenset()) -> CompileOptions:
    """Settings that decide how nodes are compiled; `compacted` are the source topics with compaction."""
    return CompileOptions(
        _serde(config.default_key_serde),
        _serde(config.default_value_serde),
        _extractor(config.default_timestamp_extractor),
        config.caching,
        config.processing_form,
        compacted,
        own_handlers=all(isinstance(handler, str) for handler in _handlers(config)),
        prefix=config.processing_form == "auto",
        registry_settings=config.schema_registry,
        app_configs=config.app_configs,
    )


def failure_policy(config: StreamsConfig) -> FailurePolicy:
    """The exception handlers, the dead-letter topic and the processing log."""
    deserialization, processing, production = map(_handler, _handlers(config))
    log = None
    if config.processing_log_topic is not None:
        log = ProcessingLogPolicy(config.processing_log_topic, config.processing_log_rows_include)
    return FailurePolicy(deserialization, processing, production, config.dead_letter_topic, log)


def _handlers(config: StreamsConfig) -> tuple[ExceptionHandler | str, ExceptionHandler | str, ExceptionHandler | str]:
    return (
        config.deserialization_exception_handler,
        config.processing_exception_handler,
        config.production_exception_handler,
    )


def _handler(given: ExceptionHandler | str) -> ExceptionHandler:
    return _HANDLERS[given] if isinstance(given, str) else given


def _serde(given: Any) -> Serde | None:
    if isinstance(given, str):
        named: Serde = getattr(Serdes, given)()
        return named
    serde: Serde | None = given
    return serde


def _extractor(given: Any) -> TimestampExtractor:
    if given is None or isinstance(given, str):
        return _EXTRACTORS[given or "fail_on_invalid"]
    return given if isinstance(given, TimestampExtractor) else callable_timestamp(given)
