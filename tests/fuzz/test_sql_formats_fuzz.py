"""No bytes make a format of SQL, or a row of a store, do anything but give a row or a SerializationError."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.inputs import run

from hayase.core.errors import SerializationError
from hayase.serde.protocol import Serde
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.formats.serdes import value_serde
from hayase.sql.registry import EmbeddedSchemaRegistry
from hayase.sql.types import sql_types as sql

PLAIN = [
    Column("ID", sql.BIGINT),
    Column("NAME", sql.STRING),
    Column("PAID", sql.BOOLEAN),
    Column("WEIGHT", sql.DOUBLE),
    Column("PRICE", sql.DecimalType(8, 2)),
    Column("DAY", sql.DATE),
    Column("DATA", sql.BYTES),
]
INNER = sql.StructType((("X", sql.INTEGER), ("Y", sql.ArrayType(sql.STRING))))
NESTED = [*PLAIN, Column("INNER", INNER), Column("BY_NAME", sql.MapType(sql.STRING, INNER))]
ROW: dict[str, Any] = {
    "ID": 7,
    "NAME": "né",
    "PAID": True,
    "WEIGHT": 1.5,
    "PRICE": Decimal("12.30"),
    "DAY": 20000,
    "DATA": b"\x01\x02",
    "INNER": {"X": 1, "Y": ["a", None]},
    "BY_NAME": {"k": {"X": None, "Y": []}, "n": None},
}
PROTOBUF_ROW = {**ROW, "INNER": {"X": 1, "Y": ["a"]}, "BY_NAME": {"k": {"X": 2, "Y": []}}}


def serde_of(name: str) -> Serde[Any]:
    """The serde of a format, or of stores."""
    if name == "internal":
        return internal_value_serde(NESTED)
    columns = PLAIN if name == "DELIMITED" else NESTED
    return value_serde(FormatInfo(name), columns, topic="t", registry=EmbeddedSchemaRegistry())


def typed(value: Any, type_: sql.SqlType) -> bool:
    """Whether a value is one of a type."""
    if value is None:
        return True
    match type_:
        case sql.StructType(fields):
            return list(value) == [name for name, _ in fields] and all(
                typed(value[name], each) for name, each in fields
            )
        case sql.ArrayType(item):
            return isinstance(value, list) and all(typed(each, item) for each in value)
        case sql.MapType(_, item):
            return isinstance(value, dict) and all(typed(each, item) for each in value.values())
        case sql.DecimalType(precision, scale):
            parts = value.as_tuple()
            return bool(parts.exponent == -scale and len(parts.digits) <= precision)
    return type(value) is {
        sql.BooleanType: bool,
        sql.DoubleType: float,
        sql.StringType: str,
        sql.BytesType: bytes,
    }.get(type(type_), int)


@pytest.mark.parametrize("name", ["JSON", "DELIMITED", "AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"])
def test_damaged_bytes_are_refused_or_read_as_a_row_of_the_types(name: str, inputs: int, tmp_path: Path) -> None:
    serde = serde_of(name)
    given = PROTOBUF_ROW if name.startswith("PROTOBUF") else ROW
    corpus = [data for data in (serde.serialize(given), serde.serialize(dict.fromkeys(given))) if data is not None]
    columns = sql.StructType(tuple((each.name, each.type) for each in (PLAIN if name == "DELIMITED" else NESTED)))

    def check(batch: list[bytes | None]) -> None:
        for data in batch:
            try:
                row = serde.deserialize(data)
            except SerializationError:
                continue
            assert typed(row, columns), f"{name}: {row!r} of {None if data is None else data.hex()}"

    run(name, corpus, max(5, inputs // 10), tmp_path, check)


def test_damaged_rows_of_stores_are_refused_or_read(inputs: int, tmp_path: Path) -> None:
    serde = serde_of("internal")
    corpus = [data for data in (serde.serialize(ROW), serde.serialize(dict.fromkeys(ROW))) if data is not None]

    def check(batch: list[bytes | None]) -> None:
        for data in batch:
            try:
                serde.deserialize(data)
            except SerializationError:
                continue

    run("internal", corpus, max(5, inputs // 10), tmp_path, check)
