"""Keys that sinks into databases share, under the names of Debezium's JDBC sink."""

from __future__ import annotations

from enum import StrEnum

from hayase.connect.config.config_def import ConfigDef, Importance
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import non_empty, one_of

WRITES, TABLES = "Writes", "Tables"


class InsertMode(StrEnum):
    """What becomes of a record with a value."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


class PrimaryKeyMode(StrEnum):
    """Where the primary key of a row comes from."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


class SchemaEvolution(StrEnum):
    """What happens to a table that lacks a column."""

    NONE = "none"
    BASIC = "basic"


def sql_sink_keys() -> ConfigDef:
    """The keys."""
    return (
        ConfigDef()
        .define(
            "insert.mode", ConfigType.STRING, "insert", one_of(*InsertMode, ignore_case=True), Importance.HIGH,
            "How records with a value are written: insert, upsert (by primary key) or update (rows that exist).",
            group=WRITES, display_name="Insert mode",
        )
        .define(
            "delete.enabled", ConfigType.BOOLEAN, False, None, Importance.HIGH,
            "Whether a tombstone deletes the row with the record's key; else tombstones are skipped. Needs "
            "primary.key.mode=record_key.",
            group=WRITES, display_name="Delete by tombstone",
        )
        .define(
            "primary.key.mode", ConfigType.STRING, "none", one_of(*PrimaryKeyMode, ignore_case=True), Importance.HIGH,
            "Where the primary key comes from: none; kafka: topic, partition and offset of the record; record_key; "
            "record_value.",
            group=WRITES, display_name="Primary key mode",
        )
        .define(
            "primary.key.fields", ConfigType.LIST, [], None, Importance.HIGH,
            "Columns of the primary key. record_key: fields of the key, all unless given, or the name of the column of "
            "a key that is no struct; record_value: fields of the value.",
            group=WRITES, display_name="Primary key fields",
        )
        .define(
            "collection.name.format", ConfigType.STRING, "${topic}", non_empty, Importance.MEDIUM,
            "Name of the table; ${topic} stands for the topic, with dots as underscores.",
            group=TABLES, display_name="Table name",
        )
        .define(
            "auto.create", ConfigType.BOOLEAN, False, None, Importance.MEDIUM,
            "Whether a table that does not exist is made from the first record's schema.",
            group=TABLES, display_name="Make tables",
        )
        .define(
            "schema.evolution", ConfigType.STRING, "none", one_of(*SchemaEvolution, ignore_case=True),
            Importance.MEDIUM,
            "basic: a field without a column gets one, optional; columns are never narrowed or dropped.",
            group=TABLES, display_name="Schema evolution",
        )
    )  # fmt: skip
