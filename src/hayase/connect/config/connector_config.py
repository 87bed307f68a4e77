"""Keys that every connector takes, whichever it is: converters, transforms, errors, topics."""

from __future__ import annotations

from hayase.connect.config.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance, Width
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import (
    all_of,
    at_least,
    non_empty_without_control_characters,
    one_of,
    regular_expression,
)

COMMON, TRANSFORMS, PREDICATES, ERRORS = "Common", "Transforms", "Predicates", "Error Handling"
TOPIC_CREATION, EXACTLY_ONCE, OFFSETS_TOPIC = "Topic Creation", "Exactly Once Support", "offsets.topic"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _INT, _LONG = ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_LIST, _CLASS, _BOOLEAN = ConfigType.LIST, ConfigType.CLASS, ConfigType.BOOLEAN


def _common() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "name", _STRING, NO_DEFAULT, all_of(non_empty_without_control_characters), _HIGH,
            "Name of the connector, unique in its worker.",
            group=COMMON, width=Width.MEDIUM, display_name="Connector name",
        )
        .define(
            "connector.class", _STRING, NO_DEFAULT, None, _HIGH,
            "Class of the connector: its full name, or its short name with or without the suffix Connector.",
            group=COMMON, width=Width.LONG, display_name="Connector class",
        )
        .define(
            "connector.plugin.version", _STRING, None, None, _MEDIUM,
            "Version of the connector, if several are installed.",
            group=COMMON, width=Width.MEDIUM, display_name="Connector version",
        )
        .define(
            "tasks.max", _INT, 1, at_least(1), _HIGH,
            "How many tasks the connector may have.",
            group=COMMON, width=Width.SHORT, display_name="Tasks max",
        )
        .define(
            "tasks.max.enforce", _BOOLEAN, True, None, _LOW,
            "Whether a connector that asks for more tasks than tasks.max fails; else there is a warning.",
            group=COMMON, width=Width.SHORT, display_name="Enforce tasks max",
        )
        .define(
            "key.converter", _CLASS, None, None, _LOW,
            "Converter of keys; the worker's own unless given.",
            group=COMMON, width=Width.SHORT, display_name="Key converter class",
        )
        .define(
            "value.converter", _CLASS, None, None, _LOW,
            "Converter of values; the worker's own unless given.",
            group=COMMON, width=Width.SHORT, display_name="Value converter class",
        )
        .define(
            "header.converter", _CLASS, None, None, _LOW,
            "Converter of headers; the worker's own unless given.",
            group=COMMON, width=Width.SHORT, display_name="Header converter class",
        )
        .define(
            "transforms", _LIST, [], None, _LOW,
            "Aliases of the transforms, in the order in which they are applied.",
            group=TRANSFORMS, width=Width.LONG, display_name="Transforms",
        )
        .define(
            "predicates", _LIST, [], None, _LOW,
            "Aliases of the predicates that transforms use.",
            group=PREDICATES, width=Width.LONG, display_name="Predicates",
        )
        .define(
            "config.action.reload", _STRING, "restart", one_of("none", "restart"), _LOW,
            "What happens when a value changes that a ${…} reference of the configuration names: nothing, or a restart "
            "of the connector.",
            group=COMMON, width=Width.MEDIUM, display_name="Reload action",
        )
        .define(
            "errors.retry.timeout", _LONG, 0, at_least(-1), _MEDIUM,
            "How long, in milliseconds, a step is tried again that failed and may succeed later; -1: forever.",
            group=ERRORS, width=Width.MEDIUM, display_name="Retry Timeout for Errors",
        )
        .define(
            "errors.retry.delay.max.ms", _LONG, 60_000, at_least(1), _MEDIUM,
            "The longest pause between two such attempts.",
            group=ERRORS, width=Width.MEDIUM, display_name="Maximum Delay Between Retries for Errors",
        )
        .define(
            "errors.tolerance", _STRING, "none", one_of("none", "all", ignore_case=True), _MEDIUM,
            "What happens to a record that fails: none: the task fails; all: the record is left out, counted, and sent "
            "to the dead-letter topic of a sink.",
            group=ERRORS, width=Width.SHORT, display_name="Error Tolerance",
        )
        .define(
            "errors.log.enable", _BOOLEAN, False, None, _MEDIUM,
            "Whether failures that are tolerated are logged.",
            group=ERRORS, width=Width.SHORT, display_name="Log Errors",
        )
        .define(
            "errors.log.include.messages", _BOOLEAN, False, None, _MEDIUM,
            "Whether the log shows the record that failed.",
            group=ERRORS, width=Width.SHORT, display_name="Log Error Details",
        )
    )  # fmt: skip


def source_config() -> ConfigDef:
    """Keys of every source connector."""
    return (
        _common()
        .define(
            "topic.creation.groups", _LIST, [], None, _LOW,
            "Aliases of groups of topics that are made with settings of their own (topic.creation.ALIAS.…).",
            group=TOPIC_CREATION, width=Width.LONG, display_name="Topic Creation Groups",
        )
        .define(
            "exactly.once.support", _STRING, "requested", one_of("requested", "required", ignore_case=True), _MEDIUM,
            "required: the connector is refused unless it says that each record comes exactly once with this "
            "configuration. Records and offsets are published in one transaction in any case.",
            group=EXACTLY_ONCE, width=Width.SHORT, display_name="Exactly once support",
        )
        .define(
            "transaction.boundary", _STRING, "poll", one_of("poll", "interval", "connector", ignore_case=True), _MEDIUM,
            "Where transactions may end: behind what a poll gave, after an interval, or where the connector says.",
            group=EXACTLY_ONCE, width=Width.SHORT, display_name="Transaction Boundary",
        )
        .define(
            "transaction.boundary.interval.ms", _LONG, None, _interval, _LOW,
            "The interval of transaction.boundary=interval; offset.flush.interval.ms of the worker unless given.",
            group=EXACTLY_ONCE, width=Width.MEDIUM, display_name="Transaction boundary interval",
        )
        .define(
            "offsets.storage.topic", _STRING, None, non_empty_without_control_characters, _LOW,
            "A topic for the connector's offsets alone; the worker's offset.storage.topic unless given.",
            group=OFFSETS_TOPIC, width=Width.LONG, display_name="Offsets topic",
        )
    )  # fmt: skip


def _interval(name: str, value: object) -> None:
    if value is not None:
        at_least(0)(name, value)


def sink_config() -> ConfigDef:
    """Keys of every sink connector."""
    definition = ConfigDef()
    for key in _common().keys.values():
        definition.embed(ConfigDef([key]))
        if key.name == "tasks.max.enforce":
            _add_topics(definition)
    return (
        definition.define(
            "errors.deadletterqueue.topic.name", _STRING, "", None, _MEDIUM,
            "Topic for records that fail; none unless given.",
            group=ERRORS, width=Width.MEDIUM, display_name="Dead Letter Queue Topic Name",
        )
        .define(
            "errors.deadletterqueue.topic.replication.factor", ConfigType.SHORT, 3, None, _MEDIUM,
            "Replicas of that topic if it is made on a Kafka cluster.",
            group=ERRORS, width=Width.MEDIUM, display_name="Dead Letter Queue Topic Replication Factor",
        )
        .define(
            "errors.deadletterqueue.context.headers.enable", _BOOLEAN, False, None, _MEDIUM,
            "Whether records of that topic say in headers (__connect.errors.…) where and why they failed.",
            group=ERRORS, width=Width.MEDIUM, display_name="Enable Error Context Headers",
        )
    )  # fmt: skip


def _add_topics(definition: ConfigDef) -> None:
    definition.define(
        "topics", _LIST, [], None, _HIGH,
        "Topics that the sink reads.",
        group=COMMON, width=Width.LONG, display_name="Topics",
    ).define(
        "topics.regex", _STRING, "", regular_expression, _HIGH,
        "Regular expression of the topics that the sink reads, instead of topics.",
        group=COMMON, width=Width.LONG, display_name="Topics regex",
    )  # fmt: skip


def transform_keys(alias: str) -> ConfigDef:
    """Keys of one transform of a connector, apart from those that its class defines."""
    group = f"Transforms: {alias}"
    return ConfigDef(
        [
            ConfigKey(
                f"transforms.{alias}.type", _CLASS, NO_DEFAULT, None, _HIGH, f"Class of the transform {alias}.",
                group, 0, Width.LONG, f"Transformation type for {alias}",
            ),
            ConfigKey(
                f"transforms.{alias}.predicate", _STRING, None, None, _MEDIUM,
                "Alias of the predicate that says to which records it is applied.",
                group, 1, Width.LONG, "Predicate",
            ),
            ConfigKey(
                f"transforms.{alias}.negate", _BOOLEAN, False, None, _MEDIUM,
                "Whether it is applied where the predicate does not hold.",
                group, 2, Width.LONG, "Negate",
            ),
        ]
    )  # fmt: skip


def predicate_keys(alias: str) -> ConfigDef:
    """Keys of one predicate of a connector, apart from those that its class defines."""
    return ConfigDef(
        [
            ConfigKey(
                f"predicates.{alias}.type", _CLASS, NO_DEFAULT, None, _HIGH, f"Class of the predicate {alias}.",
                f"Predicates: {alias}", 0, Width.LONG, f"Predicate type for {alias}",
            )
        ]
    )  # fmt: skip


TOPIC_CREATION_PREFIX = "topic.creation."
DEFAULT_GROUP = "default"


def topic_creation_keys(group: str) -> ConfigDef:
    """Keys of one group of topics; those of the default group have no patterns."""
    prefix = f"{TOPIC_CREATION_PREFIX}{group}."
    definition = ConfigDef()
    if group != DEFAULT_GROUP:
        definition.define(
            prefix + "include", _LIST, [], None, _LOW,
            "Regular expressions of names of topics that belong to the group.",
            group=TOPIC_CREATION, width=Width.LONG,
        ).define(
            prefix + "exclude", _LIST, [], None, _LOW,
            "Regular expressions of names of topics that do not, though they match include.",
            group=TOPIC_CREATION, width=Width.LONG,
        )  # fmt: skip
    required = NO_DEFAULT if group == DEFAULT_GROUP else None
    return definition.define(
        prefix + "replication.factor", ConfigType.SHORT, required, _count, _LOW,
        "Replicas of topics that are made; -1: as the cluster says.",
        group=TOPIC_CREATION, width=Width.LONG,
    ).define(
        prefix + "partitions", _INT, required, _count, _LOW,
        "Partitions of topics that are made; -1: as the cluster says.",
        group=TOPIC_CREATION, width=Width.LONG,
    )  # fmt: skip


def _count(name: str, value: object) -> None:
    if value is not None and value != -1:
        at_least(1)(name, value)
