"""Values of any SQL type come back from every format as they were written."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hayase.core.errors import SerializationError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import NULLABLE_REPRESENTATION, FormatInfo
from hayase.sql.formats.internal import internal_key_serde, internal_value_serde
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.registry import EmbeddedSchemaRegistry
from hayase.sql.types import sql_types as sql

NAMES = ("A", "B", "C", "lower", "KSQL_COL_0")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
DECIMALS = st.integers(1, 60).flatmap(lambda p: st.integers(0, p).map(lambda s: sql.DecimalType(p, s)))
PLAIN_TYPES = st.one_of(
    st.sampled_from([sql.BOOLEAN, sql.INTEGER, sql.BIGINT, sql.DOUBLE, sql.STRING, sql.BYTES]),
    st.sampled_from([sql.DATE, sql.TIME, sql.TIMESTAMP]),
    DECIMALS,
)


def structs(inner: st.SearchStrategy[sql.SqlType]) -> st.SearchStrategy[sql.SqlType]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
    return names.flatmap(
        lambda names: st.tuples(*(inner for _ in names)).map(
            lambda types: sql.StructType(tuple(zip(names, types, strict=True)))
        )
    )


TYPES = st.recursive(
    PLAIN_TYPES,
    lambda inner: st.one_of(
        inner.map(sql.ArrayType), inner.map(lambda value: sql.MapType(sql.STRING, value)), structs(inner)
    ),
    max_leaves=5,
)
_BOUNDS = {
    sql.IntegerType: (-(2**31), 2**31 - 1),
    sql.BigintType: (-(2**63), 2**63 - 1),
    sql.DateType: (-100_000, 100_000),
    sql.TimeType: (0, 86_399_999),
    sql.TimestampType: (-(10**13), 10**13),
}


def values_of(type_: sql.SqlType, *, null: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type, null included."""
    match type_:
        case sql.BooleanType():
            strategy: st.SearchStrategy[Any] = st.booleans()
        case sql.DoubleType():
            strategy = st.floats(allow_nan=False)
        case sql.StringType():
            strategy = TEXTS
        case sql.BytesType():
            strategy = st.binary(max_size=8)
        case sql.DecimalType(precision, scale):
            limit = 10**precision - 1
            strategy = st.integers(-limit, limit).map(lambda number: Decimal(f"{number}E-{scale}"))
        case sql.ArrayType(item):
            strategy = st.lists(values_of(item), max_size=3)
        case sql.MapType(_, item):
            strategy = st.dictionaries(TEXTS, values_of(item), max_size=3)
        case sql.StructType(fields):
            strategy = st.fixed_dictionaries({name: values_of(each) for name, each in fields})
        case _:
            strategy = st.integers(*_BOUNDS[type(type_)])
    return st.one_of(st.none(), strategy) if null else strategy


def rows(types: st.SearchStrategy[sql.SqlType]) -> st.SearchStrategy[tuple[list[Column], dict[str, Any]]]:
    """Columns, and a row of them."""
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)
    columns = names.flatmap(lambda names: st.tuples(*(types.map(partial(Column, name)) for name in names)))
    return columns.flatmap(
        lambda columns: st.tuples(
            st.just(list(columns)), st.fixed_dictionaries({each.name: values_of(each.type) for each in columns})
        )
    )


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same, of the same types, the scale of decimals included."""
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(equal(item, right[name]) for name, item in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, Decimal):
        return (type(right) is Decimal and left.as_tuple() == right.as_tuple()) or (not left and not right)
    return type(left) is type(right) and left == right


@pytest.mark.long
@settings(max_examples=25)
@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO"])
@given(rows(TYPES))
def test_a_row_comes_back_from_the_formats_that_hold_everything(name: str, case: tuple[list[Column], Any]) -> None:
    columns, row = case
    serde = value_serde(FormatInfo(name), columns, topic="t", registry=EmbeddedSchemaRegistry())
    assert equal(serde.deserialize(serde.serialize(row)), row)


@pytest.mark.long
@settings(max_examples=25)
@given(rows(TYPES))
def test_a_row_comes_back_from_a_store(case: tuple[list[Column], Any]) -> None:
    columns, row = case
    serde = internal_value_serde(columns)
    assert equal(serde.deserialize(serde.serialize(row)), row)


@settings(max_examples=25)
@given(rows(PLAIN_TYPES))
def test_a_line_comes_back_but_for_empty_texts_which_are_null(case: tuple[list[Column], Any]) -> None:
    columns, row = case
    serde = value_serde(FormatInfo("DELIMITED"), columns)
    expected = {name: None if value in ("", b"") else value for name, value in row.items()}
    data = serde.serialize(row)
    if data is None:  # an only column is bare, so that its null is the row's
        assert list(row.values()) == [None]
    else:
        assert equal(serde.deserialize(data), expected)


@pytest.mark.long
@settings(max_examples=25)
@pytest.mark.parametrize("nullable", ["optional", "wrapper"])
@pytest.mark.parametrize("name", ["PROTOBUF", "PROTOBUF_NOSR"])
@given(rows(PLAIN_TYPES))
def test_a_message_keeps_nulls_if_asked_to(name: str, nullable: str, case: tuple[list[Column], Any]) -> None:
    columns, row = case
    format_ = FormatInfo(name, ((NULLABLE_REPRESENTATION, nullable),))
    serde = value_serde(format_, columns, topic="t", registry=EmbeddedSchemaRegistry())
    assert equal(serde.deserialize(serde.serialize(row)), row)


@pytest.mark.long
@settings(max_examples=30)
@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO", "DELIMITED", "PROTOBUF"])
@given(PLAIN_TYPES.flatmap(lambda type_: st.tuples(st.just(type_), values_of(type_, null=False))))
def test_a_key_of_one_column_is_its_bare_value(name: str, case: tuple[sql.SqlType, Any]) -> None:
    type_, key = case
    serde = key_serde(FormatInfo(name), [Column("K", type_)], topic="t", registry=EmbeddedSchemaRegistry())
    back = serde.deserialize(serde.serialize(key))
    assert equal(back, key) or (name == "DELIMITED" and key in ("", b"") and back is None)


@given(st.dictionaries(TEXTS, st.integers(0, 9), max_size=5))
def test_equal_keys_have_equal_bytes_in_stores(key: dict[str, int]) -> None:
    serde = internal_key_serde([Column("K", sql.MapType(sql.STRING, sql.INTEGER))])
    turned = dict(reversed(key.items()))
    assert serde.serialize(turned) == serde.serialize(key)


@pytest.mark.parametrize("names", [("A", "B"), ("a b", "class")])
def test_a_row_of_a_store_without_the_last_columns_has_nulls_there(names: tuple[str, str]) -> None:
    first, second = (Column(name, sql.DecimalType(4, 2)) for name in names)
    data = internal_value_serde([first]).serialize({names[0]: Decimal("1.50")})
    both = internal_value_serde([first, second])
    assert both.deserialize(data) == {names[0]: Decimal("1.50"), names[1]: None}
    with pytest.raises(SerializationError):
        internal_value_serde([first]).deserialize(both.serialize(dict.fromkeys(names)))


def test_all_nans_have_the_same_bytes_in_stores() -> None:
    serde = internal_key_serde([Column("K", sql.DOUBLE)])
    assert serde.serialize(math.nan) == serde.serialize(-math.nan)


@pytest.mark.parametrize("name", ["JSON", "DELIMITED", "KAFKA", "PROTOBUF_NOSR"])
def test_serdes_can_be_pickled(name: str) -> None:
    serde = value_serde(FormatInfo(name), [Column("A", sql.STRING)])
    copy = pickle.loads(pickle.dumps(serde))
    assert copy == serde
    assert copy.serialize({"A": "x"}) == serde.serialize({"A": "x"})
