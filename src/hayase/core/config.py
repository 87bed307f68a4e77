"""The settings of an application: Kafka Streams' keys, and Hayase's own."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hayase.core import config_values as values
from hayase.core.config_keys import CLIENT_KEYS, PREFIXES_WITHOUT_EFFECT, RENAMED, WITHOUT_EFFECT
from hayase.core.errors import ConfigError
from hayase.core.kafka_security import check_security, client_secrets, is_security_key
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.secrets import Settings, check_references, known_secrets

Guarantee = Literal["at_least_once", "exactly_once_v2"]
Form = Literal["auto", "rows", "columns"]
Handler = str | Callable[..., Any]
"""An exception handler, or the name of one of `hayase.processor.handlers`."""

_WHOLE = values.whole(0)
_REMOVED = " (exactly_once and exactly_once_beta are gone since Kafka Streams 4: use exactly_once_v2)"
_NAMES_OF_ATTRIBUTES: dict[str, tuple[str, values.Parse]] = {
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
    "errors.dead.letter.queue.topic.name": ("dead_letter_topic", values.optional(values.text)),
    "log.dir": ("log_dir", values.folder),
    "log.format": ("log_format", values.optional(values.one_of("text", "json"))),
    "log.level": ("log_level", values.optional(values.one_of("DEBUG", "INFO", "WARNING", "ERROR"))),
    "max.records.per.epoch": ("max_records_per_epoch", values.whole(1)),
    "max.task.idle.ms": ("max_task_idle_ms", values.whole(-1)),
    "metadata.max.age.ms": ("metadata_max_age_ms", values.whole(1)),
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
    "state.dir": ("state_dir", values.folder),
    "state.memory.dir": ("state_memory_dir", values.folder),
    "state.history.retention.ms": ("state_history_retention_ms", _WHOLE),
    "statestore.cache.max.bytes": ("statestore_cache_max_bytes", _WHOLE),
    "task.timeout.ms": ("task_timeout_ms", _WHOLE),
    "topology.optimization": ("topology_optimization", values.text),
}
_CLIENTS: dict[str, str] = {
    "consumer.": "consumer_properties",
    "main.consumer.": "consumer_properties",
    "producer.": "producer_properties",
    "admin.": "admin_properties",
}
_REGISTRY_PREFIX = "schema.registry."
_REGISTRY_KEYS = (
    "auto.register.schemas",
    "key.subject.name.strategy",
    "normalize.schemas",
    "use.latest.version",
    "value.subject.name.strategy",
)
_OPTIMIZATIONS = ("merge.repartition.topics", "reuse.ktable.source.topics", "single.store.self.join")


@dataclass(frozen=True, init=False, repr=False)
class StreamsConfig:
    """The settings of an application, checked and typed. Immutable.

    Made from a mapping with Kafka Streams' keys, values typed or as text. Every key of Kafka Streams 4.3 is known:
    it has an effect, or it is accepted and `notes` says why it has none. An unknown key is an error.

    Attributes:
        application_id: `application.id`, required: the application's identity, consumer group and state folder.
        bootstrap_servers: `bootstrap.servers`: Kafka brokers; empty: the embedded log in `log_dir`.
        log_dir: `log.dir`: folder of the embedded log; default `hayase/log` in the user's data folder.
        log_format: `log.format`: `text` or `json`: everything the process and its workers log goes to standard error in that
            form; default `None`: the program's own logging is left as it is, and workers' lines go there.
        log_level: `log.level`: `DEBUG`, `INFO`, `WARNING` or `ERROR`; default INFO with a `log.format`, else what the
            program has set for the logger `hayase`.
        num_stream_threads: `num.stream.threads`: how many bundles run at a time; `None`: the cores Spark has.
        num_standby_replicas: `num.standby.replicas`: followers that run as processes beside the application, each
            with a copy of all stores, which readers may use and from which a worker whose own state is lost
            begins; default 0.
        num_bundles: `num.bundles`: units of scheduling and commit, fixed at the first start; `None`: 2 per thread.
        processing_guarantee: `processing.guarantee`: `exactly_once_v2` or `at_least_once`. The default is
            exactly-once, unlike Kafka Streams', because an epoch is published by one transaction anyway.
        commit_interval_ms: `commit.interval.ms`: the time from one epoch to the next while there is input; default
            100, Kafka Streams' value under exactly-once; 0: at once.
        max_records_per_epoch: `max.records.per.epoch`: an epoch's input while lagging; default 1,000,000.
        max_task_idle_ms: `max.task.idle.ms`: how long a task with several inputs waits for one that has nothing, before it
            reads the others beyond the time that this one has reached; default 0 (it does not wait), as does -1 (KIP-695).
            A run to the end of the input never waits.
        epoch_memory_max_bytes: `epoch.memory.max.bytes`: about what a worker process holds of an epoch in memory: input,
            changes of stores and outputs, a quarter each; what is beyond that is read bit by bit, or goes to files in
            `state.dir`. Default 1 GiB, at least 1 MiB. Results do not depend on it.
        metadata_max_age_ms: `metadata.max.age.ms`: how often the log is asked for new topics that a pattern matches; default
            300,000. Kafka's clients get it too, if it is set.
        metrics_host: `metrics.host`: where `/metrics`, `/health` and `/ready` are served; default 127.0.0.1. Whoever can
            reach it can read them: there is no password.
        metrics_port: `metrics.port`: 0: any free one; default `None`: they are not served.
        metrics_recording_level: `metrics.recording.level`: `INFO` (default), `DEBUG` or `TRACE` (here as DEBUG).
        metrics_sample_window_ms: `metrics.sample.window.ms`: length of a sample of rates, averages and maxima; default 30,000.
        metrics_num_samples: `metrics.num.samples`: how many of them are looked at; default 2.
        processing_form: `processing.form`: `auto`, `rows` (every node takes one record at a time, the reference) or `columns`.
        state_dir: `state.dir`: local folder for state; default `hayase` in the user's state folder
            (`XDG_STATE_HOME`, else `~/.local/state`), so that it outlives a reboot.
        state_memory_dir: `state.memory.dir`: local folder in memory (a tmpfs) for stores that are kept in memory, while the
            application runs; default `hayase-<user id>` in `/dev/shm`, where there is none `memory` in `state.dir`, which is on
            disk. A container's `/dev/shm` is small unless it is told otherwise.
        checkpoint_dir: `checkpoint.dir`: where epochs, deltas and snapshots are published: a local folder, or
            `s3://bucket/folder`; for an S3 store other than Amazon's `s3://bucket/folder?endpoint=https://host:port`,
            also with `region`, `path_style` and `conditional_put` (`hayase.storage.s3_location`); needs `hayase[s3]`;
            credentials come from the environment, `~/.aws` or the machine's role.
            Default `<state.dir>/<application.id>/checkpoint`.
        checkpoint_fsync: `checkpoint.fsync`: survive a power loss, not only a crash; default true. On S3 always so.
        repartition_purge_interval_ms: `repartition.purge.interval.ms`: how often records that every reader is through with
            are deleted from internal topics; default 30,000.
        state_history_retention_ms: `state.history.retention.ms`: how long older epochs stay readable; default 0.
        statestore_cache_max_bytes: `statestore.cache.max.bytes`: 0 passes on every update of a table; any other
            value passes on the last update of each key of an epoch.
        default_key_serde: `default.key.serde`: a Serde, one of the names of `Serdes`, or `None`.
        default_value_serde: `default.value.serde`: as `default.key.serde`, for values.
        default_dsl_store: `default.dsl.store`: where stores are kept whose `Materialized` says nothing: `persistent` (default;
            Kafka Streams' `rocksDB` means the same) or `in_memory`.
        dsl_store_suppliers: `dsl.store.suppliers.class`: as `default.dsl.store`, and wins over it: one of its words, or the name of one of Kafka
            Streams' two classes.
        default_timestamp_extractor: `default.timestamp.extractor`: a TimestampExtractor, a function, one of
            `fail_on_invalid`, `log_and_skip`, `use_partition_time`, `wall_clock`, or `None`: fail on invalid.
        auto_offset_reset: `auto.offset.reset`: where a topic is begun for which there is no position: `earliest` (default), `latest`, `none`
            (an error) or `by_duration:PT1H`: see AutoOffsetReset.
        deserialization_exception_handler: for records that can not be read: a handler's name (`log_and_fail`,
            `log_and_continue`, `dead_letter`) or a function `(ErrorContext, Exception) -> HandlerAnswer`.
        processing_exception_handler: likewise, for user code and expressions that fail.
        production_exception_handler: likewise, for records that can not be written.
        dead_letter_topic: `errors.dead.letter.queue.topic.name`: where handlers send the records of failures; no topic by default.
        replication_factor: `replication.factor`: of topics that Hayase itself makes on Kafka; -1: the brokers' default.
        task_timeout_ms: `task.timeout.ms`: how long errors that pass by themselves (brokers that do not answer, a process of
            Spark's that died) are tried again without any progress before the application fails; default 300,000.
        topology_optimization: `topology.optimization`: counts in `StreamsBuilder.build(settings)`.
        ensure_explicit_naming: `ensure.explicit.internal.resource.naming`: refuse a topology in which a store, a repartition or
            an internal topic has a generated name, which changes when operators are added before it (KIP-1111); default false.
        consumer_properties: for Kafka consumers: common client settings and those with `consumer.`. Security settings are
            librdkafka's (`ssl.ca.location`, `sasl.username`, …) or those of the Java clients that mean the same
            (`hayase.core.kafka_security`); others are refused. Values may refer to where a secret is, `${env:NAME}` for example
            (`hayase.core.secrets`); the process that connects looks there.
        producer_properties: for Kafka producers.
        admin_properties: for Kafka's admin client.
        schema_registry: for serdes that were given no registry: keys that begin with `schema.registry.`, without that
            (`url`; others as in `SchemaRegistry`), and `auto.register.schemas`, `use.latest.version`,
            `normalize.schemas`, `key.subject.name.strategy`, `value.subject.name.strategy`.
        spark_properties: keys that begin with `spark.`, for Spark. `spark.master` says where it runs: `spark://host:port`, `yarn`,
            `k8s://…`; without it on this machine, as `local[n,4]` with n threads. On a cluster `state.dir` is a local folder of
            every machine (one that has it elsewhere says so in the environment variable HAYASE_STATE_DIR of its executors),
            `checkpoint.dir` is a path that all of them share, or on S3, and topics are in Kafka.
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
    log_dir: Path
    num_standby_replicas: int
    log_format: Literal["text", "json"] | None
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] | None
    num_stream_threads: int | None
    num_bundles: int | None
    processing_guarantee: Guarantee
    commit_interval_ms: int
    max_records_per_epoch: int
    max_task_idle_ms: int
    epoch_memory_max_bytes: int
    metadata_max_age_ms: int
    metrics_host: str
    metrics_port: int | None
    metrics_recording_level: Literal["INFO", "DEBUG", "TRACE"]
    metrics_sample_window_ms: int
    metrics_num_samples: int
    processing_form: Form
    state_dir: Path
    state_memory_dir: Path
    checkpoint_dir: str
    checkpoint_fsync: bool
    repartition_purge_interval_ms: int
    state_history_retention_ms: int
    statestore_cache_max_bytes: int
    default_dsl_store: Literal["persistent", "in_memory"]
    dsl_store_suppliers: Literal["persistent", "in_memory"] | None
    default_key_serde: Any
    default_value_serde: Any
    default_timestamp_extractor: Any
    auto_offset_reset: AutoOffsetReset
    deserialization_exception_handler: Handler
    processing_exception_handler: Handler
    production_exception_handler: Handler
    dead_letter_topic: str | None
    replication_factor: int
    task_timeout_ms: int
    topology_optimization: str
    ensure_explicit_naming: bool
    consumer_properties: Mapping[str, str]
    producer_properties: Mapping[str, str]
    admin_properties: Mapping[str, str]
    schema_registry: Mapping[str, Any]
    spark_properties: Mapping[str, str]
    notes: tuple[str, ...]

    def __init__(self, settings: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> None:
        env = os.environ if environ is None else environ
        found, notes = _defaults(env), []
        given, renamed = _current_names(settings)
        notes += renamed
        groups = _Groups()
        for key, value in given.items():
            if key in _NAMES_OF_ATTRIBUTES:
                attribute, parse = _NAMES_OF_ATTRIBUTES[key]
                found[attribute] = parse(key, value)
                if key in CLIENT_KEYS:
                    groups.take(key, value)
            elif (reason := _without_effect(key)) is not None:
                notes.append(f"{key} has no effect: {reason}")
            elif not groups.take(key, value):
                raise _unknown(key)
        if "application_id" not in found:
            raise ConfigError("MISSING_SETTING", "application.id is required: a name for the application")
        found.setdefault("checkpoint_dir", str(found["state_dir"] / found["application_id"] / "checkpoint"))
        found.setdefault("state_memory_dir", _memory_dir(found["state_dir"]))
        notes += _check_optimization(found["topology_optimization"])
        _check_dead_letters(found)
        found |= groups.properties()
        found["notes"] = tuple(notes)
        for attribute, value in found.items():
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
        """Values that may not be shown, such as passwords of Kafka clients; those referred to, as far as they are seen here."""
        clients = (self.consumer_properties, self.producer_properties, self.admin_properties)
        found = [secret for group in clients for secret in client_secrets(group)]
        found += [*known_secrets(self.spark_properties), *known_secrets(self.schema_registry)]
        return tuple(dict.fromkeys(found))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
        return f"StreamsConfig({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, ({name: getattr(self, name) for name in self.__dataclass_fields__},)


def _rebuild(attributes: dict[str, Any]) -> StreamsConfig:
    made = object.__new__(StreamsConfig)
    for name, value in attributes.items():
        object.__setattr__(made, name, value)
    return made


def _defaults(env: Mapping[str, str]) -> dict[str, Any]:
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
        "log_dir": data / "hayase" / "log",
        "log_format": None,
        "log_level": None,
        "max_records_per_epoch": 1_000_000,
        "max_task_idle_ms": 0,
        "metadata_max_age_ms": 300_000,
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
        "processing_guarantee": "exactly_once_v2",
        "production_exception_handler": "log_and_fail",
        "repartition_purge_interval_ms": 30_000,
        "replication_factor": -1,
        "state_dir": state / "hayase",
        "state_history_retention_ms": 0,
        "statestore_cache_max_bytes": 10 * 1024 * 1024,
        "task_timeout_ms": 300_000,
        "topology_optimization": "none",
        "ensure_explicit_naming": False,
    }


def _memory_dir(state_dir: Path) -> Path:
    shared = Path("/dev/shm")
    if shared.is_dir() and os.access(shared, os.W_OK):
        return shared / f"hayase-{os.getuid()}"
    return state_dir / "memory"


def _current_names(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The settings under today's names, and a note for each that was renamed."""
    given: dict[str, Any] = {}
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


class _Groups:
    """Settings that are passed on: to Kafka's clients, to the schema registry's client and to Spark."""

    def __init__(self) -> None:
        self._common: dict[str, str] = {}
        self._spark: dict[str, str] = {}
        self._registry: dict[str, Any] = {}
        self._clients: dict[str, dict[str, str]] = {name: {} for name in _CLIENTS.values()}

    def take(self, key: str, value: Any) -> bool:
        """Keep the setting if it belongs to one of the groups."""
        if key.startswith("spark."):
            self._spark[key] = values.spark_master(key, value) if key == "spark.master" else _as_text(value)
        elif key.startswith(_REGISTRY_PREFIX) or key in _REGISTRY_KEYS:
            self._registry[key.removeprefix(_REGISTRY_PREFIX)] = value
        elif key in CLIENT_KEYS:
            self._common[CLIENT_KEYS[key]] = _as_text(value)
        elif is_security_key(key):
            self._common[key] = _as_text(value)
        elif (prefix := next((each for each in _CLIENTS if key.startswith(each)), None)) is not None:
            self._clients[_CLIENTS[prefix]][key.removeprefix(prefix)] = _as_text(value)
        else:
            return False
        return True

    def properties(self) -> dict[str, Mapping[str, str]]:
        """By attribute; what is said for one client wins over what is said for all. Raises ConfigError."""
        found: dict[str, Mapping[str, str]] = {
            name: Settings({**self._common, **own}) for name, own in self._clients.items()
        }
        for client in found.values():
            check_security(client)
        check_references(self._registry)
        found["schema_registry"] = Settings(self._registry)
        found["spark_properties"] = Settings(self._spark)
        return found


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_effect(key: str) -> str | None:
    if key in WITHOUT_EFFECT:
        return WITHOUT_EFFECT[key]
    return next((reason for prefix, reason in PREFIXES_WITHOUT_EFFECT.items() if key.startswith(prefix)), None)


def _unknown(key: str) -> ConfigError:
    known = [*_NAMES_OF_ATTRIBUTES, *_REGISTRY_KEYS, f"{_REGISTRY_PREFIX}url", *WITHOUT_EFFECT, *CLIENT_KEYS, *RENAMED]
    dotted = key.replace("_", ".").lower()
    near = difflib.get_close_matches(dotted, known, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]!r}?" if near else "keys for Spark begin with 'spark.', for Kafka's clients with "
    if not near:
        advice += "'consumer.', 'producer.' or 'admin.'"
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
    return [f"{built}. Only merge.repartition.topics changes something: changelogs are no topics here"]


def _check_dead_letters(found: Mapping[str, Any]) -> None:
    for stage in ("deserialization", "processing", "production"):
        if found[f"{stage}_exception_handler"] == "dead_letter" and found["dead_letter_topic"] is None:
            raise ConfigError(
                "MISSING_SETTING",
                f"{stage}.exception.handler is dead_letter; set errors.dead.letter.queue.topic.name as well",
                setting="errors.dead.letter.queue.topic.name",
            )
