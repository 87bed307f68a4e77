"""The settings of an application: Kafka Streams' keys, and Hayase's own.

A new one is a row and a default in `config_table.py`, an attribute and its description here, and a run of
`scripts/config_page.py`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hayase.core import config_values as values
from hayase.core.config_groups import OWN_PREFIX, REGISTRY_KEYS, REGISTRY_PREFIX, Groups
from hayase.core.config_keys import CLIENT_KEYS, PREFIXES_WITHOUT_EFFECT, RENAMED, WITHOUT_EFFECT
from hayase.core.config_table import SETTINGS, defaults, memory_dir
from hayase.core.errors import ConfigError
from hayase.core.kafka_security import client_secrets
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.secrets import Settings, known_secrets

Guarantee = Literal["at_least_once", "exactly_once_v2"]
Form = Literal["auto", "rows", "columns"]
OnRangeLost = Literal["fail", "reset"]
Handler = str | Callable[..., Any]
"""An exception handler, or the name of one of `hayase.processor.handlers`."""

_OPTIMIZATIONS = ("merge.repartition.topics", "reuse.ktable.source.topics", "single.store.self.join")


@dataclass(frozen=True, init=False, repr=False)
class StreamsConfig:
    """The settings of an application, checked and typed. Immutable.

    Made from a mapping with Kafka Streams' keys, values typed or as text. Every key of Kafka Streams 4.3 is known:
    it has an effect, or it is accepted and `notes` says why it has none. An unknown key is an error.

    Attributes:
        application_id: `application.id`, required: the application's identity, consumer group and state folder.
        bootstrap_servers: `bootstrap.servers`: Kafka brokers; empty: the embedded log in `log_dir`.
        files_group_access: `files.group.access`: what the group of folders and files that Hayase makes may do: `none`
            (default: only the user who runs it has access, whatever the umask), `read` (0750 and 0640) or `write` (0770
            and 0660, which commands and readers of other users need, as reading takes locks). With a group, folders
            have the setgid bit: what is made in them belongs to their group, and has its access. Without the setting,
            folders that were given to a group stay so.
        log_dir: `log.dir`: folder of the embedded log; default `hayase/log` in the user's data folder.
        log_format: `log.format`: `text` or `json`: everything the process and its workers log goes to standard error in
            that form; default `None`: the program's own logging is left as it is, and workers' lines go there.
        log_level: `log.level`: `DEBUG`, `INFO`, `WARNING` or `ERROR`; default INFO with a `log.format`, else what the
            program has set for the logger `hayase`.
        num_stream_threads: `num.stream.threads`: how many bundles run at a time; `None`: the cores Spark has.
        num_standby_replicas: `num.standby.replicas`: followers that run as processes beside the application, each
            with a copy of all stores, which readers may use and from which a worker whose own state is lost
            begins; default 0.
        num_bundles: `num.bundles`: units of scheduling and commit, fixed at the first start; `None`: 2 per thread.
        processing_guarantee: `processing.guarantee`: `exactly_once_v2` or `at_least_once`. The default is
            exactly-once, unlike Kafka Streams', because an epoch is published by one transaction anyway.
        commit_interval_ms: `commit.interval.ms`: how long a record waits at most until its results are committed, while
            an epoch takes no more than a quarter of that; in a shared runtime the time from one epoch to the next;
            default 100, Kafka Streams' value under exactly-once; 0: at once.
        max_records_per_epoch: `max.records.per.epoch`: an epoch's input while lagging; default 1,000,000.
        max_poll_interval_ms: `max.poll.interval.ms`: a worker whose step (what one bundle does in one epoch) makes no
            progress for so long is ended, and Spark tries the task again; default 300,000. A record that was
            processed, a batch that was read or written, and waiting for brokers that are away count as progress.
        max_task_idle_ms: `max.task.idle.ms`: how long a task with several inputs waits for one that has nothing, before
            it reads the others beyond the time that this one has reached; default 0 (it does not wait), as does -1
            (KIP-695). A run to the end of the input never waits.
        epoch_memory_max_bytes: `epoch.memory.max.bytes`: about what a worker process holds of an epoch in memory:
            input, changes of stores and outputs, a quarter each; what is beyond that is read bit by bit, or goes to
            files in `state.dir`. Default 1 GiB, at least 1 MiB. Results do not depend on it.
        epoch_span_max_ms: `epoch.span.max.ms`: how long one Spark job may go on with one epoch after the other, which
            saves most of the time that a small epoch takes; default 600,000; 0: each epoch is a job, in a shared
            runtime each level of the epochs that are ready. It is not made use of where other jobs want the cores too,
            nor on a cluster that encrypts. Results do not depend on it.
        slot_memory_max_bytes: `slot.memory.max.bytes`: in a shared runtime, what a worker process may hold in memory,
            pages of files aside, before it closes topologies that it has not used for longest; they are opened again
            when they have input. `None`: half of the memory that the machine, or the container, has, divided by the
            slots; at least 64 MiB. Results do not depend on it.
        metadata_max_age_ms: `metadata.max.age.ms`: how often the log is asked for new topics that a pattern matches;
            default 300,000. Kafka's clients get it too, if it is set.
        metrics_allowed_hosts: `metrics.allowed.hosts`: names, with commas between, under which the metrics may be asked
            for beside the address that they are served at and `localhost`; `*`: any. Other names are refused (a web
            page could use one to read them through its visitor's browser).
        metrics_host: `metrics.host`: where `/metrics`, `/health` and `/ready` are served; default 127.0.0.1. Every
            process that can reach it can read them: there is no password.
        metrics_port: `metrics.port`: 0: any free one; default `None`: they are not served.
        metrics_recording_level: `metrics.recording.level`: `INFO` (default), `DEBUG` or `TRACE` (here as DEBUG).
        metrics_sample_window_ms: `metrics.sample.window.ms`: length of a sample of rates, averages and maxima; default
            30,000.
        metrics_num_samples: `metrics.num.samples`: how many of them are looked at; default 2.
        processing_form: `processing.form`: `auto` (columns where every node has a column form, but rows for epochs of
            few records), `rows` (every node takes one record at a time, the reference) or `columns`.
        source_range_lost: `source.range.lost`: what happens where retention, or a deletion, removed records that were
            not read yet: `fail` (default; SOURCE_RANGE_LOST), or `reset`: go on, with all state, where
            `auto.offset.reset` says. Offsets that are skipped are logged.
        state_dir: `state.dir`: local folder for state; default `hayase` in the user's state folder
            (`XDG_STATE_HOME`, else `~/.local/state`), so that it outlives a reboot.
        state_memory_dir: `state.memory.dir`: local folder in memory (a tmpfs) for stores that are kept in memory, while
            the application runs; default `hayase-<user id>` in `/dev/shm`, where there is none `memory` in `state.dir`,
            which is on disk. A container's `/dev/shm` is small by default.
        checkpoint_dir: `checkpoint.dir`: where epochs, deltas and snapshots are published: a local folder, or
            `s3://bucket/folder`; for an S3 store other than Amazon's `s3://bucket/folder?endpoint=https://host:port`,
            also with `region`, `path_style` and `conditional_put` (`hayase.storage.s3_location`); needs `hayase[s3]`;
            credentials come from the environment, `~/.aws` or the machine's role.
            Default `<state.dir>/<application.id>/checkpoint`.
        checkpoint_fsync: `checkpoint.fsync`: survive a power loss, not only a crash; default true. On S3 always so.
        repartition_purge_interval_ms: `repartition.purge.interval.ms`: how often records that every reader
            has processed are deleted from internal topics; default 30,000.
        state_history_retention_ms: `state.history.retention.ms`: how long older epochs stay readable; default 0.
        state_snapshot_deltas_max: `state.snapshot.deltas.max`: after so many deltas (epochs that changed a bundle's
            stores) at the latest a snapshot of them is taken; default 20,000.
        state_snapshot_min_bytes: `state.snapshot.min.bytes`: a snapshot is also taken when the deltas since the last
            one are larger than this and than the last one; default 64 MiB.
        state_snapshot_restore_max_ms: `state.snapshot.restore.max.ms`: a snapshot is also taken when reading the deltas
            since the last one is estimated to take longer than this, and than loading the last one; default 10,000.
        statestore_cache_max_bytes: `statestore.cache.max.bytes`: 0 passes on every update of a table; any other
            value passes on the last update of each key of an epoch.
        default_key_serde: `default.key.serde`: a Serde, one of the names of `Serdes`, or `None`.
        default_value_serde: `default.value.serde`: as `default.key.serde`, for values.
        default_dsl_store: `default.dsl.store`: where stores are kept whose `Materialized` says nothing: `persistent`
            (default; Kafka Streams' `rocksDB` means the same) or `in_memory`.
        dsl_store_suppliers: `dsl.store.suppliers.class`: as `default.dsl.store`, and wins over it: one of its words, or
            the name of one of Kafka Streams' two classes.
        default_timestamp_extractor: `default.timestamp.extractor`: a TimestampExtractor, a function, one of
            `fail_on_invalid`, `log_and_skip`, `use_partition_time`, `wall_clock`, or `None`: fail on invalid.
        auto_offset_reset: `auto.offset.reset`: where a topic is begun for which there is no position: `earliest`
            (default), `latest`, `none` (an error) or `by_duration:PT1H`: see AutoOffsetReset.
        deserialization_exception_handler: for records that cannot be read: a handler's name (`log_and_fail`,
            `log_and_continue`, `dead_letter`) or a function `(ErrorContext, Exception) -> HandlerAnswer`.
        processing_exception_handler: likewise, for user code and expressions that fail.
        production_exception_handler: likewise, for records that cannot be written.
        dead_letter_topic: `errors.dead.letter.queue.topic.name`: where handlers send the records of failures; no topic
            by default.
        processing_log_topic: `processing.log.topic.name`: where a JSON record goes for each failure that stops nothing,
            in the form of ksqlDB's processing log; no topic by default.
        processing_log_rows_include: `processing.log.rows.include`: whether these records show the data that failed;
            default `false`.
        replication_factor: `replication.factor`: of topics that Hayase itself makes on Kafka; -1: the brokers' default.
        task_timeout_ms: `task.timeout.ms`: how long errors that pass by themselves (brokers that do not answer, a
            Spark process that died) are tried again without any progress before the application fails; default
            300,000. For as long a task waits for brokers, or for the S3 store of the checkpoint, before it fails.
        topology_optimization: `topology.optimization`: `none`, `all`, or a list of `merge.repartition.topics` (one
            repartition below one change of key), `single.store.self.join` (one window store for a stream joined with
            itself) and `reuse.ktable.source.topics` (no effect: changelogs are no topics); counts in
            `StreamsBuilder.build(settings)`.
        ensure_explicit_naming: `ensure.explicit.internal.resource.naming`: refuse a topology in which a store, a
            repartition or an internal topic has a generated name, which changes when operators are added before it
            (KIP-1111); default false.
        consumer_properties: for Kafka consumers: common client settings and those with `consumer.`. Security settings
            are librdkafka's (`ssl.ca.location`, `sasl.username`, …) or those of the Java clients that mean the same
            (`hayase.core.kafka_security`); others are refused. Values may refer to where a secret is, `${env:NAME}` for
            example (`hayase.core.secrets`); the process that connects looks there.
        producer_properties: for Kafka producers.
        admin_properties: for Kafka's admin client.
        schema_registry: for serdes that were given no registry: keys that begin with `schema.registry.`, without that
            (`url`; others as in `SchemaRegistry`), and `auto.register.schemas`, `use.latest.version`,
            `normalize.schemas`, `key.subject.name.strategy`, `value.subject.name.strategy`, `avro.empty.items.max` (how
            many values without bytes, such as nulls in an array, one Avro value may have; default 100,000).
        spark_properties: keys that begin with `spark.`, for Spark. `spark.master` says where it runs:
            `spark://host:port`, `yarn`, `k8s://…`; without it on this machine, as `local[n,4]` with n threads. On a
            cluster `state.dir` is a local folder of every machine (one that has it elsewhere says so in the environment
            variable HAYASE_STATE_DIR of its executors), `checkpoint.dir` is a path that all of them share, or on S3,
            and topics are in Kafka.
        own_properties: keys that begin with `app.`: settings of yours, of any type that can be pickled. Processors read
            them (`ProcessingContext.app_configs`).
        app_configs: what processors are shown: every given setting that is no other party's (Kafka's clients, the
            registry, Spark), as it was given, under today's name.
        notes: one line for each given setting that has no effect, with the reason; and for renamed ones.

    Raises:
        ConfigError: `UNKNOWN_SETTING`, `INVALID_SETTING`, `MISSING_SETTING`.

    Example:
        >>> config = StreamsConfig({"application.id": "orders", "num.stream.threads": "2"})
        >>> config.num_stream_threads, config.processing_guarantee
        (2, 'exactly_once_v2')
    """

    application_id: str
    bootstrap_servers: tuple[str, ...]
    files_group_access: Literal["none", "read", "write"] | None
    log_dir: Path
    num_standby_replicas: int
    log_format: Literal["text", "json"] | None
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] | None
    num_stream_threads: int | None
    num_bundles: int | None
    processing_guarantee: Guarantee
    commit_interval_ms: int
    max_records_per_epoch: int
    max_poll_interval_ms: int
    max_task_idle_ms: int
    epoch_memory_max_bytes: int
    epoch_span_max_ms: int
    slot_memory_max_bytes: int | None
    metadata_max_age_ms: int
    metrics_allowed_hosts: tuple[str, ...]
    metrics_host: str
    metrics_port: int | None
    metrics_recording_level: Literal["INFO", "DEBUG", "TRACE"]
    metrics_sample_window_ms: int
    metrics_num_samples: int
    processing_form: Form
    source_range_lost: OnRangeLost
    state_dir: Path
    state_memory_dir: Path
    checkpoint_dir: str
    checkpoint_fsync: bool
    repartition_purge_interval_ms: int
    state_history_retention_ms: int
    state_snapshot_deltas_max: int
    state_snapshot_min_bytes: int
    state_snapshot_restore_max_ms: int
    statestore_cache_max_bytes: int
    default_dsl_store: Literal["persistent", "in_memory"]
    dsl_store_suppliers: Literal["persistent", "in_memory"] | None
    default_key_serde: object
    default_value_serde: object
    default_timestamp_extractor: object
    auto_offset_reset: AutoOffsetReset
    deserialization_exception_handler: Handler
    processing_exception_handler: Handler
    production_exception_handler: Handler
    dead_letter_topic: str | None
    processing_log_topic: str | None
    processing_log_rows_include: bool
    replication_factor: int
    task_timeout_ms: int
    topology_optimization: str
    ensure_explicit_naming: bool
    consumer_properties: Mapping[str, str]
    producer_properties: Mapping[str, str]
    admin_properties: Mapping[str, str]
    schema_registry: Settings
    spark_properties: Mapping[str, str]
    own_properties: Settings
    app_configs: Settings
    notes: tuple[str, ...]

    def __init__(self, settings: Mapping[str, object], environ: Mapping[str, str] | None = None) -> None:
        env = os.environ if environ is None else environ
        values, notes = defaults(env), []
        given, renamed = _current_names(settings)
        notes += renamed
        groups = Groups()
        for key, value in given.items():
            if key in SETTINGS:
                attribute, parse = SETTINGS[key]
                values[attribute] = parse(key, value)
                if key in CLIENT_KEYS:
                    groups.take(key, value)
            elif (reason := _without_effect(key)) is not None:
                notes.append(f"{key} has no effect: {reason}")
            elif not groups.take(key, value):
                raise _unknown(key)
        if "application_id" not in values:
            raise ConfigError("MISSING_SETTING", "application.id is required: a name for the application")
        values.setdefault("checkpoint_dir", str(values["state_dir"] / values["application_id"] / "checkpoint"))
        values.setdefault("state_memory_dir", memory_dir(values["state_dir"]))
        notes += _check_optimization(values["topology_optimization"])
        _check_dead_letters(values)
        values |= groups.properties()
        values["app_configs"] = Settings(
            {key: given[key] for key in given if key in SETTINGS} | dict(values["own_properties"])
        )
        values["notes"] = tuple(notes)
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    @property
    def exactly_once(self) -> bool:
        """Whether the guarantee is exactly-once."""
        return self.processing_guarantee == "exactly_once_v2"

    @property
    def caching(self) -> bool:
        """Whether stores that allow it pass on only the last update of a key of each epoch."""
        return self.statestore_cache_max_bytes > 0

    @property
    def store_type(self) -> Literal["persistent", "in_memory"]:
        """Where stores are kept that do not say so themselves."""
        return self.dsl_store_suppliers or self.default_dsl_store

    @property
    def embedded(self) -> bool:
        """Whether topics are in the embedded log."""
        return not self.bootstrap_servers

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that may not be shown, such as passwords of Kafka clients.

        Those referred to, as far as they are seen here.
        """
        clients = (self.consumer_properties, self.producer_properties, self.admin_properties)
        secrets = [secret for group in clients for secret in client_secrets(group)]
        for passed_on in (self.spark_properties, self.schema_registry, self.own_properties):
            secrets += known_secrets(passed_on)
        return tuple(dict.fromkeys(secrets))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
        return f"StreamsConfig({fields})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, ({name: getattr(self, name) for name in self.__dataclass_fields__},)


def _rebuild(attributes: dict[str, object]) -> StreamsConfig:
    config = object.__new__(StreamsConfig)
    for name, value in attributes.items():
        object.__setattr__(config, name, value)
    return config


def _current_names(settings: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The settings under today's names, and a note for each that was renamed."""
    given: dict[str, object] = {}
    notes: list[str] = []
    for key, value in settings.items():
        if not isinstance(key, str):
            raise ConfigError("UNKNOWN_SETTING", f"{key!r} is no setting; keys are text such as 'application.id'")
        new = RENAMED.get(key, key)
        if new != key:
            notes.append(f"{key} is now {new}")
        if new == key or new not in settings:
            given[new] = value
    return given, notes


def _without_effect(key: str) -> str | None:
    if key in WITHOUT_EFFECT:
        return WITHOUT_EFFECT[key]
    return next((reason for prefix, reason in PREFIXES_WITHOUT_EFFECT.items() if key.startswith(prefix)), None)


def _unknown(key: str) -> ConfigError:
    known = [*SETTINGS, *REGISTRY_KEYS, f"{REGISTRY_PREFIX}url", *WITHOUT_EFFECT, *CLIENT_KEYS, *RENAMED]
    dotted = key.replace("_", ".").lower()
    near = difflib.get_close_matches(dotted, known, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]!r}?" if near else "keys for Spark begin with 'spark.', for Kafka's clients with "
    if not near:
        advice += f"'consumer.', 'producer.' or 'admin.', those of your own with {OWN_PREFIX!r}"
    return ConfigError("UNKNOWN_SETTING", f"there is no setting {key!r}; {advice}", setting=key)


def optimizations(value: str) -> frozenset[str]:
    """The words of `topology.optimization`: none of them, all of them, or those that are listed.

    Raises:
        ConfigError: an unknown word.

    Example:
        >>> sorted(optimizations("merge.repartition.topics, single.store.self.join"))
        ['merge.repartition.topics', 'single.store.self.join']
    """
    words = [each.strip() for each in value.split(",")]
    if words in (["none"], ["all"]):
        return frozenset(_OPTIMIZATIONS if words == ["all"] else ())
    if not words or any(word not in _OPTIMIZATIONS for word in words):
        allowed = "none, all, or a list of " + ", ".join(_OPTIMIZATIONS)
        raise values.refuse("topology.optimization", value, allowed)
    return frozenset(words)


def _check_optimization(value: str) -> list[str]:
    if not optimizations(value):
        return []
    built = (
        "topology.optimization counts where the topology is built: give the settings to StreamsBuilder.build(settings)"
    )
    return [f"{built}. reuse.ktable.source.topics changes nothing: changelogs are no topics here"]


def _check_dead_letters(values: Mapping[str, object]) -> None:
    for stage in ("deserialization", "processing", "production"):
        if values[f"{stage}_exception_handler"] == "dead_letter" and values["dead_letter_topic"] is None:
            raise ConfigError(
                "MISSING_SETTING",
                f"{stage}.exception.handler is dead_letter; set errors.dead.letter.queue.topic.name as well",
                setting="errors.dead.letter.queue.topic.name",
            )
