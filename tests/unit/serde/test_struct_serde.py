"""The compact form of stored aggregates: rows and columns write the same bytes and read the same values."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import ConfigError, SerializationError
from hayase.serde import ColumnCodec, Schema, StructSerde


@dataclass(frozen=True)
class Stats:
    n: int
    total: float
    last: int | None = None


@dataclass(frozen=True)
class Named:
    n: int
    name: str


INTEGERS = {
    pl.Int8: (-(2**7), 2**7 - 1),
    pl.Int16: (-(2**15), 2**15 - 1),
    pl.Int32: (-(2**31), 2**31 - 1),
    pl.Int64: (-(2**63), 2**63 - 1),
    pl.UInt8: (0, 2**8 - 1),
    pl.UInt16: (0, 2**16 - 1),
    pl.UInt32: (0, 2**32 - 1),
}
LONG = st.integers(*INTEGERS[pl.Int64])
FIXED: dict[str, Any] = {kind.__name__: kind for kind in INTEGERS} | {
    "f": pl.Float64,
    "b": pl.Boolean,
    "g": pl.Float64,
}
SERDES: dict[str, tuple[StructSerde, st.SearchStrategy[Any]]] = {
    "fixed": (
        StructSerde(FIXED),
        st.fixed_dictionaries(
            {kind.__name__: st.none() | st.integers(*limits) for kind, limits in INTEGERS.items()}
            | {"f": st.none() | st.floats(), "b": st.none() | st.booleans(), "g": st.none() | st.floats()}
        ),
    ),
    "variable": (
        StructSerde({"n": pl.Int64, "s": pl.String, "x": pl.Binary, "f": pl.Float64}),
        st.fixed_dictionaries(
            {
                "n": st.none() | LONG,
                "s": st.none() | st.text(),
                "x": st.none() | st.binary(),
                "f": st.none() | st.floats() | st.integers(-9, 9),
            }
        ),
    ),
    "nested": (
        StructSerde({"l": pl.List(pl.Int64), "r": pl.Struct({"a": pl.Float64, "b": pl.Binary})}),
        st.fixed_dictionaries(
            {
                "l": st.none() | st.lists(st.none() | LONG, max_size=3),
                "r": st.none() | st.fixed_dictionaries({"a": st.none() | st.floats(), "b": st.none() | st.binary()}),
            }
        ),
    ),
    "stats": (StructSerde(Stats), st.builds(Stats, LONG, st.floats(), st.none() | LONG)),
    "named": (StructSerde(Named), st.builds(Named, LONG, st.text())),
    "bare number": (StructSerde(Schema((("value", pl.Int64()),), bare=True)), LONG),
    "bare text": (StructSerde(Schema((("value", pl.String()),), bare=True)), st.text()),
}
each_serde = pytest.mark.parametrize("name", SERDES)


def columns_of(serde: StructSerde) -> ColumnCodec:
    codec = serde.columns
    assert codec is not None
    return codec


@pytest.mark.long
@each_serde
@given(data=st.data())
def test_columns_write_and_read_what_rows_do(name: str, data: st.DataObject) -> None:
    serde, values_of = SERDES[name]
    codec = columns_of(serde)
    values = data.draw(st.lists(st.none() | values_of, max_size=10))
    stored = [serde.serialize(value) for value in values]
    frame, null = codec.from_python(values)
    assert codec.encode(frame, null) == stored
    decoded = codec.decode(pa.array(stored, pa.binary()))
    assert decoded.bad == []
    assert decoded.frame.schema == dict(codec.schema.fields)
    assert decoded.null.to_list() == [value is None for value in values]
    assert repr(codec.to_python(decoded.frame, decoded.null)) == repr([serde.deserialize(item) for item in stored])
    assert codec.encode(decoded.frame, decoded.null) == stored


@each_serde
@given(data=st.data())
def test_damaged_bytes_mean_the_same_in_rows_and_columns(name: str, data: st.DataObject) -> None:
    serde, values_of = SERDES[name]
    codec = columns_of(serde)
    stored: list[bytes | None] = [serde.serialize(value) for value in data.draw(st.lists(values_of, max_size=4))]
    stored.append(data.draw(st.none() | st.binary(max_size=40)))
    if stored[0]:
        at = data.draw(st.integers(0, len(stored[0]) - 1))
        stored[0] = stored[0][:at] + data.draw(st.binary(max_size=2)) + stored[0][at + 1 :]
    decoded = codec.decode(pa.array(stored, pa.binary()))
    bad = {index for index, _ in decoded.bad}
    unread = pl.Series([index in bad for index in range(len(stored))])
    read = codec.to_python(decoded.frame, decoded.null | unread)
    for index, item in enumerate(stored):
        if index in bad:
            with pytest.raises(SerializationError):
                serde.deserialize(item)
        else:
            assert repr(read[index]) == repr(serde.deserialize(item))


def test_fixed_width_fields_are_a_bitmap_of_nulls_and_little_endian_numbers() -> None:
    serde = StructSerde({"n": pl.Int64, "total": pl.Float64, "done": pl.Boolean})
    written = serde.serialize({"n": 1, "total": None, "done": True})
    assert written == bytes([0b010]) + (1).to_bytes(8, "little") + bytes(8) + b"\x01"


@pytest.mark.parametrize("value", [{"n": "1"}, {"n": 2**63}, {"n": 1.5}, {"n": True}, 5])
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    serde = StructSerde({"n": pl.Int64})
    with pytest.raises(SerializationError):
        serde.serialize(value)
    with pytest.raises(SerializationError):
        columns_of(serde).from_python([value])


@pytest.mark.parametrize("serde", [StructSerde(Stats), StructSerde(Named)])
def test_a_null_in_a_field_that_is_never_null_is_refused(serde: StructSerde) -> None:
    codec = columns_of(serde)
    frame = pl.DataFrame({"n": [1, None], "total": [1.0, 1.0], "last": [1, 1], "name": ["a", "b"]})
    with pytest.raises(SerializationError, match="never null"):
        codec.encode(frame)


def test_a_null_in_a_bare_field_is_a_null_value() -> None:
    codec = columns_of(StructSerde(Schema((("value", pl.Int64()),), bare=True)))
    assert codec.encode(pl.DataFrame({"value": [1, None]}))[1] is None


@pytest.mark.parametrize("schema", [{}, {"v": pl.Datetime("ms")}, {"v": pl.UInt64}])
def test_fields_without_a_form_are_refused_when_the_serde_is_made(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        StructSerde(schema)


@each_serde
def test_serdes_and_codecs_can_be_pickled(name: str) -> None:
    serde, _ = SERDES[name]
    again, codec = pickle.loads(pickle.dumps(serde)), pickle.loads(pickle.dumps(columns_of(serde)))
    assert again.columns.schema == codec.schema == columns_of(serde).schema
