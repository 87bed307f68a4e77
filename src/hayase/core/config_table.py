"""The settings with an attribute of their own: what reads their values, and their defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hayase.core import config_values as values
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.private_files import is_own_folder

SHARED_MEMORY = Path("/dev/shm")
_WHOLE = values.whole(0)
_REMOVED = " (exactly_once and exactly_once_beta are gone since Kafka Streams 4: use exactly_once_v2)"
SETTINGS: dict[str, tuple[str, values.Parse]] = {
    "application.id": ("application_id", values.application_id),
    "auto.offset.reset": ("auto_offset_reset", values.offset_reset),
    "bootstrap.servers": ("bootstrap_servers", values.servers),
    "checkpoint.dir": ("checkpoint_dir", values.location),
    "checkpoint.fsync": ("checkpoint_fsync", values.boolean),
    "commit.interval.ms": ("commit_interval_ms", _WHOLE),
    "default.dsl.store": ("default_dsl_store", values.dsl_store),
    "default.key.serde": ("default_key_serde", values.optional(values.serde)),
    "default.timestamp.extractor": ("default_timestamp_extractor", values.optional(values.extractor)),
    "default.value.serde": ("default_value_serde", values.optional(values.serde)),
    "deserialization.exception.handler": ("deserialization_exception_handler", values.handler),
    "dsl.store.suppliers.class": ("dsl_store_suppliers", values.optional(values.dsl_store_suppliers)),
    "ensure.explicit.internal.resource.naming": ("ensure_explicit_naming", values.boolean),
    "epoch.memory.max.bytes": ("epoch_memory_max_bytes", values.whole(1 << 20)),
    "epoch.span.max.ms": ("epoch_span_max_ms", _WHOLE),
    "errors.dead.letter.queue.topic.name": ("dead_letter_topic", values.optional(values.text)),
    "files.group.access": ("files_group_access", values.optional(values.one_of("none", "read", "write"))),
    "log.dir": ("log_dir", values.folder),
    "log.format": ("log_format", values.optional(values.one_of("text", "json"))),
    "log.level": ("log_level", values.optional(values.one_of("DEBUG", "INFO", "WARNING", "ERROR"))),
    "max.poll.interval.ms": ("max_poll_interval_ms", values.whole(1)),
    "max.records.per.epoch": ("max_records_per_epoch", values.whole(1)),
    "max.task.idle.ms": ("max_task_idle_ms", values.whole(-1)),
    "metadata.max.age.ms": ("metadata_max_age_ms", values.whole(1)),
    "metrics.allowed.hosts": ("metrics_allowed_hosts", values.host_names),
    "metrics.host": ("metrics_host", values.text),
    "metrics.num.samples": ("metrics_num_samples", values.whole(1)),
    "metrics.port": ("metrics_port", values.optional(values.whole(0, 65535))),
    "metrics.recording.level": ("metrics_recording_level", values.one_of("INFO", "DEBUG", "TRACE")),
    "metrics.sample.window.ms": ("metrics_sample_window_ms", values.whole(1)),
    "num.bundles": ("num_bundles", values.optional(values.whole(1))),
    "num.standby.replicas": ("num_standby_replicas", _WHOLE),
    "num.stream.threads": ("num_stream_threads", values.optional(values.whole(1))),
    "processing.exception.handler": ("processing_exception_handler", values.handler),
    "processing.form": ("processing_form", values.one_of("auto", "rows", "columns")),
    "processing.log.rows.include": ("processing_log_rows_include", values.boolean),
    "processing.log.topic.name": ("processing_log_topic", values.optional(values.text)),
    "processing.guarantee": (
        "processing_guarantee",
        values.one_of(
            "at_least_once",
            "exactly_once_v2",
            hints={"exactly_once": _REMOVED, "exactly_once_beta": _REMOVED},
        ),
    ),
    "production.exception.handler": ("production_exception_handler", values.handler),
    "repartition.purge.interval.ms": ("repartition_purge_interval_ms", _WHOLE),
    "replication.factor": ("replication_factor", values.replication_factor),
    "slot.memory.max.bytes": ("slot_memory_max_bytes", values.optional(values.whole(1 << 26))),
    "source.range.lost": ("source_range_lost", values.one_of("fail", "reset")),
    "state.dir": ("state_dir", values.folder),
    "state.memory.dir": ("state_memory_dir", values.folder),
    "state.history.retention.ms": ("state_history_retention_ms", _WHOLE),
    "state.snapshot.deltas.max": ("state_snapshot_deltas_max", values.whole(1)),
    "state.snapshot.min.bytes": ("state_snapshot_min_bytes", _WHOLE),
    "state.snapshot.restore.max.ms": ("state_snapshot_restore_max_ms", _WHOLE),
    "statestore.cache.max.bytes": ("statestore_cache_max_bytes", _WHOLE),
    "task.timeout.ms": ("task_timeout_ms", _WHOLE),
    "topology.optimization": ("topology_optimization", values.text),
}
"""Attribute of `StreamsConfig`, and what reads the value, by key."""


def defaults(env: Mapping[str, str]) -> dict[str, Any]:
    """Values by attribute, of those that do not depend on another setting."""
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    state = Path(env["XDG_STATE_HOME"]) if env.get("XDG_STATE_HOME") else home / ".local" / "state"
    data = Path(env["XDG_DATA_HOME"]) if env.get("XDG_DATA_HOME") else home / ".local" / "share"
    return {
        "auto_offset_reset": AutoOffsetReset.earliest(),
        "bootstrap_servers": (),
        "checkpoint_fsync": True,
        "commit_interval_ms": 100,
        "dead_letter_topic": None,
        "default_dsl_store": "persistent",
        "default_key_serde": None,
        "default_timestamp_extractor": None,
        "default_value_serde": None,
        "deserialization_exception_handler": "log_and_fail",
        "dsl_store_suppliers": None,
        "epoch_memory_max_bytes": 1 << 30,
        "epoch_span_max_ms": 600_000,
        "files_group_access": None,
        "log_dir": data / "hayase" / "log",
        "log_format": None,
        "log_level": None,
        "max_poll_interval_ms": 300_000,
        "max_records_per_epoch": 1_000_000,
        "max_task_idle_ms": 0,
        "metadata_max_age_ms": 300_000,
        "metrics_allowed_hosts": (),
        "metrics_host": "127.0.0.1",
        "metrics_num_samples": 2,
        "metrics_port": None,
        "metrics_recording_level": "INFO",
        "metrics_sample_window_ms": 30_000,
        "num_bundles": None,
        "num_standby_replicas": 0,
        "num_stream_threads": None,
        "processing_exception_handler": "log_and_fail",
        "processing_form": "auto",
        "processing_log_rows_include": False,
        "processing_log_topic": None,
        "processing_guarantee": "exactly_once_v2",
        "production_exception_handler": "log_and_fail",
        "repartition_purge_interval_ms": 30_000,
        "replication_factor": -1,
        "slot_memory_max_bytes": None,
        "source_range_lost": "fail",
        "state_dir": state / "hayase",
        "state_history_retention_ms": 0,
        "state_snapshot_deltas_max": 20_000,
        "state_snapshot_min_bytes": 64 << 20,
        "state_snapshot_restore_max_ms": 10_000,
        "statestore_cache_max_bytes": 10 * 1024 * 1024,
        "task_timeout_ms": 300_000,
        "topology_optimization": "none",
        "ensure_explicit_naming": False,
    }


def memory_dir(state_dir: Path) -> Path:
    """Where stores in memory are kept, unless `state.memory.dir` says so."""
    own = SHARED_MEMORY / f"hayase-{os.getuid()}"
    usable = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)
    if usable and (is_own_folder(own) or not os.path.lexists(own)):
        return own
    return state_dir / "memory"  # also where another user has taken that name
