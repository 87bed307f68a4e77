"""The column forms of keys and rows in any format read and write what their row forms do."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.unit.sql.formats.test_round_trips import PLAIN_TYPES, rows

from hayase.serde.protocol import Serde
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.formats.internal import internal_key_serde, internal_value_serde
from hayase.sql.formats.packing import packed_form
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.types import sql_types as sql
from hayase.sql.types.column_types import dtype_of

NESTED = PLAIN_TYPES | PLAIN_TYPES.map(sql.ArrayType) | PLAIN_TYPES.map(lambda type_: sql.StructType((("F", type_),)))


def check(serde: Serde[Any], values: list[Any]) -> None:
    codec = serde.columns
    assert codec is not None
    data = [serde.serialize(value) for value in values]
    decoded = codec.decode(pa.array(data, pa.binary())).checked()
    assert decoded.frame.schema == dict(codec.schema.fields)
    assert codec.to_python(decoded.frame, decoded.null) == [serde.deserialize(item) for item in data]
    assert codec.encode(decoded.frame, decoded.null) == data
    frame, null = codec.from_python(values)
    assert codec.encode(frame, null) == data


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(rows(NESTED))
def test_rows_in_stores(columns_and_row: tuple[list[Column], dict[str, Any]]) -> None:
    columns, row = columns_and_row
    if all(dtype_of(column.type) is not None for column in columns):
        check(internal_value_serde(columns), [row, None, {column.name: None for column in columns}])


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(rows(PLAIN_TYPES))
def test_keys_in_stores(columns_and_row: tuple[list[Column], dict[str, Any]]) -> None:
    columns, row = columns_and_row
    if all(dtype_of(column.type) is not None for column in columns):
        check(internal_key_serde(columns), [row if len(columns) > 1 else row[columns[0].name]])


COLUMNS = [Column("A", sql.INTEGER), Column("B", sql.STRING), Column("D", sql.DecimalType(10, 2))]
ROW = {"A": 1, "B": "x", "D": Decimal("1.50")}


@pytest.mark.parametrize("name", ["JSON", "DELIMITED", "PROTOBUF_NOSR"])
def test_values_in_all_formats(name: str) -> None:
    check(value_serde(FormatInfo(name), COLUMNS), [ROW, None, {"A": -1, "B": "", "D": Decimal("-0.01")}])


@pytest.mark.parametrize("name", ["JSON", "DELIMITED"])
@pytest.mark.parametrize("count", [1, 2])
def test_keys_in_all_formats(name: str, count: int) -> None:
    keys = [1, None] if count == 1 else [{"A": 1, "B": "x"}, None]
    check(key_serde(FormatInfo(name), COLUMNS[:count]), keys)


def test_a_key_without_columns_is_null_whatever_the_bytes_are() -> None:
    codec = key_serde(FormatInfo("KAFKA"), []).columns
    assert codec is not None
    decoded = codec.decode(pa.array([b"x", None], pa.binary())).checked()
    assert decoded.null.to_list() == [True, True]
    assert codec.encode(decoded.frame) == [None, None]


def test_an_only_column_that_is_bare_is_a_row_all_the_same() -> None:
    check(value_serde(FormatInfo("KAFKA"), COLUMNS[:1]), [{"A": 1}, None])


def test_rows_that_were_written_without_the_last_columns_have_nulls_there() -> None:
    data = [internal_value_serde(COLUMNS[:1]).serialize({"A": 1})]
    codec = internal_value_serde(COLUMNS).columns
    assert codec is not None
    assert codec.decode_list(data).checked().frame.rows() == [(1, None, None)]


def test_bytes_that_are_no_row_are_bad() -> None:
    codec = internal_value_serde(COLUMNS).columns
    assert codec is not None
    decoded = codec.decode_list([internal_value_serde(COLUMNS).serialize(ROW), b"\xc1"])
    assert [at for at, _ in decoded.bad] == [1]
    assert decoded.null.to_list() == [False, False]


def test_only_the_fields_that_are_wanted_become_columns() -> None:
    serde = internal_value_serde(COLUMNS)
    codec = serde.columns
    assert codec is not None
    assert codec.decode_list([serde.serialize(ROW)], frozenset({"B"})).frame.columns == ["B"]


def test_a_number_that_is_none_has_one_form() -> None:
    serde = internal_value_serde([Column("X", sql.DOUBLE)])
    codec = serde.columns
    assert codec is not None
    frame = pl.DataFrame({"X": [float("-nan"), 1.0]})
    assert codec.encode(frame) == [serde.serialize({"X": float("nan")}), serde.serialize({"X": 1.0})]


def test_the_codecs_can_be_pickled() -> None:
    for serde in (internal_value_serde(COLUMNS), value_serde(FormatInfo("DELIMITED"), COLUMNS)):
        codec = pickle.loads(pickle.dumps(serde.columns))
        assert codec.to_python(codec.decode_list([serde.serialize(ROW)]).frame) == [ROW]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (sql.MapType(sql.STRING, sql.INTEGER), [{"b": 1, "a": None}, {}, None]),
        (sql.DecimalType(39, 2), [Decimal("1.50"), None]),
        (sql.ArrayType(sql.MapType(sql.STRING, sql.DOUBLE)), [[{"a": float("inf")}, None], [], None]),
    ],
)
@pytest.mark.parametrize("format_", ["internal", "JSON"])
def test_maps_and_very_large_decimals_are_packed_in_columns(
    type_: sql.SqlType, values: list[Any], format_: str
) -> None:
    columns = [Column("X", type_), Column("Y", sql.INTEGER)]
    serde = internal_value_serde(columns) if format_ == "internal" else value_serde(FormatInfo(format_), columns)
    codec = pickle.loads(pickle.dumps(serde.columns))
    assert codec.schema.fields == (("X", pl.Binary()), ("Y", pl.Int32()))
    data = [serde.serialize({"X": value, "Y": 1}) for value in values]
    frame = codec.decode_list(data).checked().frame
    assert codec.encode(frame) == data
    assert codec.to_python(frame) == [serde.deserialize(each) for each in data]
    assert codec.to_python(codec.from_python(codec.to_python(frame))[0]) == codec.to_python(frame)


def test_a_packed_map_keeps_the_order_of_its_entries_but_equal_ones_are_stored_alike() -> None:
    type_ = sql.MapType(sql.STRING, sql.INTEGER)
    form = packed_form(type_)
    one, other = {"b": 1, "a": 2}, {"a": 2, "b": 1}
    assert list(form.unpack(form.pack(one))) == ["b", "a"]
    codec = internal_value_serde([Column("X", type_)]).columns
    assert codec is not None
    first, second = codec.encode(pl.DataFrame({"X": form.pack_all([one, other])}))
    assert first == second


def test_keys_with_maps_have_no_columns() -> None:
    assert internal_key_serde([Column("X", sql.MapType(sql.STRING, sql.INTEGER))]).columns is None


def test_names_that_polars_takes_for_patterns_have_no_columns() -> None:
    assert internal_value_serde([Column("^A$", sql.INTEGER)]).columns is None
