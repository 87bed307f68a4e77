"""Text, bytes, numbers, truth values and nothing: Kafka's bytes, the same from rows and from columns."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import SerializationError
from hayase.serde import JsonSerde, Serdes, StringSerde
from hayase.serde.protocol import Serde

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "serdes.json"
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0.0": -0.0}
OF_TYPE: dict[str, Serde[Any]] = {
    "string": Serdes.string(),
    "long": Serdes.long(),
    "int": Serdes.integer(),
    "double": Serdes.double(),
}
VALUES: dict[str, tuple[Serde[Any], st.SearchStrategy[Any]]] = {
    "string": (Serdes.string(), st.text()),
    "bytes": (Serdes.bytes(), st.binary()),
    "long": (Serdes.long(), st.integers(-(2**63), 2**63 - 1)),
    "integer": (Serdes.integer(), st.integers(-(2**31), 2**31 - 1)),
    "short": (Serdes.short(), st.integers(-(2**15), 2**15 - 1)),
    "double": (Serdes.double(), st.floats()),
    "float": (Serdes.float(), st.floats(width=32)),
    "boolean": (Serdes.boolean(), st.booleans()),
    "void": (Serdes.void(), st.none()),
    "uuid": (Serdes.uuid(), st.uuids()),
    "list_long": (Serdes.list(Serdes.long()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4)),
    "list_float": (Serdes.list(Serdes.float()), st.lists(st.none() | st.floats(width=32), max_size=4)),
    "list_string": (Serdes.list(Serdes.string()), st.lists(st.none() | st.text(), max_size=4)),
    "list_list": (Serdes.list(Serdes.list(Serdes.short())), st.lists(st.lists(st.just(5), max_size=2), max_size=2)),
}
each_serde = pytest.mark.parametrize("name", VALUES)


def same(left: Any, right: Any) -> bool:
    """Equal, of one type, NaN equal to NaN and -0.0 unequal to 0.0."""
    return type(left) is type(right) and repr(left) == repr(right)


def test_bytes_are_those_recorded_from_kafka() -> None:
    rows = [row for row in json.loads(GOLDEN.read_text())["plain"] if row["type"] in OF_TYPE]
    assert len(rows) > 25
    for row in rows:
        serde, expected = OF_TYPE[row["type"]], bytes.fromhex(row["bytes"])
        value = SPECIAL[row["special"]] if "special" in row else row["value"]
        codec = serde.columns
        assert codec is not None
        assert serde.serialize(value) == expected
        assert same(serde.deserialize(expected), value)
        assert codec.encode(codec.from_python([value])[0]) == [expected]
        assert same(codec.to_python(codec.decode(pa.array([expected])).frame)[0], value)


@each_serde
@given(data=st.data())
def test_columns_write_and_read_what_rows_do(name: str, data: st.DataObject) -> None:
    serde, values_of = VALUES[name]
    values = data.draw(st.lists(st.none() | values_of, max_size=20))
    codec = serde.columns
    assert codec is not None
    expected = [serde.serialize(value) for value in values]
    frame, null = codec.from_python(values)
    assert codec.encode(frame, null) == expected
    decoded = codec.decode(pa.array(expected, pa.binary()))
    assert decoded.bad == []
    assert decoded.frame.schema == dict(codec.schema.fields)
    assert decoded.null.to_list() == [value is None for value in values]
    assert all(map(same, codec.to_python(decoded.frame, decoded.null), map(serde.deserialize, expected)))


@each_serde
@given(data=st.lists(st.none() | st.binary(max_size=9), max_size=12))
def test_only_bad_values_are_reported_and_the_others_still_read(name: str, data: list[bytes | None]) -> None:
    serde, _ = VALUES[name]
    codec = serde.columns
    assert codec is not None
    decoded = codec.decode(pa.array(data, pa.large_binary()))
    bad = {index for index, _ in decoded.bad}
    read = codec.to_python(decoded.frame, decoded.null)
    assert len(read) == len(data)
    good = [item for index, item in enumerate(data) if index not in bad]
    assert all(map(same, serde.deserialize_many(good), map(serde.deserialize, good)))
    if bad:
        with pytest.raises(SerializationError):
            serde.deserialize_many(data)
    for index, item in enumerate(data):
        if index in bad:
            with pytest.raises(SerializationError):
                serde.deserialize(item)
            assert read[index] is None
            assert not decoded.null[index]
        else:
            assert same(read[index], serde.deserialize(item))
            assert decoded.null[index] == (item is None)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.string(), 5),
        (Serdes.string(), "\ud800"),
        (Serdes.bytes(), "text"),
        (Serdes.long(), 2**63),
        (Serdes.long(), True),
        (Serdes.long(), 1.0),
        (Serdes.integer(), 2**31),
        (Serdes.short(), "1"),
        (Serdes.double(), "1.0"),
        (Serdes.double(), 10**400),
        (Serdes.float(), 1e300),
        (Serdes.boolean(), 1),
        (Serdes.void(), 0),
    ],
)
def test_a_value_of_another_kind_is_refused_in_rows_and_columns(serde: Serde[Any], value: Any) -> None:
    codec = serde.columns
    assert codec is not None
    with pytest.raises(SerializationError):
        serde.serialize(value)
    with pytest.raises(SerializationError):
        codec.from_python([None, value])


def test_an_int_is_written_as_double_by_both_forms() -> None:
    codec = Serdes.double().columns
    assert codec is not None
    assert codec.encode(codec.from_python([1, None])[0]) == [Serdes.double().serialize(1.0), None]


def test_every_nan_is_written_as_one() -> None:
    odd = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
    codec = Serdes.double().columns
    assert codec is not None
    assert Serdes.double().serialize(odd) == bytes.fromhex("7ff8000000000000")
    assert codec.encode(pl.DataFrame({"value": [odd]})) == [bytes.fromhex("7ff8000000000000")]


def test_a_narrower_integer_column_is_widened_and_one_that_does_not_fit_refused() -> None:
    codec = Serdes.integer().columns
    assert codec is not None
    assert codec.encode(pl.DataFrame({"value": [7]}, schema={"value": pl.UInt32})) == [b"\0\0\0\x07"]
    with pytest.raises(SerializationError):
        codec.encode(pl.DataFrame({"value": [2**40]}))


@pytest.mark.parametrize("column", [[1.5], ["1"], [True]])
def test_a_column_of_another_kind_is_not_squeezed_into_a_number(column: list[Any]) -> None:
    codec = Serdes.long().columns
    assert codec is not None
    with pytest.raises(SerializationError, match="do not convert"):
        codec.encode(pl.DataFrame({"value": column}))


def test_rows_marked_null_have_no_bytes() -> None:
    codec = Serdes.string().columns
    assert codec is not None
    frame = pl.DataFrame({"value": ["a", "b", None]})
    assert codec.encode(frame, pl.Series([False, True, False])) == [b"a", None, None]


def test_a_serde_that_reads_in_its_own_way_reads_many_in_that_way_too() -> None:
    class Upper(StringSerde):
        def from_bytes(self, data: bytes) -> str:
            return super().from_bytes(data).upper()

    class Wrapped(JsonSerde):
        def from_bytes(self, data: bytes) -> list[object]:
            return [super().from_bytes(data)]

    assert Upper().deserialize_many([b"a", None]) == ["A", None]
    assert Wrapped().deserialize_many([b"1", None]) == [[1], None]
