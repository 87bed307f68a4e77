"""Avro in columns gives what Avro in rows gives, whatever schema a record was written by."""

from __future__ import annotations

import json
import pickle
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hayase.core.errors import SerializationError
from hayase.serde.protocol import Serde
from hayase.serde.registry import RegistrySchema
from hayase.sql.formats.avro_codec import AvroRowsCodec
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import SCHEMA_ID, FormatInfo
from hayase.sql.formats.row_columns import RowByRowCodec
from hayase.sql.formats.serdes import value_serde
from hayase.sql.registry import EmbeddedSchemaRegistry
from hayase.sql.types import sql_types as sql

BAD = "bad"
INNER = sql.StructType((("X", sql.INTEGER), ("Y", sql.STRING)))
COLUMNS = [
    Column("A", sql.INTEGER),
    Column("B", sql.STRING),
    Column("C", sql.DOUBLE),
    Column("D", sql.TIMESTAMP),
    Column("E", sql.ArrayType(sql.BIGINT)),
    Column("F", INNER),
    Column("G", sql.TIME),
]
ROW = {"A": 1, "B": "x", "C": 2.5, "D": 2**60, "E": [1, None], "F": {"X": 1, "Y": None}, "G": 5}
_INNER = {"type": "record", "name": "inner", "fields": [{"name": "X", "type": "int"}, {"name": "Y", "type": "string"}]}
_SWAPPED = {
    "type": "record",
    "name": "other",
    "fields": [{"name": "Y", "type": "string"}, {"name": "X", "type": "int"}],
}
WRITERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"A": "int", "B": "string", "more": "long"}, {"A": 1, "B": "x", "more": 9}),
    ({"A": "int", "a": "string"}, {"A": 1, "a": "x"}),
    ({"a": "int", "b": "string"}, {"a": 1, "b": "x"}),
    ({"A": "long", "C": "int"}, {"A": 1, "C": 2}),
    ({"A": "string", "B": "int"}, {"A": "x", "B": 1}),
    ({"B": ["string", "int"]}, {"B": 1}),
    ({"D": {"type": "long", "logicalType": "timestamp-millis"}}, {"D": 1700000000000}),
    ({"F": _INNER, "E": {"type": "array", "items": "long"}}, {"F": {"X": 1, "Y": "y"}, "E": [1]}),
    ({"F": _SWAPPED}, {"F": {"X": 1, "Y": "y"}}),
]


def records(registry: EmbeddedSchemaRegistry) -> list[bytes]:
    """A record by each of the writers, and one by our own schema."""
    made = []
    for number, (types, value) in enumerate(WRITERS):
        fields = [{"name": name, "type": type_} for name, type_ in types.items()]
        schema = {"type": "record", "name": "r", "fields": fields}
        schema_id = registry.register(f"w{number}", RegistrySchema(json.dumps(schema)))
        target = BytesIO()
        fastavro.schemaless_writer(target, schema, value)
        made.append(b"\0" + schema_id.to_bytes(4, "big") + target.getvalue())
    own = value_serde(FormatInfo("AVRO"), COLUMNS, topic="t", registry=registry).serialize(ROW)
    assert own is not None
    return [*made, own]


def in_rows(serde: Serde[Any], data: bytes | None) -> Any:
    try:
        return serde.deserialize(data)
    except SerializationError:
        return BAD


REGISTRY = EmbeddedSchemaRegistry()
RECORDS = records(REGISTRY)
DAMAGED = [data[:-1] for data in RECORDS] + [b"", b"\0\0\0\0\x63x"]


@pytest.mark.long
@settings(max_examples=100)
@given(
    st.one_of(
        st.sampled_from(RECORDS).flatmap(
            lambda data: st.lists(st.sampled_from([data, data, data[:-1], None]), min_size=1, max_size=5)
        ),
        st.lists(st.sampled_from([*RECORDS, *DAMAGED, None]), max_size=5),
    )
)
def test_rows_and_columns_read_the_same(data: list[bytes | None]) -> None:
    serde = value_serde(FormatInfo("AVRO"), COLUMNS, topic="t", registry=REGISTRY)
    codec = serde.columns
    assert codec is not None
    decoded = codec.decode_list(data)
    bad = {at for at, _ in decoded.bad}
    rows = codec.to_python(decoded.frame, decoded.null)
    expected = [in_rows(serde, each) for each in data]
    assert [BAD if at in bad else row for at, row in enumerate(rows)] == expected


@pytest.mark.parametrize("row", [ROW, dict.fromkeys(ROW), {**ROW, "A": -(2**31), "B": "é", "E": []}])
def test_rows_and_columns_write_the_same(row: dict[str, Any]) -> None:
    serde = value_serde(FormatInfo("AVRO"), COLUMNS, topic="t", registry=REGISTRY)
    codec = serde.columns
    assert codec is not None
    frame, null = codec.from_python([row, None])
    assert codec.encode(frame, null) == [serde.serialize(row), None]


def test_records_of_our_own_schema_are_read_at_once() -> None:
    codec = value_serde(FormatInfo("AVRO"), COLUMNS[:3], topic="u", registry=REGISTRY).columns
    assert isinstance(codec, AvroRowsCodec)
    frame, _ = codec.from_python([{"A": 1, "B": "x", "C": 0.5}])
    (data,) = codec.encode(frame)
    assert data is not None
    assert codec._reading(data[:5]) is not None
    assert codec.decode_list([data], frozenset({"B"})).frame.to_dict(as_series=False) == {"B": ["x"]}


def test_bad_rows_are_refused() -> None:
    codec = value_serde(FormatInfo("AVRO"), COLUMNS, topic="t", registry=REGISTRY).columns
    assert codec is not None
    with pytest.raises(SerializationError, match="does not fit its columns"):
        codec.from_python([{"A": 1}])


def test_values_by_the_id_of_a_schema_are_written_row_by_row() -> None:
    by_id = FormatInfo("AVRO", ((SCHEMA_ID, "1"),))
    assert isinstance(value_serde(by_id, COLUMNS, topic="t", registry=REGISTRY).columns, RowByRowCodec)


def test_the_codec_can_be_pickled() -> None:
    codec = value_serde(FormatInfo("AVRO"), COLUMNS, topic="t", registry=REGISTRY).columns
    copy = pickle.loads(pickle.dumps(codec))
    assert copy.decode_list([RECORDS[-1]]).frame["A"].to_list() == [1]
