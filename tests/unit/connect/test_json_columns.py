"""Columns of JSON are the values that the converter reads one by one, or there are none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.budget import examples

from hayase.connect.columns import SingleColumn, StructColumns
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.exceptions import DataError
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)

INNER = struct_schema({"x": INT32_SCHEMA.as_optional(), "y": STRING_SCHEMA}).as_optional()
TYPES: dict[str, tuple[ConnectSchema, Callable[[random.Random], Any]]] = {
    "i8": (INT8_SCHEMA, lambda r: r.choice([0, -128, 127, 128, 300, 1.5, "7", True])),
    "i16": (INT16_SCHEMA, lambda r: r.choice([0, 5, 1 << 15])),
    "i32": (INT32_SCHEMA, lambda r: r.choice([1, -(1 << 31), 1 << 31])),
    "i64": (INT64_SCHEMA, lambda r: r.choice([0, 1 << 62, 1 << 64])),
    "f32": (FLOAT32_SCHEMA, lambda r: r.choice([0.5, 0.1, 3, "NaN"])),
    "f64": (FLOAT64_SCHEMA, lambda r: r.choice([0.5, 1e300, 3, "Infinity", -0.0])),
    "flag": (BOOLEAN_SCHEMA, lambda r: r.choice([True, False, 1])),
    "text": (STRING_SCHEMA, lambda r: r.choice(["", "ä\t\\", "x", 5])),
    "raw": (BYTES_SCHEMA, lambda r: r.choice(["AA==", "", "?"])),
    "price": (decimal_schema(2), lambda r: r.choice(["AA==", 1.25, "!"])),
    "day": (DATE_SCHEMA, lambda r: r.choice([0, 19000])),
    "at": (TIMESTAMP_SCHEMA, lambda r: r.choice([0, 1_700_000_000_123])),
    "tags": (array_schema(STRING_SCHEMA), lambda r: r.choice([[], ["a"], "a"])),
    "counts": (map_schema(STRING_SCHEMA, INT32_SCHEMA), lambda r: r.choice([{}, {"a": 1}])),
    "inner": (INNER, lambda r: r.choice([None, {"x": 1, "y": "z"}, {"y": "z", "more": 1}])),
}


def some_schema(chosen: random.Random) -> ConnectSchema:
    fields = {}
    for name in chosen.sample(list(TYPES), chosen.randint(1, 5)):
        schema = TYPES[name][0]
        if chosen.random() < 0.5:
            schema = schema.as_optional()
        if name == "i32" and chosen.random() < 0.3:
            schema = ConnectSchema(schema.type, optional=True, default=7)
        fields[name] = schema
    return struct_schema(fields)


def some_row(chosen: random.Random, schema: ConnectSchema, oddity: float) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in schema.fields:
        choices = TYPES[field.name][1] if field.name in TYPES else lambda _: 0
        if (field.schema.optional or chosen.random() < oddity) and chosen.random() < 0.3:
            if chosen.random() < 0.5:
                row[field.name] = None
            continue
        row[field.name] = choices(chosen) if chosen.random() < oddity else choices(random.Random(1))
    return row


def schema_json(schema: ConnectSchema) -> Any:
    converter = JsonConverter()
    written = converter.from_connect_data("t", (), schema.as_optional(), None)
    assert written is not None
    return {**json.loads(written)["schema"], "optional": schema.optional}


def all_columns(columns: StructColumns) -> list[dict[str, object] | None]:
    """The rows that columns make."""
    named = {name: columns.column(name) for name in columns.names}
    present = range(len(columns)) if columns.present is None else columns.present
    rows: list[dict[str, object] | None] = [None] * len(columns)
    for number, row in enumerate(present):
        rows[row] = {name: column[number] for name, column in named.items()}
    return rows


def one_by_one(converter: JsonConverter, data: list[bytes | None]) -> list[object]:
    return [converter.to_connect_data("t", (), each).value for each in data]


@pytest.mark.parametrize("seed", range(examples(300)))
def test_columns_with_a_schema_are_the_values_read_one_by_one(seed: int) -> None:
    chosen = random.Random(seed)
    schema = some_schema(chosen)
    oddity = chosen.choice([0.0, 0.0, 0.1])
    described = json.dumps(schema_json(schema), separators=(",", ":"))
    rows = [some_row(chosen, schema, oddity) if chosen.random() < 0.9 else None for _ in range(chosen.randint(1, 9))]
    data = [
        None if row is None else f'{{"schema":{described},"payload":{json.dumps(row)}}}'.encode() for row in rows
    ] + [f'{{"schema":{described},"payload":{json.dumps(some_row(chosen, schema, 0.0))}}}'.encode()]
    converter = JsonConverter()
    columns = converter.to_connect_columns("t", data)
    try:
        wanted = one_by_one(converter, data)
    except DataError:
        if columns is not None:
            assert isinstance(columns, StructColumns)
            with pytest.raises(DataError):
                all_columns(columns)
        return
    assert isinstance(columns, StructColumns)
    assert repr(all_columns(columns)) == repr(wanted)
    assert columns.schema == schema


@pytest.mark.parametrize("seed", range(examples(100)))
def test_columns_without_a_schema_are_the_values_read_one_by_one(seed: int) -> None:
    chosen = random.Random(seed)
    values = [1, 1.5, "x", None, True, [1], {"a": 1}]
    rows = [
        None if chosen.random() < 0.1 else {name: chosen.choice(values) for name in ("b", "a")}
        for _ in range(chosen.randint(1, 9))
    ] + [{"a": 1, "b": 2}]
    data = [None if row is None else json.dumps(row).encode() for row in rows]
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    columns = converter.to_connect_columns("t", data)
    assert isinstance(columns, StructColumns)
    assert all_columns(columns) == one_by_one(converter, data) == rows


@pytest.mark.parametrize(
    "data",
    [
        [b'{"a":1}', b'{"b":1}'],
        [b'{"a":1}', b"5"],
        [b'{"a":1}', b""],
        [b'{"a":1}', b'{"a":1},{"a":2}'],
        [b"{"],
        [b'{"a":' * 3000],
    ],
)
def test_objects_of_other_names_or_beside_other_values_have_no_columns(data: list[bytes | None]) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    assert converter.to_connect_columns("t", data) is None


@pytest.mark.parametrize(
    "second",
    [
        b'{"schema":{"type":"struct","fields":[{"field":"a","type":"int64"}]},"payload":{"a":1}}',
        b'{ "schema":{"type":"struct","fields":[{"field":"a","type":"int32"}]},"payload":{"a":1}}',
        b'{"schema":{"type":"struct","fields":[{"field":"a","type":"int32"}]},"payload":{"a":1},"more":1}',
        b'{"schema":{"type":"struct","fields":[{"field":"a","type":"int32"}]},"payload":null}',
        b"{}",
    ],
)
def test_records_of_another_schema_or_form_have_no_columns(second: bytes) -> None:
    first = b'{"schema":{"type":"struct","fields":[{"field":"a","type":"int32"}]},"payload":{"a":1}}'
    converter = JsonConverter()
    assert converter.to_connect_columns("t", [first]) is not None
    assert converter.to_connect_columns("t", [first, second]) is None


@pytest.mark.parametrize("seed", range(examples(100)))
def test_values_that_are_no_objects_are_a_column_of_those_read_one_by_one(seed: int) -> None:
    chosen = random.Random(seed)
    schemas = chosen.random() < 0.7
    name = chosen.choice([each for each in TYPES if each not in ("counts", "inner")])
    schema = TYPES[name][0].as_optional() if chosen.random() < 0.5 else TYPES[name][0]
    values = [TYPES[name][1](chosen if chosen.random() < 0.2 else random.Random(1)) for _ in range(9)]
    data: list[bytes | None] = [json.dumps(value).encode() for value in [*values, None]]
    if schemas:
        described = json.dumps(schema_json(schema), separators=(",", ":")).encode()
        texts = data if schema.optional else data[:-1]
        data = [b'{"schema":' + described + b',"payload":' + (text or b"") + b"}" for text in texts]
    data.append(None)
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, True)
    column = converter.to_connect_columns("t", data)
    try:
        wanted = one_by_one(converter, data)
    except DataError:
        assert column is None
        return
    assert isinstance(column, SingleColumn)
    assert repr(column.values) == repr(wanted)
    assert column.schema == (schema if schemas else None)


def test_maps_with_a_schema_have_no_columns_as_its_fields_are_not_their_names() -> None:
    described = json.dumps(schema_json(map_schema(STRING_SCHEMA, INT32_SCHEMA)), separators=(",", ":"))
    data: list[bytes | None] = [f'{{"schema":{described},"payload":{{"a":1,"b":2}}}}'.encode()]
    converter = JsonConverter()
    assert one_by_one(converter, data) == [{"a": 1, "b": 2}]
    assert converter.to_connect_columns("t", data) is None


def test_a_map_in_a_struct_has_no_columns_of_its_own() -> None:
    schema = struct_schema({"after": map_schema(STRING_SCHEMA, INT32_SCHEMA)})
    described = json.dumps(schema_json(schema), separators=(",", ":"))
    columns = JsonConverter().to_connect_columns(
        "t", [f'{{"schema":{described},"payload":{{"after":{{"a":1}}}}}}'.encode()]
    )
    assert isinstance(columns, StructColumns)
    with pytest.raises(DataError, match="map, not of structs"):
        columns.struct("after")


def test_a_decimal_keeps_all_its_digits_in_a_column() -> None:
    schema = struct_schema({"price": decimal_schema(30)})
    described = json.dumps(schema_json(schema), separators=(",", ":"))
    data: list[bytes | None] = [f'{{"schema":{described},"payload":{{"price":0.1{"0" * 28}1}}}}'.encode()]
    columns = JsonConverter().to_connect_columns("t", data)
    assert isinstance(columns, StructColumns)
    assert columns.column("price") == [Decimal("0.1" + "0" * 28 + "1")]


def test_a_struct_in_a_struct_has_columns_of_its_own_rows() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    data = [json.dumps(each).encode() for each in ({"after": None, "n": 1}, {"after": {"id": 5}, "n": 2})]
    columns = converter.to_connect_columns("t", [None, *data])
    assert isinstance(columns, StructColumns)
    after = columns.struct("after")
    assert after is not None
    assert (len(after), after.present, after.column("id")) == (3, [2], [5])
