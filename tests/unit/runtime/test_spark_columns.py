"""From Spark rows to records and back: which columns and types there may be, and what becomes of them. No JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from hayase.core.errors import HayaseError, SerializationError, TopologyError
from hayase.log.protocol import RecordBatch
from hayase.runtime.spark_io.frame_columns import FrameColumns, spark_schema, spark_type
from hayase.runtime.spark_io.range_frames import to_rows
from hayase.serde import Serdes
from hayase.serde.murmur2 import partitions_for_keys
from hayase.serde.protocol import Schema, Serde

TEXT = Serdes.string()
ORDER = Serdes.json(schema={"item": pl.String, "amount": pl.Int64})
HEADER = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
PARTITIONS = 4
NOW_MS = 1_000_000


SIMPLE = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "void": NullType(),
    "map<string,string>": MapType(StringType(), StringType()),
}


def type_of(text: str) -> DataType:
    """Spark's own reading of types needs a JVM."""
    if text.startswith("array<"):
        return ArrayType(type_of(text[6:-1]))
    if text.startswith("struct<"):
        pairs = (pair.split(":", 1) for pair in text[7:-1].split(","))
        return StructType([StructField(name, type_of(dtype)) for name, dtype in pairs])
    return SIMPLE[text]


def schema(**types: str | DataType) -> StructType:
    return StructType([StructField(name, type_of(t) if isinstance(t, str) else t) for name, t in types.items()])


def columns(frame: StructType, key: Serde[Any] = TEXT, value: Serde[Any] = TEXT) -> FrameColumns:
    return FrameColumns("clicks", frame, key, value)


def records(frame: StructType, rows: list[dict[str, Any]], *serdes: Serde[Any]) -> Any:
    table = pa.Table.from_pylist(rows, schema=to_arrow_schema(frame, timezone="UTC"))
    return columns(frame, *serdes).records(table, "topic", PARTITIONS, NOW_MS)


def wrong(frame: StructType, *serdes: Serde[Any]) -> HayaseError:
    with pytest.raises(TopologyError) as caught:
        columns(frame, *serdes)
    assert caught.value.condition == "INVALID_SPARK_FRAME"
    assert "'clicks'" in caught.value.message
    assert "\n" not in str(caught.value)
    return caught.value


def test_binary_and_string_columns_are_the_bytes_as_they_are() -> None:
    rows = [{"key": "é", "value": b"\xff"}, {"key": None, "value": None}]
    found = records(schema(key="string", value="binary"), rows, TEXT, Serdes.bytes())
    assert (found.keys, found.values, found.timestamps_ms) == (["é".encode(), None], [b"\xff", None], [NOW_MS] * 2)
    assert found.headers is None and found.partitions is None


def test_text_for_a_serde_of_records_is_what_that_serde_reads() -> None:
    found = records(schema(key="string", value="string"), [{"key": "k", "value": '{"item":"a"}'}], TEXT, ORDER)
    assert found.values == [b'{"item":"a"}']


def test_other_types_are_written_by_the_serde() -> None:
    rows = [{"key": 5, "value": {"amount": 7, "item": "pen"}}, {"key": None, "value": None}]
    found = records(schema(key="int", value="struct<amount:int,item:string>"), rows, Serdes.long(), ORDER)
    assert found.keys == [(5).to_bytes(8, "big"), None]
    assert found.values == [b'{"item":"pen","amount":7}', None]


def test_a_serde_without_a_schema_writes_row_by_row() -> None:
    rows = [{"key": "k", "value": {"any": [1, 2]}}]
    found = records(schema(key="string", value="struct<any:array<int>>"), rows, TEXT, Serdes.json())
    assert found.values == [b'{"any":[1,2]}']


def test_timestamps_are_instants_or_milliseconds_and_null_is_now() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)
    instants = [{"key": None, "value": None, "timestamp": time} for time in (at, None)]
    assert records(schema(key="string", value="string", timestamp="timestamp"), instants).timestamps_ms == [
        1000,
        NOW_MS,
    ]
    numbers = [{"key": None, "value": None, "timestamp": 1234}]
    assert records(schema(key="string", value="string", timestamp="bigint"), numbers).timestamps_ms == [1234]


def test_headers_and_partitions_are_taken_over() -> None:
    frame = schema(key="string", value="string", headers=HEADER, partition="int")
    some = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    rows = [
        {"key": "k", "value": "v", "headers": some, "partition": 3},
        {"key": "k", "value": "v", "headers": None, "partition": None},
    ]
    found = records(frame, rows)
    assert found.headers == [(("a", b"1"), ("b", None)), ()]
    assert found.partitions is not None
    assert found.partitions.tolist() == [3, partitions_for_keys([b"k"], PARTITIONS)[0]]


def test_a_column_of_nothing_is_null_everywhere() -> None:
    frame = schema(key="void", value="string", timestamp="void", headers="void", partition="void")
    found = records(frame, [dict.fromkeys(("key", "value", "timestamp", "headers", "partition"))])
    assert (found.keys, found.values, found.timestamps_ms, found.headers) == ([None], [None], [NOW_MS], None)
    assert found.partitions is None


@pytest.mark.parametrize(
    ("types", "column", "told"),
    [
        ({"value": "string"}, "key", "no column 'key'"),
        ({"key": "string"}, "value", "no column 'value'"),
        ({"key": "string", "value": "string", "topic": "string"}, "topic", "means nothing"),
        ({"key": "string", "value": "string", "timestamp": "string"}, "timestamp", "not string"),
        ({"key": "string", "value": "string", "partition": "string"}, "partition", "not string"),
        ({"key": "string", "value": "string", "headers": "map<string,string>"}, "headers", "not map<string,string>"),
        ({"key": "string", "value": "int"}, "value", "Int32"),
        ({"key": "struct<a:int>", "value": "string"}, "key", "single values"),
    ],
)
def test_a_column_that_cannot_be_used_is_named(types: dict[str, str], column: str, told: str) -> None:
    error = wrong(schema(**types))
    assert error.context["column"] == column
    assert told in error.message


@pytest.mark.parametrize(
    ("value", "column"),
    [
        ("struct<item:string>", "value.amount"),
        ("struct<item:string,amount:bigint,more:int>", "value.more"),
        ("struct<item:string,amount:string>", "value"),
        ("int", "value"),
    ],
)
def test_a_struct_must_have_the_fields_of_its_serde(value: str, column: str) -> None:
    assert wrong(schema(key="string", value=value), TEXT, ORDER).context["column"] == column


def test_text_for_a_serde_of_numbers_is_refused() -> None:
    assert wrong(schema(key="string", value="string"), Serdes.long(), TEXT).context["column"] == "key"


def test_two_columns_of_one_name_are_refused() -> None:
    twice = StructType([*schema(key="string", value="string"), StructField("value", IntegerType())])
    assert "two columns" in wrong(twice).message


@pytest.mark.parametrize(
    ("types", "row", "column"),
    [
        ({"timestamp": "bigint"}, {"timestamp": -1}, "timestamp"),
        ({"partition": "int"}, {"partition": PARTITIONS}, "partition"),
        ({"partition": "int"}, {"partition": -1}, "partition"),
        ({"headers": HEADER}, {"headers": [{"key": None, "value": b""}]}, "headers"),
    ],
)
def test_a_row_that_cannot_be_a_record_is_refused(types: dict[str, Any], row: dict[str, Any], column: str) -> None:
    with pytest.raises(HayaseError) as caught:
        records(schema(key="string", value="string", **types), [{"key": "k", "value": "v", **row}])
    assert (caught.value.condition, caught.value.context["column"]) == ("RECORD_REFUSED", column)


def test_a_value_that_does_not_fit_its_serde_names_source_and_column() -> None:
    class Strict(Serde[Any]):
        def to_bytes(self, value: Any) -> bytes:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", "not that")

        def from_bytes(self, data: bytes) -> Any:
            raise AssertionError

    with pytest.raises(SerializationError, match=r"from_spark 'clicks', column 'value': not that"):
        records(schema(key="string", value="int"), [{"key": "k", "value": 1}], TEXT, Strict())


def fetched(keys: list[bytes | None], values: list[bytes | None], headers: Any = None) -> RecordBatch:
    count = len(values)
    return RecordBatch("topic", 2, np.arange(7, 7 + count), np.full(count, 1234), keys, values, headers)


def rows_of(batch: RecordBatch, key: Serde[Any], value: Serde[Any]) -> list[dict[str, Any]]:
    _, arrow = spark_schema(spark_type(key, "sink", "key"), spark_type(value, "sink", "value"))
    made = to_rows(batch, key.columns, value.columns, arrow)
    assert made.schema == arrow
    return list(made.to_pylist())


def test_records_become_rows_with_the_types_of_their_serdes() -> None:
    batch = fetched([b"a", None], [b'{"item":"pen","amount":3}', None], [(("h", b"1"), ("n", None)), ()])
    first, second = rows_of(batch, TEXT, ORDER)
    at = datetime(1970, 1, 1, 0, 0, 1, 234000, tzinfo=UTC)
    assert first == {
        "key": "a",
        "value": {"item": "pen", "amount": 3},
        "timestamp": at,
        "partition": 2,
        "offset": 7,
        "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
    }
    assert (second["key"], second["value"], second["offset"], second["headers"]) == (None, None, 8, [])


def test_without_a_schema_rows_hold_bytes() -> None:
    (row,) = rows_of(fetched([b"a"], [b'{"x":1}']), Serdes.bytes(), Serdes.json())
    assert (row["key"], row["value"]) == (b"a", b'{"x":1}')


def test_types_that_arrow_and_spark_call_differently_are_converted() -> None:
    dtypes = {
        "small": pl.UInt8(),
        "many": pl.List(pl.Int32),
        "big": pl.UInt32(),
        "inner": pl.Struct({"a": pl.String, "b": pl.List(pl.String)}),
    }
    serde = Serdes.json(schema=dtypes)
    value = b'{"small":200,"many":[1,null],"big":4000000000,"inner":{"a":"x","b":["y"]}}'
    (row,) = rows_of(fetched([None], [value]), TEXT, serde)
    assert row["value"] == {
        "small": 200,
        "many": [1, None],
        "big": 4_000_000_000,
        "inner": {"a": "x", "b": ["y"]},
    }


def test_a_record_that_its_serde_cannot_read_is_named() -> None:
    with pytest.raises(SerializationError) as caught:
        rows_of(fetched([b"a", b"a"], [b'{"item":"pen","amount":3}', b"nonsense"]), TEXT, ORDER)
    assert caught.value.context == {"topic": "topic", "partition": 2, "offset": 8}


def test_a_type_that_spark_does_not_have_is_refused_with_its_field() -> None:
    class Odd(Serde[Any]):
        def to_bytes(self, value: Any) -> bytes:
            raise AssertionError

        def from_bytes(self, data: bytes) -> Any:
            raise AssertionError

        @property
        def columns(self) -> Any:
            return SimpleNamespace(schema=Schema((("when", pl.Time()),)))

    with pytest.raises(TopologyError) as caught:
        spark_type(Odd(), "to_spark 'archive'", "value")
    assert (caught.value.condition, caught.value.context["column"]) == ("INVALID_SPARK_FRAME", "value.when")
