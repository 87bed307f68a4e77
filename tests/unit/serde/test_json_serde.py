"""JSON: what it accepts, what it refuses, what it writes, and that rows and columns agree on all of it."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase.core.errors import ConfigError, SerializationError
from hayase.serde import JsonSerde, Serdes
from hayase.serde.protocol import ColumnCodec, Serde

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "serdes.json"


@dataclass(frozen=True)
class Line:
    sku: str
    price: float | None = None


@dataclass(frozen=True)
class Order:
    order_id: int
    customer: str
    amount: float
    paid: bool = False
    note: str | None = None


@dataclass
class Defaults:
    amount: float = 0
    ratio: float | None = 1
    lines: list[Line] = field(default_factory=lambda: [Line("a", 1)])
    first: Line = field(default_factory=lambda: Line("b"))


@dataclass
class Basket:
    basket_id: int
    lines: list[Line] = field(default_factory=list)
    first: Line | None = None


class Renamed(msgspec.Struct, rename="camel"):
    order_id: int
    is_paid: bool | None = None


FLAT = {"i": pl.Int64, "s": pl.String, "f": pl.Float64, "b": pl.Boolean, "n": pl.Int32}
DEEP = {"l": pl.List(pl.Int64), "r": pl.Struct({"x": pl.Float64, "y": pl.List(pl.String)}), "i": pl.Int64}
SERDES: dict[str, Serde[Any]] = {
    "flat": JsonSerde(schema=FLAT),
    "deep": JsonSerde(schema=DEEP),
    "order": JsonSerde(Order),
    "basket": JsonSerde(Basket),
    "renamed": JsonSerde(Renamed),
    "defaults": JsonSerde(Defaults),
}
each_serde = pytest.mark.parametrize("name", SERDES)

ODD_TEXTS = [
    b'{"i":1.0}', b'{"i":1e3}', b'{"i":1.5}', b'{"i":9223372036854775807}', b'{"i":9223372036854775808}',
    b'{"i":-9223372036854775809}', b'{"i":999999999999999999999999}', b'{"i":"5"}', b'{"s":5}', b'{"f":5}',
    b'{"f":"5"}', b'{"f":99999999999999999999999}', b'{"f":1e400}', b'{"i":1}x', b"", b" ", b'{"i":1}{"i":2}',
    b'{"i":1} {"i":2}', b' {"i":1} ', b'{"i":1}\n', b'\n{"i":\r\n1}', b"null", b" null ", b'{"i":null}',
    b"[1]", b'"x"', b"5", b"{}", b'{"i":1,"i":2}', b'{"i":NaN}', b'{"f":NaN}', b'{"f":Infinity}',
    b'{"f":-0.0}',
    b'{"f":-0}', b'{"i":-0}', b'{"i":01}', b'{"f":.5}', b'{"f":5.}', b'{"f":1E5}', b'{"i":true}', b'{"b":1}',
    b'{"s":"a\\u0000b"}', b'{"s":"\\ud800"}', b'{"s":"\xff"}', b'{"s":"a\tb"}', b'{"s":"a\nb"}',
    b'{"x":{"y":[1,2,nul]}}', b'{"x":"\xff"}', b'{"x":1e999}', b'{"i":1,}', b'{"\\u0069":3}',
    b'{"s":"\\ud83d\\ude00"}', b'\xef\xbb\xbf{"i":1}', b'{"i":1}\x00', b'{"i":1}}', b'1},{"v":2',
    b'{"n":2147483647}', b'{"n":2147483648}', b'{"f":5e-324}', b'{"f":0.30000000000000004}',
    b'{"l":[1,null],"r":{"x":1,"y":["a",null]}}', b'{"l":[1.5]}', b'{"l":{}}', b'{"r":{"x":"1"}}',
    b'{"r":null}', b'{"order_id":1,"customer":"c","amount":2}',
    b'{"order_id":1,"customer":null,"amount":2}', b'{"order_id":1}',
    b'{"basket_id":1,"lines":[{"sku":"a"},{"sku":"b","price":2}],"first":{"sku":"c"}}',
    b'{"basket_id":1,"lines":[null]}', b'{"orderId":5,"isPaid":true}', b'{"order_id":5}',
]  # fmt: skip


def columns_of(serde: Serde[Any]) -> ColumnCodec:
    codec = serde.columns
    assert codec is not None
    return codec


def assert_many_are_read_as_one(serde: Serde[Any], texts: list[bytes | None], bad: Collection[int]) -> None:
    good = [text for index, text in enumerate(texts) if index not in bad]
    assert list(map(repr, serde.deserialize_many(good))) == [repr(serde.deserialize(text)) for text in good]
    if bad:
        with pytest.raises(SerializationError):
            serde.deserialize_many(texts)


def assert_forms_read_alike(serde: Serde[Any], texts: list[bytes | None]) -> None:
    codec = columns_of(serde)
    decoded = codec.decode(pa.array(texts, pa.binary()))
    assert decoded.frame.schema == dict(codec.schema.fields)
    assert decoded.frame.height == len(decoded.null) == len(texts)
    assert [index for index, _ in decoded.bad] == sorted({index for index, _ in decoded.bad})
    bad = dict(decoded.bad)
    assert_many_are_read_as_one(serde, texts, bad)
    unread = pl.Series([index in bad for index in range(len(texts))], dtype=pl.Boolean)
    read = codec.to_python(decoded.frame, decoded.null | unread)
    for index, text in enumerate(texts):
        if index in bad:
            assert isinstance(bad[index], SerializationError)
            with pytest.raises(SerializationError):
                serde.deserialize(text)
            assert not decoded.null[index]
            assert decoded.frame.row(index) == (None,) * decoded.frame.width
            continue
        expected = serde.deserialize(text)
        assert decoded.null[index] == (expected is None), text
        assert repr(read[index]) == repr(expected), text
        if expected is not None:
            one = decoded.frame[index : index + 1]
            assert codec.encode(one) == [serde.serialize(expected)]


@pytest.mark.long
@each_serde
@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_mean_the_same_in_rows_and_columns(name: str, text: bytes) -> None:
    assert_forms_read_alike(SERDES[name], [text])


@each_serde
def test_bad_texts_in_a_batch_leave_the_others_alone(name: str) -> None:
    assert_forms_read_alike(SERDES[name], [*ODD_TEXTS, None])


numbers = st.integers(-(2**65), 2**65) | st.floats() | st.integers(-5, 5)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=5)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)
names = st.sampled_from(
    [
        "i",
        "s",
        "f",
        "b",
        "n",
        "l",
        "r",
        "x",
        "y",
        "order_id",
        "customer",
        "amount",
        "basket_id",
        "lines",
        "orderId",
    ]
)
objects = st.dictionaries(names, anything | st.integers(0, 9) | st.text(max_size=3), max_size=6)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """JSON text with a few bytes replaced, removed or put in."""
    text = bytearray(json.dumps(draw(objects | anything), ensure_ascii=draw(st.booleans())).encode(errors="ignore"))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        new = draw(
            st.sampled_from([b"", b"\n", b"\r", b" ", b"}", b"{", b'"', b",", b"0", b"\xff", b"null", b"1e5", b"\\"])
        )
        text[at : at + draw(st.integers(0, 1))] = new
    return bytes(text)


@each_serde
@given(texts=st.lists(st.none() | mutated(), max_size=6))
def test_any_text_means_the_same_in_rows_and_columns(name: str, texts: list[bytes | None]) -> None:
    assert_forms_read_alike(SERDES[name], texts)


floats = st.floats(allow_nan=False, allow_infinity=False)
longs = st.integers(-(2**63), 2**63 - 1)
lines = st.builds(Line, st.text(), st.none() | floats)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flat": st.fixed_dictionaries(
        {
            "i": st.none() | longs,
            "s": st.none() | st.text(),
            "f": st.none() | floats | st.integers(-9, 9),
            "b": st.none() | st.booleans(),
            "n": st.none() | st.integers(-(2**31), 2**31 - 1),
        }
    ),
    "deep": st.fixed_dictionaries(
        {
            "l": st.none() | st.lists(st.none() | longs, max_size=3),
            "r": st.none() | st.fixed_dictionaries({"x": st.none() | floats, "y": st.none() | st.lists(st.text())}),
            "i": st.none() | longs,
        }
    ),
    "order": st.builds(Order, longs, st.text(), floats, st.booleans(), st.none() | st.text()),
    "basket": st.builds(Basket, longs, st.lists(lines, max_size=3), st.none() | lines),
    "defaults": st.builds(Defaults, floats, st.none() | floats, st.lists(lines, max_size=2), lines),
    "renamed": st.builds(Renamed, longs, st.none() | st.booleans()),
}


@each_serde
@given(data=st.data())
def test_columns_write_what_rows_write(name: str, data: st.DataObject) -> None:
    serde = SERDES[name]
    codec = columns_of(serde)
    values = data.draw(st.lists(st.none() | VALUES[name], max_size=8))
    expected = [serde.serialize(value) for value in values]
    frame, null = codec.from_python(values)
    assert codec.encode(frame, null) == expected
    assert codec.to_python(frame, null) == values
    assert [serde.deserialize(text) for text in expected] == values


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (1e22, "1e22"),
        (1e-7, "1e-7"),
        (0.1 + 0.2, "0.30000000000000004"),
        (-0.0, "-0.0"),
        (5e-324, "5e-324"),
    ],
)
def test_floats_are_written_in_their_shortest_form(number: float, text: str) -> None:
    serde = JsonSerde(schema={"v": pl.Float64})
    expected = b'{"v":' + text.encode() + b"}"
    assert serde.serialize({"v": number}) == expected
    assert columns_of(serde).encode(pl.DataFrame({"v": [number]})) == [expected]


def test_text_is_compact_utf_8_in_the_order_of_the_schema() -> None:
    serde = JsonSerde(schema={"b": pl.String, "a": pl.Int64, "missing": pl.Boolean})
    written = serde.serialize({"a": 1, "b": 'é"\n\x01', "extra": 5})
    assert written == '{"b":"é\\"\\n\\u0001","a":1,"missing":null}'.encode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_cannot_write_are_refused(number: float) -> None:
    flat, deep, free = JsonSerde(schema=FLAT), JsonSerde(schema=DEEP), JsonSerde()
    with pytest.raises(SerializationError, match="NaN or infinite"):
        flat.serialize({"f": number})
    with pytest.raises(SerializationError, match="NaN or infinite"):
        deep.serialize({"r": {"x": number}})
    with pytest.raises(SerializationError, match="NaN or infinite"):
        free.serialize({"a": [None, {"b": number}]})
    with pytest.raises(SerializationError, match="NaN or infinite"):
        columns_of(flat).encode(columns_of(flat).from_python([{"f": 1.0}, {"f": number}])[0])
    with pytest.raises(SerializationError, match="NaN or infinite"):
        columns_of(deep).encode(columns_of(deep).from_python([{"r": {"x": number}}, {"r": None}])[0])


@pytest.mark.parametrize(
    "value",
    [
        {"i": "1"},
        {"i": 1.0},
        {"i": True},
        {"i": 2**63},
        {"n": 2**31},
        {"s": 1},
        {"s": "\ud800"},
        {"f": "1"},
        5,
    ],
)
def test_a_value_that_does_not_fit_the_schema_is_refused_in_rows_and_columns(value: Any) -> None:
    serde = SERDES["flat"]
    with pytest.raises(SerializationError):
        serde.serialize(value)
    with pytest.raises(SerializationError):
        columns_of(serde).from_python([None, value])


def test_a_value_of_another_type_than_the_serdes_is_refused() -> None:
    with pytest.raises(SerializationError, match="another type"):
        JsonSerde(Order).serialize({"order_id": 1, "customer": "c", "amount": 1.0})


def test_a_null_in_a_field_that_is_never_null_is_refused_by_columns_as_by_rows() -> None:
    serde = JsonSerde(Order)
    with pytest.raises(SerializationError):
        serde.serialize(Order(1, None, 2.0))  # type: ignore[arg-type]
    frame, _ = columns_of(serde).from_python([Order(1, "c", 2.0)])
    with pytest.raises(SerializationError, match="never null"):
        columns_of(serde).encode(frame.with_columns(customer=pl.lit(None, pl.String)))


def test_without_schema_many_texts_are_read_as_each_of_them() -> None:
    texts = [text for text in ODD_TEXTS if _is_json(text)]
    assert_many_are_read_as_one(JsonSerde(), [None, *texts, b"null"], ())
    assert_many_are_read_as_one(JsonSerde(), [*texts, b"nonsense"], {len(texts)})


def _is_json(text: bytes) -> bool:
    try:
        JsonSerde().deserialize(text)
    except SerializationError:
        return False
    return True


def test_without_schema_any_json_is_read_and_there_are_rows_only() -> None:
    serde = JsonSerde()
    assert serde.columns is None
    assert serde.deserialize(b'{"b":[1,2.5,null,true,"x"],"a":{}}') == {
        "b": [1, 2.5, None, True, "x"],
        "a": {},
    }
    assert serde.serialize({"b": 1, "a": None}) == b'{"b":1,"a":null}'
    assert serde.deserialize(b"null") is None
    for bad in (b"", b"{", b"1 2", b"nan"):
        with pytest.raises(SerializationError):
            serde.deserialize(bad)


def test_sorted_fields_give_the_canonical_bytes_that_were_recorded() -> None:
    rows = [row for row in json.loads(GOLDEN.read_text())["plain"] if row["type"] == "json"]
    assert len(rows) > 4
    serde = Serdes.json(sort_fields=True)
    for row in rows:
        assert serde.serialize(row["value"]) == bytes.fromhex(row["bytes"])
        assert serde.deserialize(bytes.fromhex(row["bytes"])) == row["value"]


def test_a_type_that_does_something_of_its_own_exists_in_rows_only() -> None:
    @dataclass
    class Checked:
        amount: int

        def __post_init__(self) -> None:
            if self.amount < 0:
                raise ValueError("negative")

    class Tagged(msgspec.Struct, tag="t"):
        amount: int

    assert JsonSerde(Checked).columns is None
    assert JsonSerde(Checked).deserialize(b'{"amount":1}') == Checked(1)
    with pytest.raises(SerializationError, match="negative"):
        JsonSerde(Checked).deserialize(b'{"amount":-1}')
    assert JsonSerde(Tagged).columns is None
    assert JsonSerde(Tagged).serialize(Tagged(1)) == b'{"type":"t","amount":1}'


def test_a_type_whose_default_does_not_fit_its_field_exists_in_rows_only() -> None:
    class Odd(msgspec.Struct):
        amount: int = "none"  # type: ignore[assignment]

    assert JsonSerde(Odd).columns is None
    assert JsonSerde(Odd).deserialize(b"{}") == Odd()


def test_types_without_a_clear_column_exist_in_rows_only() -> None:
    class Loose(msgspec.Struct):
        anything: dict[str, int]

    assert JsonSerde(Loose).columns is None
    assert JsonSerde(Loose).deserialize(b'{"anything":{"a":1}}') == Loose({"a": 1})
    assert JsonSerde(list[int]).columns is None
    assert JsonSerde(list[int]).deserialize(b"[1]") == [1]


@pytest.mark.parametrize(
    "schema",
    [{"v": pl.Datetime}, {"v": pl.Binary}, {"v": pl.List(pl.Date)}, {"v": pl.List}, {"__v": pl.Int64}],
)
def test_fields_that_json_has_no_form_for_are_refused_when_the_serde_is_made(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        JsonSerde(schema=schema)


def test_a_type_and_a_schema_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        JsonSerde(Order, schema=FLAT)


def test_an_integer_column_that_is_narrower_or_unsigned_is_written() -> None:
    codec = columns_of(JsonSerde(schema={"n": pl.Int64}))
    assert codec.encode(pl.DataFrame({"n": [3]}, schema={"n": pl.UInt32})) == [b'{"n":3}']


@each_serde
def test_serdes_and_codecs_can_be_pickled(name: str) -> None:
    serde = SERDES[name]
    again, codec = pickle.loads(pickle.dumps(serde)), pickle.loads(pickle.dumps(columns_of(serde)))
    assert codec.schema == columns_of(serde).schema
    assert again.deserialize(b"null") is None
