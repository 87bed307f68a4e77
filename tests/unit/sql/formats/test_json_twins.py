"""The short way of reading JSON gives what the long way gives."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hayase.core.errors import SerializationError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.formats.json_format import JsonPayload
from hayase.sql.formats.json_reading import DECODER, record_reader
from hayase.sql.formats.json_twins import JsonTwin, UndecidedError
from hayase.sql.formats.serdes import value_serde
from hayase.sql.types import sql_types as sql

BAD = "bad"
MONEY = sql.DecimalType(4, 2)
INNER = sql.StructType((("ID", sql.INTEGER), ("NAME", sql.STRING)))
FIELDS = (
    ("ID", sql.INTEGER),
    ("NAME", sql.STRING),
    ("PRICE", MONEY),
    ("WEIGHT", sql.DOUBLE),
    ("AT", sql.TIMESTAMP),
    ("INNER", INNER),
    ("LIST", sql.ArrayType(INNER)),
    ("MAP", sql.MapType(sql.STRING, MONEY)),
    ("lower", sql.BOOLEAN),
    ("DATA", sql.BYTES),
)
DOTLESS = "\u0131d"  # its upper case is ID
KEYS = ["ID", "id", "Id", "NAME", "name", "PRICE", "price", "WEIGHT", "weight", "AT", "at", "INNER", "inner", "LIST"]
KEYS += ["list", "MAP", "map", "lower", "LOWER", "DATA", "data", DOTLESS, "x"]
NUMBERS = ["1", "-0", "-0.0", "1.5", "2147483648", "1e400", "99.999", "12.345", "1.50", "100", "9223372036854775808"]
STRINGS = ['"1.5"', '"id"', '"ID"', '"a\\u0049"', '"ß"', '"AQI="', '"NaN"', '""']
SCALARS = st.sampled_from([*NUMBERS, *STRINGS, "null", "true", "1E2", "[]", "{}"])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=8)
    return pairs.map(lambda pairs: "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}:{v}" for k, v in pairs) + "}")


ANY = st.recursive(
    SCALARS,
    lambda inner: st.one_of(objects(inner), st.lists(inner, max_size=2).map(lambda items: f"[{','.join(items)}]")),
    max_leaves=6,
)
FITTING = {
    "ID": "1",
    "NAME": '"x"',
    "PRICE": "1.5",
    "WEIGHT": "2.0",
    "AT": "3",
    "INNER": '{"ID": 1, "NAME": null}',
    "LIST": '[{"ID": 1, "NAME": "y"}]',
    "MAP": '{"a": 1.25, "b": null}',
    "lower": "true",
    "DATA": '"AQI="',
}


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A record that fits, except for some of its fields and names."""
    parts = []
    for name, value in FITTING.items():
        kind = draw(st.sampled_from(["as is", "as is", "lower", "other", "gone", "twice"]))
        given_name = name.lower() if kind in ("lower", "twice") else name
        parts.append((given_name, draw(ANY) if kind in ("other", "twice") else value)) if kind != "gone" else None
        if kind == "twice":
            parts.append((name, value))
    return ("{" + ",".join(f'"{name}":{value}' for name, value in parts) + "}").encode()


def read(reader: Any, data: bytes) -> Any:
    try:
        return repr(reader(data))
    except Exception as error:
        return type(error)


def long_way(data: bytes) -> Any:
    return record_reader(FIELDS)(DECODER.decode(data))


@pytest.mark.long
@settings(max_examples=200)
@given(st.lists(st.one_of(records(), objects(ANY).map(str.encode)), min_size=1, max_size=6))
def test_both_ways_read_the_same_whatever_was_read_before(data: list[bytes]) -> None:
    payload = JsonPayload([Column(*field) for field in FIELDS], bare=False)
    for record in data:
        expected, given_back = read(long_way, record), read(payload.read, record)
        assert given_back == expected or (isinstance(expected, type) and isinstance(given_back, type)), record


IN_COLUMNS = [Column(*field) for field in FIELDS if field[0] not in ("PRICE", "MAP")]
IN_COLUMNS.append(Column("T", sql.TIME))


@pytest.mark.long
@settings(max_examples=150)
@given(st.lists(st.one_of(records(), objects(ANY).map(str.encode), st.none(), st.just(b"null")), max_size=6))
def test_rows_and_columns_read_and_write_the_same(data: list[bytes | None]) -> None:
    serde = value_serde(FormatInfo("JSON"), IN_COLUMNS)
    codec = value_serde(FormatInfo("JSON"), IN_COLUMNS).columns
    assert codec is not None
    decoded = codec.decode_list(data)
    bad = {at for at, _ in decoded.bad}
    assert all(isinstance(error, SerializationError) for _, error in decoded.bad)
    in_columns = codec.to_python(decoded.frame, decoded.null)
    in_rows = [BAD if at in bad else serde.deserialize(each) for at, each in enumerate(data)]
    assert repr([BAD if at in bad else row for at, row in enumerate(in_columns)]) == repr(in_rows)
    for at in bad:
        with pytest.raises(SerializationError):
            serde.deserialize(data[at])
    rows: list[Any] = [None if row == BAD else row for row in in_rows]
    frame, null = codec.from_python(rows)
    assert codec.encode(frame, null) == [serde.serialize(row) for row in rows]


def test_a_column_can_be_left_out() -> None:
    codec = value_serde(FormatInfo("JSON"), IN_COLUMNS).columns
    assert codec is not None
    decoded = codec.decode_list([b'{"ID": 1, "NAME": "x"}', b'{"ID": "2", "NAME": "y"}'], frozenset({"ID"}))
    assert decoded.frame.to_dict(as_series=False) == {"ID": [1, 2]}


def test_a_zero_has_no_sign_in_columns_either() -> None:
    serde = value_serde(FormatInfo("JSON"), [Column("A", sql.DOUBLE), Column("B", sql.STRING)])
    codec = serde.columns
    assert codec is not None
    texts = [b'{"A": -0.0, "B": "x"}', b'{"A": 1.5, "B": "x"}']
    assert list(map(repr, codec.decode_list(texts).frame["A"])) == ["0.0", "1.5"]
    assert [repr(serde.from_bytes(text)["A"]) for text in texts] == ["0.0", "1.5"]


def test_every_type_has_columns() -> None:
    for field in FIELDS:
        assert value_serde(FormatInfo("JSON"), [Column(*field)]).columns is not None


def test_columns_go_on_after_they_were_pickled() -> None:
    codec = value_serde(FormatInfo("JSON"), IN_COLUMNS).columns
    copy = pickle.loads(pickle.dumps(codec))
    assert copy.decode_list([b'{"id": 1}']).frame["ID"].to_list() == [1]


def test_the_short_way_learns_how_names_are_spelled() -> None:
    twin = JsonTwin(FIELDS[:2], {"ID": "id"})
    assert twin.read(b'{"id": 5, "NAME": "x"}') == {"ID": 5, "NAME": "x"}
    assert twin.read(b'{"id": 5}') == {"ID": 5, "NAME": None}


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 5, "ID": 6}',
        '{"id": 5, "Id": 6}',
        '{"id": 5, "\\u0049D": 6}',
        f'{{"id": 5, "{DOTLESS}": 6}}',
        '{"iD": 5}',
    ],
)
def test_two_spellings_of_one_name_are_not_decided_the_short_way(text: str) -> None:
    with pytest.raises(UndecidedError):
        JsonTwin(FIELDS[:1], {"ID": "id"}).read(text.encode())


def test_decimals_are_exact_the_short_way() -> None:
    twin = JsonTwin((("A", sql.DecimalType(30, 10)),), {})
    assert twin.read(b'{"A": 12345678901234567890.1}') == {"A": Decimal("12345678901234567890.1000000000")}
