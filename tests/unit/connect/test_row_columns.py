"""Changes of rows by column are those that records make one by one, whatever their keys are."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.budget import examples

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.contracts import Converter
from hayase.connect.conversion import Conversion
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.converters.primitive_converters import ByteArrayConverter, LongConverter
from hayase.connect.converters.simple_header_converter import SimpleHeaderConverter
from hayase.connect.converters.string_converter import StringConverter
from hayase.connect.errors import ErrorPolicy
from hayase.connect.exceptions import DataError
from hayase.connect.sql.row_change import RowChangeKind
from hayase.connect.sql.row_columns import RowColumns
from hayase.connect.sql.rows import RowMapper
from hayase.connect.sql.sink_config import sql_sink_keys
from hayase.log.protocol import RecordBatch

PLAIN = {"schemas.enable": "false"}
KEYS: dict[type[Converter], Sequence[bytes]] = {
    StringConverter: [b"ada", b"", "ö".encode(), b"\xff"],
    LongConverter: [bytes(8), b"\xff" * 8],
    ByteArrayConverter: [b"\0", b"ab"],
    JsonConverter: [b'"ada"', b"7", b"[1]", b'{"id":7}', b"null"],
}


def changes_of(columns: RowColumns) -> list[tuple[Any, ...]]:
    """What columns say of each change, as `RowMapper.change` does."""
    count = len(next(iter(columns.key.values())))
    present = range(count) if columns.present is None else columns.present
    row_of = {change: row for row, change in enumerate(present)}
    made: list[tuple[Any, ...]] = []
    for change in range(count):
        key = {name: column[change] for name, column in columns.key.items()}
        row = row_of.get(change)
        kind = RowChangeKind.DELETE if row is None else RowChangeKind.WRITE
        made.append((kind, key, {} if row is None else {name: each[row] for name, each in columns.values.items()}))
    return made


def conversion(key: type[Converter]) -> Conversion:
    keys, values = key(), JsonConverter()
    keys.configure(PLAIN, True)
    values.configure(PLAIN, False)
    return Conversion(keys, values, SimpleHeaderConverter(), (), ErrorPolicy("sink", 0))


def mapper(**settings: str) -> RowMapper:
    given = {"insert.mode": "upsert", **{name.replace("_", "."): value for name, value in settings.items()}}
    return RowMapper(TypedConfig(sql_sink_keys(), given))


def batch_of(keys: Sequence[bytes | None], rows: Sequence[Mapping[str, object] | None]) -> RecordBatch:
    values = [None if row is None else json.dumps(row).encode() for row in rows]
    offsets = np.arange(len(keys), dtype=np.int64)
    return RecordBatch("rows", 0, offsets, offsets, list(keys), values)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_key_that_is_no_struct_is_the_one_column_of_the_primary_key(key: type[Converter], seed: int) -> None:
    chosen, convert = random.Random(seed), conversion(key)
    keys = [chosen.choice(KEYS[key]) for _ in range(5)]
    rows = [{"n": 1, "key": 2}, *[chosen.choice([None, {"n": 5, "key": 6}]) for _ in keys[1:]]]
    deletes = chosen.choice(["true", "false"])
    rows_of = mapper(primary_key_mode="record_key", primary_key_fields="key", delete_enabled=deletes)
    batch = batch_of(keys, rows)
    found = convert.columns_of(batch)
    columns = None if found is None else rows_of.columns(found)
    try:
        changes = [rows_of.change(record) for record in convert.from_batch(batch, "CreateTime")]
    except DataError:
        assert columns is None
        return
    if columns is None:
        assert key is JsonConverter
        assert {b'{"id":7}', b"null"} & set(keys)
        return
    wanted = [(change.kind, change.key, change.values) for change in changes if change is not None]
    assert changes_of(columns) == wanted
    first = next(change for change in changes if change is not None)
    assert columns.schemas == first.schemas


def test_keys_that_are_not_used_may_be_of_any_kind() -> None:
    rows_of = mapper(primary_key_mode="record_value", primary_key_fields="id")
    for key, values in KEYS.items():
        found = conversion(key).columns_of(batch_of([values[0], None], [{"id": 1}, {"id": 2}]))
        assert found is not None
        columns = rows_of.columns(found)
        assert columns is not None
        assert columns.key == {"id": [1, 2]}


@pytest.mark.parametrize("fields", ["", "a,b"])
def test_a_key_that_is_no_struct_needs_the_name_of_its_column(fields: str) -> None:
    found = conversion(StringConverter).columns_of(batch_of([b"ada"], [{"id": 1}]))
    assert found is not None
    assert mapper(primary_key_mode="record_key", primary_key_fields=fields).columns(found) is None


def test_records_without_a_key_have_no_columns_where_it_is_the_primary_key() -> None:
    found = conversion(StringConverter).columns_of(batch_of([b"ada", None], [{"id": 1}, {"id": 2}]))
    assert found is not None
    assert mapper(primary_key_mode="record_key", primary_key_fields="key").columns(found) is None


def test_bytes_that_are_no_number_have_no_columns() -> None:
    assert conversion(LongConverter).columns_of(batch_of([bytes(8), b"1"], [{"id": 1}, {"id": 2}])) is None
