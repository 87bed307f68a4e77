"""Ranges that are written by column make the rows that records make one by one."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.budget import examples
from tests.unit.connect.test_json_columns import TYPES, schema_json, some_row

from hayase.connect.schema import INT32_SCHEMA, STRING_SCHEMA, ConnectSchema, struct_schema
from hayase.connect.sql.postgres_sink import PostgresSinkTask
from hayase.connect.sql.postgres_writer import RowWriter
from hayase.log.protocol import Log, OutputBatch
from hayase.testing.connect import ConnectorTestDriver
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.postgres
KEY_SCHEMA = struct_schema({"id": INT32_SCHEMA, "part": STRING_SCHEMA})
SCHEMAS = (("by_column", True), ("by_row", False))
TEXT_KEYS = {"key.converter": "StringConverter", "primary.key.mode": "record_key", "primary.key.fields": "id"}
MODES = (
    {"insert.mode": "upsert", "delete.enabled": "true", **TEXT_KEYS},
    {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"},
    {"insert.mode": "upsert", "primary.key.mode": "record_key"},
    {"insert.mode": "upsert", "primary.key.mode": "record_key", "primary.key.fields": "id"},
    {"insert.mode": "upsert", "primary.key.mode": "record_value", "primary.key.fields": "id"},
    {"insert.mode": "upsert", "primary.key.mode": "kafka"},
    {"insert.mode": "insert", "primary.key.mode": "kafka"},
    {"insert.mode": "insert"},
    {"insert.mode": "update", "primary.key.mode": "record_key"},
)
PLAIN: dict[str, list[Any]] = {
    "number": [1, -5, None],
    "rate": [0.5, 1e300, 1e-7, None],
    "flag": [True, False, None],
    "text": ["", "\\N", "a\tb\nc\rd\\", "ä€😀", '"', None],
    "list": [[], [1, "x"], None],
    "object": [{}, {"a": [None, 1.5]}, None],
}


class Records:
    """Random records of a topic, as a connector would write them."""

    def __init__(self, seed: int, *, text_keys: bool) -> None:
        self.text_keys = text_keys
        self.random = random.Random(seed)
        self.schemas = self.random.random() < 0.6
        self.envelope = self.random.random() < 0.4
        names = self.random.sample(list(TYPES), 4)
        fields = {
            name: TYPES[name][0] if self.random.random() < 0.5 else TYPES[name][0].as_optional() for name in names
        }
        self.schema = struct_schema({"id": INT32_SCHEMA, **fields})
        self.plain = self.random.sample(list(PLAIN), 4)

    def batch(self, count: int) -> OutputBatch:
        """Some records, those of one key in order; the first of all has a row without null."""
        pairs = [self._pair(number) for number in range(count)]
        return OutputBatch("rows", [key for key, _ in pairs], [value for _, value in pairs], [0] * count)

    def _pair(self, number: int) -> tuple[bytes, bytes | None]:
        identity = self.random.randrange(12)
        key = {"id": identity, "part": self.random.choice("ab")}
        row = self._row(identity, nulls=number > 0)
        written = f"ä{identity}".encode() if self.text_keys else self._written(KEY_SCHEMA, key)
        if number and self.random.random() < 0.2:
            return written, None
        if not self.envelope:
            return written, self._written(self.schema, row)
        gone = number > 0 and self.random.random() < 0.2
        change = {"before": None, "after": None if gone else row, "source": {}, "op": "d" if gone else "c"}
        described = {
            "before": self.schema.as_optional(), "after": self.schema.as_optional(), "source": struct_schema({}),
            "op": STRING_SCHEMA,
        }  # fmt: skip
        return written, self._written(struct_schema(described), change)

    def _row(self, number: int, *, nulls: bool = True) -> dict[str, Any]:
        if not self.schemas:
            choices = {name: PLAIN[name] if nulls else PLAIN[name][:-1] for name in self.plain}
            return {"id": number, **{name: self.random.choice(each) for name, each in choices.items()}}
        return {**some_row(self.random, self.schema, 0.0), "id": number}

    def _written(self, schema: ConnectSchema, value: Any) -> bytes:
        if not self.schemas:
            return json.dumps(value).encode()
        described = json.dumps(schema_json(schema), separators=(",", ":"))
        return f'{{"schema":{described},"payload":{json.dumps(value)}}}'.encode()


@pytest.mark.parametrize("seed", range(max(len(MODES), examples(60))))
def test_rows_written_by_column_are_those_that_are_written_one_by_one(
    postgres_server: PostgresServer, database: str, log: Log, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    mode = MODES[seed % len(MODES)]
    records = Records(seed, text_keys="key.converter" in mode)
    log.create_topic("rows", 1, {})
    written: list[object] = []
    write_columns = RowWriter.write_columns

    def noted(self: RowWriter, *given: Any) -> None:
        written.append(given)
        write_columns(self, *given)

    monkeypatch.setattr(RowWriter, "write_columns", noted)
    sinks = []
    with postgres_server.connect(database) as connection:
        for schema, columns in SCHEMAS:
            connection.execute(f"CREATE SCHEMA {schema}")
            props = {
                "connector.class": "hayase.PostgresSinkConnector", "name": schema, "topics": "rows",
                "connection.url": f"postgresql://{postgres_server.host}:{postgres_server.port}/{database}",
                "connection.username": USER, "connection.password": PASSWORD, "connection.schema": schema,
                "auto.create": "true", "schema.evolution": "basic",
                **{f"{part}.converter": "JsonConverter" for part in ("key", "value")}, **mode,
                **{f"{part}.converter.schemas.enable": str(records.schemas).lower() for part in ("key", "value")},
            }  # fmt: skip
            sinks.append((ConnectorTestDriver(props, log=log), columns))
        for count in (1, 30, 30):
            log.writer().append([records.batch(count)])
            for sink, columns in sinks:
                monkeypatch.setattr(PostgresSinkTask, "takes_columns", columns)
                sink.run_to_end()
        for sink, _ in sinks:
            sink.close()
        described = (
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = 'rows' ORDER BY 1"
        )
        by_column, by_row = (connection.execute(described, (schema,)).fetchall() for schema, _ in SCHEMAS)
        assert by_column == by_row
        names = ", ".join(f'"{name}"' for name, _ in by_row)
        rows = [
            connection.execute(f"SELECT t::text FROM (SELECT {names} FROM {schema}.rows) t ORDER BY 1").fetchall()
            for schema, _ in SCHEMAS
        ]
    assert rows[0] == rows[1]
    if mode["insert.mode"] != "update" and not (records.schemas and records.schema.field("tags")):
        assert written  # otherwise rows were compared with rows: arrays are written by the driver
