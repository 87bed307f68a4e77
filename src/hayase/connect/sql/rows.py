"""From records to changes of rows."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.connect.columns import RecordColumns
from hayase.connect.config.config_def import TypedConfig
from hayase.connect.exceptions import DataError
from hayase.connect.model import SinkRecord
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.sql.row_change import ENVELOPE, KAFKA_KEY, RowChange, RowChangeKind
from hayase.connect.sql.row_columns import RowColumns, row_columns
from hayase.connect.sql.sink_config import InsertMode, PrimaryKeyMode

_SCHEMAS_MAX = 256


class RowMapper:
    """Makes changes of rows from records, by the settings of the sink.

    A value in Debezium's envelope is taken for the row that it holds.

    Args:
        config: with the keys of `sql_sink_keys`.
    """

    def __init__(self, config: TypedConfig) -> None:
        self.insert_mode = InsertMode(config.string("insert.mode").lower())
        self._delete = config.bool("delete.enabled")
        self._mode = PrimaryKeyMode(config.string("primary.key.mode").lower())
        self._fields = config.list("primary.key.fields")
        self._table = config.string("collection.name.format")
        self._tables: dict[str, str] = {}
        # By identity: comparing schemas costs more than all else. They are kept, so that their ids stay theirs.
        self._schemas: dict[int, tuple[ConnectSchema, Mapping[str, ConnectSchema]]] = {}

    def change(self, record: SinkRecord) -> RowChange | None:
        """The change that a record makes; `None`: none.

        Raises:
            DataError: the record does not have what the settings say that it has.
        """
        schema, value = _unwrapped(record)
        table = self._table_of(record.topic)
        if value is None:
            return RowChange(table, RowChangeKind.DELETE, self._record_key(record)[0], {}, {}) if self._delete else None
        row = _fields_of(value, "value", record)
        schemas = self._schemas_of(schema)
        key, key_schemas = self._key(record, row, schemas)
        values = {name: each for name, each in row.items() if name not in key} if key else row
        if key_schemas and key_schemas is not schemas:
            schemas = {**schemas, **key_schemas}
        return RowChange(table, RowChangeKind.WRITE, key, values, schemas)

    def columns(self, records: RecordColumns) -> RowColumns | None:
        """The changes of several records; `None`: they have to be looked at one by one.

        Raises:
            DataError: a value does not fit its schema.
        """
        table = self._table_of(records.topic)
        return row_columns(records, table, self._mode, self._fields, deletes=self._delete)

    def _table_of(self, topic: str) -> str:
        table = self._tables.get(topic)
        if table is None:
            table = self._tables[topic] = self._table.replace("${topic}", topic.replace(".", "_"))
        return table

    def _schemas_of(self, schema: ConnectSchema | None) -> Mapping[str, ConnectSchema]:
        if schema is None:
            return {}
        found = self._schemas.get(id(schema))
        if found is None:
            if len(self._schemas) >= _SCHEMAS_MAX:
                self._schemas.clear()
            found = self._schemas[id(schema)] = (schema, _schemas_of(schema))
        return found[1]

    def _key(
        self, record: SinkRecord, row: Mapping[str, object], schemas: Mapping[str, ConnectSchema]
    ) -> tuple[dict[str, object], Mapping[str, ConnectSchema]]:
        if self._mode is PrimaryKeyMode.RECORD_KEY:
            return self._record_key(record)
        if self._mode is PrimaryKeyMode.RECORD_VALUE:
            return _picked(row, self._fields, "value", record), schemas
        if self._mode is PrimaryKeyMode.KAFKA:
            return dict(zip(KAFKA_KEY, (record.topic, record.kafka_partition, record.kafka_offset), strict=True)), {}
        return {}, {}

    def _record_key(self, record: SinkRecord) -> tuple[dict[str, object], Mapping[str, ConnectSchema]]:
        if isinstance(record.key, dict):
            fields = self._fields or list(record.key)
            return _picked(record.key, fields, "key", record), self._schemas_of(record.key_schema)
        if record.key is None or len(self._fields) != 1:
            raise DataError(
                "NO_PRIMARY_KEY",
                "the key of the record is "
                + ("null" if record.key is None else "no struct, so primary.key.fields must name the one column")
                + "; primary.key.mode=record_key makes the primary key of it",
                topic=record.topic,
                offset=record.kafka_offset,
            )
        schemas = {} if record.key_schema is None else {self._fields[0]: record.key_schema}
        return {self._fields[0]: record.key}, schemas


def _unwrapped(record: SinkRecord) -> tuple[ConnectSchema | None, object]:
    value, schema = record.value, record.value_schema
    if isinstance(value, dict) and value.keys() >= ENVELOPE:
        after = None if schema is None else schema.field("after")
        return None if after is None else after.schema, value["after"]
    return schema, value


def _fields_of(value: object, what: str, record: SinkRecord) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise DataError(
        "NO_ROW",
        f"the {what} of the record is of class {type(value).__name__}: a row needs a struct, or a map without a "
        "schema. HoistField makes one of a single value",
        topic=record.topic,
        offset=record.kafka_offset,
    )


def _schemas_of(schema: ConnectSchema | None) -> Mapping[str, ConnectSchema]:
    if schema is None or schema.type is not SchemaType.STRUCT:
        return {}
    return {field.name: field.schema for field in schema.fields}


def _picked(row: Mapping[str, object], fields: list[str], what: str, record: SinkRecord) -> dict[str, object]:
    try:
        return {name: row[name] for name in fields}
    except KeyError as lacking:
        raise DataError(
            "NO_PRIMARY_KEY",
            f"the {what} of the record has no field {lacking}, which primary.key.fields names; it has "
            + ", ".join(map(str, row)),
            topic=record.topic,
            offset=record.kafka_offset,
        ) from None
