"""Transforms and predicates that are Python functions and Polars expressions, named from `plugin.path`."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hayase.connect.exceptions import DataError
from hayase.connect.model import SourceRecord
from hayase.connect.schema import (
    DATE_SCHEMA,
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
    validate_value,
)
from hayase.connect.transforms.own import ExpressionPredicate, FieldsTransform
from hayase.core.errors import ConfigError
from hayase.log.protocol import Log
from hayase.testing.connect import ConnectorTestDriver

README = Path(__file__).resolve().parents[3] / "docs" / "connectors" / "README.md"


def record(value: object, schema: ConnectSchema | None = None, **more: Any) -> SourceRecord:
    return SourceRecord(source_partition={}, source_offset={}, topic="orders", value=value, value_schema=schema, **more)


@pytest.mark.long
def test_the_file_of_the_documentation_is_applied_as_it_says(log: Log, tmp_path: Path) -> None:
    page = README.read_text("utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "FieldsTransform" in block)
    (config,) = (block for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if "shop.WithTotal" in block)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "shop.py").write_text(code)
    orders: list[dict[str, Any]] = [
        {"price": 5, "quantity": 3},
        {"price": 50, "quantity": 3},
        {"price": None, "quantity": 3},
    ]
    (tmp_path / "orders.json").write_text("".join(json.dumps(order) + "\n" for order in orders))
    props = {
        "connector.class": "FileSource", "path": str(tmp_path / "orders.json"), "format": "json", "settle.ms": "0",
        "list.interval.ms": "0",
        "topic": "orders", "value.converter": "JsonConverter", "value.converter.schemas.enable": "false",
        **json.loads(config),
    }  # fmt: skip
    with ConnectorTestDriver(props, worker={"plugin.path": str(tmp_path / "plugins")}, log=log) as connector:
        connector.run_to_end()
        usual, first = (
            [json.loads(each.value or b"") for each in connector.records(topic)] for topic in ("orders", "orders-first")
        )
    assert usual == [{**orders[0], "total": 15}, {**orders[2], "total": None}]
    assert first == [{**orders[1], "total": 150}]


def test_a_configuration_that_holds_code_is_refused(log: Log) -> None:
    props = {
        "connector.class": "FileStreamSource", "topic": "lines", "transforms": "a",
        "transforms.a.type": "lambda record: record",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="class that implements Transformation and which name matches lambda record"):
        ConnectorTestDriver(props, log=log)


SCHEMA = struct_schema({
    "price": decimal_schema(2), "quantity": INT32_SCHEMA.as_optional(), "tags": array_schema(STRING_SCHEMA),
    "day": DATE_SCHEMA, "at": TIMESTAMP_SCHEMA, "home": struct_schema({"city": STRING_SCHEMA}),
    "more": map_schema(STRING_SCHEMA, STRING_SCHEMA),
}, name="shop.Order")  # fmt: skip
VALUE = {
    "price": Decimal("1.50"), "quantity": 2, "tags": ["a", "b"], "day": dt.date(2026, 1, 31),
    "at": dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), "home": {"city": "Nara"}, "more": {"a": "b"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "schema", "value"),
    [
        (pl.col("quantity") + 1, INT32_SCHEMA, 3),
        (pl.col("quantity").cast(pl.Float64) / 4, FLOAT64_SCHEMA, 0.5),
        (pl.col("price"), decimal_schema(2), Decimal("1.50")),
        (pl.col("tags").list.join("-"), STRING_SCHEMA, "a-b"),
        (pl.col("tags").list.slice(1), array_schema(STRING_SCHEMA.as_optional()), ["b"]),
        (pl.col("tags").list.len(), INT64_SCHEMA, 2),
        (pl.col("day").dt.offset_by("1d"), DATE_SCHEMA, dt.date(2026, 2, 1)),
        (pl.col("at").dt.truncate("1d"), TIMESTAMP_SCHEMA, dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
        (pl.col("day").cast(pl.Datetime("ms")), TIMESTAMP_SCHEMA, dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
        (pl.col("home").struct.field("city"), STRING_SCHEMA, "Nara"),
        (pl.col("__ts"), INT64_SCHEMA, 7),
        (pl.lit(None), STRING_SCHEMA, None),
    ],
)
def test_a_field_has_the_schema_of_what_its_expression_gives(
    expression: pl.Expr, schema: ConnectSchema, value: object
) -> None:
    class Made(FieldsTransform):
        fields = {"made": expression}

    changed = Made().apply(record(VALUE, SCHEMA, timestamp_ms=7))
    assert changed is not None and changed.value_schema is not None
    found = changed.value_schema.field("made")
    assert found is not None
    assert (found.schema, changed.value) == (schema.as_optional(), {**VALUE, "made": value})
    assert [field.name for field in changed.value_schema.fields] == [*VALUE, "made"]
    assert changed.value_schema.name == "shop.Order"
    validate_value(changed.value_schema, changed.value)


def test_a_field_is_replaced_with_its_schema() -> None:
    class Text(FieldsTransform):
        fields = {"quantity": pl.col("quantity").cast(pl.String)}

    applied = Text()
    for given, wanted in ((VALUE, "2"), ({**VALUE, "quantity": None}, None)):
        changed = applied.apply(record(given, SCHEMA))
        assert changed is not None and changed.value_schema is not None
        assert changed.value == {**given, "quantity": wanted}
        assert [field.name for field in changed.value_schema.fields] == list(VALUE)
        assert changed.value_schema.fields[1].schema == STRING_SCHEMA.as_optional()


def test_a_tombstone_passes_and_a_value_without_fields_is_refused() -> None:
    class Made(FieldsTransform):
        fields = {"made": pl.lit(1)}

    assert Made().apply(record(None)) == record(None)
    with pytest.raises(DataError, match="HoistField"):
        Made().apply(record("text"))


def test_a_value_that_an_expression_cannot_take_is_an_error_of_the_record() -> None:
    class Made(FieldsTransform):
        fields = {"made": pl.col("name").str.to_uppercase()}

    assert Made().apply(record({"name": "ada"})) == record({"name": "ada", "made": "ADA"})
    with pytest.raises(DataError, match="an expression of Made cannot take the value"):
        Made().apply(record({"name": 5}))


def test_a_type_that_connect_does_not_have_is_named_with_its_field() -> None:
    class Made(FieldsTransform):
        fields = {"took": pl.col("at") - pl.col("at")}

    with pytest.raises(DataError, match=r"'took'.*Duration.*cast"):
        Made().apply(record(VALUE, SCHEMA))


def test_a_predicate_holds_where_its_expression_is_true() -> None:
    class Large(ExpressionPredicate):
        condition = pl.col("quantity") > 1

    large = Large()
    given = [record({"quantity": 1}), record({"quantity": 2}), record({}), record(None), record(VALUE, SCHEMA)]
    assert [large.test(each) for each in given] == [False, True, False, False, True]
    with pytest.raises(DataError, match="HoistField"):
        large.test(record("text"))
