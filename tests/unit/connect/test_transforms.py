"""Single message transforms, on records with and without schemas."""

from __future__ import annotations

import datetime as dt
import importlib
from typing import Any

import msgspec
import pytest

from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeader, SinkRecord, SourceRecord
from hayase.connect.schema import (
    BYTES_SCHEMA,
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    SchemaType,
    array_schema,
    decimal_schema,
    struct_schema,
)
from hayase.connect.transforms import ALIASES
from hayase.core.errors import ConfigError


def load(name: str) -> Any:
    module, _, cls = ALIASES[name].partition(":")
    return getattr(importlib.import_module(module), cls)()


KAFKA = "org.apache.kafka.connect.transforms."


def transform(name: str, **config: str) -> Any:
    made = load(KAFKA + name)
    made.configure({key.replace("_", "."): value for key, value in config.items()})
    return made


def record(value: object, schema: ConnectSchema | None = None, **fields: Any) -> SourceRecord:
    return SourceRecord(
        source_partition={}, source_offset={}, topic=fields.pop("topic", "orders"), value=value, value_schema=schema,
        **fields,
    )  # fmt: skip


USER = struct_schema({"id": INT64_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="shop.User", version=3)


def test_the_catalog_has_all_transforms_and_predicates_of_kafka() -> None:
    names = {name.removeprefix(KAFKA).partition("$")[0] for name in ALIASES if name.startswith(KAFKA)}
    assert len([name for name in names if not name.startswith("predicates.")]) == 16
    assert len([name for name in names if name.startswith("predicates.")]) == 3
    assert all(load(name) for name in ALIASES)


class TestCast:
    def test_it_casts_fields_of_a_map(self) -> None:
        cast = transform("Cast$Value", spec="a:int8,b:string,c:float64,d:boolean,e:int32")
        given = {"a": 300, "b": 1.5, "c": "2.5", "d": "TRUE", "e": -7.9, "f": "stays"}
        assert cast.apply(record(given)).value == {
            "a": 44, "b": "1.5", "c": 2.5, "d": True, "e": -7, "f": "stays",
        }  # fmt: skip

    def test_it_casts_fields_of_a_struct_and_their_schemas(self) -> None:
        schema = struct_schema({"id": STRING_SCHEMA, "raw": BYTES_SCHEMA}, name="shop.User", version=3)
        out = transform("Cast$Value", spec="id:int32,raw:string").apply(record({"id": "7", "raw": b"ab"}, schema))
        assert out.value == {"id": 7, "raw": "YWI="}
        assert out.value_schema == struct_schema(
            {"id": INT32_SCHEMA, "raw": STRING_SCHEMA}, name="shop.User", version=3
        )

    def test_it_casts_the_whole_key(self) -> None:
        out = transform("Cast$Key", spec="string").apply(record(None, key=7, key_schema=OPTIONAL_INT32_SCHEMA))
        assert (out.key, out.key_schema) == ("7", OPTIONAL_STRING_SCHEMA)

    def test_a_timestamp_becomes_milliseconds_or_text(self) -> None:
        at = dt.datetime(2024, 2, 3, 4, 5, 6, 789000, tzinfo=dt.UTC)
        assert transform("Cast$Value", spec="int64").apply(record(at, TIMESTAMP_SCHEMA)).value == 1706933106789
        text = transform("Cast$Value", spec="string").apply(record(at, TIMESTAMP_SCHEMA)).value
        assert text == "2024-02-03T04:05:06.789Z"

    def test_a_text_that_is_no_number_is_refused(self) -> None:
        with pytest.raises(DataError, match="out of range"):
            transform("Cast$Value", spec="int32").apply(record("x", STRING_SCHEMA))

    def test_an_array_is_refused(self) -> None:
        with pytest.raises(DataError, match="casting from ARRAY"):
            transform("Cast$Value", spec="string").apply(record([1], array_schema(INT32_SCHEMA)))

    @pytest.mark.parametrize("spec", ["", "a:bytes", "a:int3", "string,a:int8", "a:b:int8"])
    def test_a_wrong_spec_is_refused(self, spec: str) -> None:
        with pytest.raises(ConfigError):
            transform("Cast$Value", spec=spec)


class TestHeaders:
    def test_headers_are_dropped_by_name(self) -> None:
        given = record(1, headers=(ConnectHeader("a", 1), ConnectHeader("b", 2), ConnectHeader("a", 3)))
        assert transform("DropHeaders", headers="a").apply(given).headers == (ConnectHeader("b", 2),)

    def test_a_header_gets_the_type_that_its_text_says(self) -> None:
        (header,) = transform("InsertHeader", header="n", value_literal="300").apply(record(1)).headers
        assert (header.value, header.schema.type) == (300, SchemaType.INT16)

    def test_fields_are_moved_into_headers(self) -> None:
        move = transform("HeaderFrom$Value", fields="name", headers="who", operation="move")
        out = move.apply(record({"id": 1, "name": "Ada"}, USER))
        assert out.headers == (ConnectHeader("who", "Ada", OPTIONAL_STRING_SCHEMA),)
        assert (out.value, [field.name for field in out.value_schema.fields]) == ({"id": 1}, ["id"])

    def test_fields_are_copied_into_headers(self) -> None:
        copy = transform("HeaderFrom$Value", fields="name", headers="who", operation="copy")
        out = copy.apply(record({"id": 1, "name": "Ada"}))
        assert (out.headers, out.value) == ((ConnectHeader("who", "Ada"),), {"id": 1, "name": "Ada"})

    def test_a_header_without_a_field_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="same number"):
            transform("HeaderFrom$Value", fields="a,b", headers="a", operation="copy")


class TestExtractField:
    def test_it_takes_a_field_with_its_schema(self) -> None:
        out = transform("ExtractField$Value", field="name").apply(record({"id": 1, "name": "Ada"}, USER))
        assert (out.value, out.value_schema) == ("Ada", OPTIONAL_STRING_SCHEMA)

    def test_it_takes_a_nested_field_by_its_path(self) -> None:
        take = transform("ExtractField$Value", field="a.`b.c`", field_syntax_version="V2")
        assert take.apply(record({"a": {"b.c": 5}})).value == 5

    def test_null_stays_null(self) -> None:
        assert transform("ExtractField$Value", field="name").apply(record(None)).value is None
        assert transform("ExtractField$Value", field="name").apply(record(None, USER.as_optional())).value is None

    def test_an_unknown_field_of_a_struct_is_refused(self) -> None:
        with pytest.raises(DataError, match="Unknown field: age"):
            transform("ExtractField$Value", field="age").apply(record({"id": 1}, USER))

    def test_a_default_stands_for_null_unless_it_is_switched_off(self) -> None:
        schema = struct_schema({"n": OPTIONAL_INT32_SCHEMA.with_default(9)})
        assert transform("ExtractField$Value", field="n").apply(record({"n": None}, schema)).value == 9
        plain = transform("ExtractField$Value", field="n", replace_null_with_default="false")
        assert plain.apply(record({"n": None}, schema)).value is None


class TestFlatten:
    def test_a_nested_struct_becomes_flat_and_fields_of_an_optional_one_optional(self) -> None:
        inner = struct_schema({"x": INT32_SCHEMA, "y": array_schema(INT32_SCHEMA)}, optional=True)
        schema = struct_schema({"id": INT64_SCHEMA, "in": inner}, name="n")
        out = transform("Flatten$Value", delimiter="_").apply(record({"id": 1, "in": {"x": 2, "y": [3]}}, schema))
        assert out.value == {"id": 1, "in_x": 2, "in_y": [3]}
        assert [(field.name, field.schema.optional) for field in out.value_schema.fields] == [
            ("id", False), ("in_x", True), ("in_y", True),
        ]  # fmt: skip

    def test_an_absent_struct_leaves_no_values(self) -> None:
        schema = struct_schema({"in": struct_schema({"x": INT32_SCHEMA}, optional=True)})
        assert transform("Flatten$Value").apply(record({"in": None}, schema)).value == {}


class TestHoistField:
    def test_it_wraps_value_and_schema(self) -> None:
        out = transform("HoistField$Key", field="id").apply(record(None, key=7, key_schema=INT32_SCHEMA))
        assert (out.key, out.key_schema) == ({"id": 7}, struct_schema({"id": INT32_SCHEMA}))


class TestInsertField:
    def test_it_adds_what_is_known_of_the_record(self) -> None:
        insert = transform(
            "InsertField$Value", topic_field="t!", timestamp_field="at", static_field="s", static_value="fixed"
        )
        out = insert.apply(record({"id": 1}, struct_schema({"id": INT64_SCHEMA}), timestamp_ms=5))
        at = dt.datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=dt.UTC)
        assert out.value == {"id": 1, "t": "orders", "at": at, "s": "fixed"}
        assert [(each.name, each.schema.optional) for each in out.value_schema.fields] == [
            ("id", False), ("t", False), ("at", True), ("s", True),
        ]  # fmt: skip

    def test_the_offset_is_known_of_records_of_sinks_only(self) -> None:
        insert = transform("InsertField$Value", offset_field="o")
        sink = SinkRecord(topic="t", kafka_partition=2, kafka_offset=9, value={"id": 1})
        assert insert.apply(sink).value == {"id": 1, "o": 9}
        with pytest.raises(DataError, match="Only SinkRecord"):
            insert.apply(record({"id": 1}))

    def test_a_configuration_that_adds_nothing_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="No field insertion configured"):
            transform("InsertField$Value")


class TestMaskField:
    def test_values_become_empty(self) -> None:
        schema = struct_schema({"n": INT32_SCHEMA, "d": decimal_schema(2), "s": STRING_SCHEMA, "f": FLOAT64_SCHEMA})
        given = {"n": 5, "d": __import__("decimal").Decimal("1.25"), "s": "x", "f": 2.5}
        out = transform("MaskField$Value", fields="n,d,s,f").apply(record(given, schema))
        assert out.value == {"n": 0, "d": 0, "s": "", "f": 0.0}

    def test_a_replacement_becomes_the_type_of_the_field(self) -> None:
        mask = transform("MaskField$Value", fields="n,s", replacement="42")
        schema = struct_schema({"n": INT32_SCHEMA, "s": STRING_SCHEMA})
        assert mask.apply(record({"n": 5, "s": "x"}, schema)).value == {"n": 42, "s": "42"}


class TestRouters:
    def test_only_a_whole_match_changes_the_topic(self) -> None:
        route = transform("RegexRouter", regex=r"shop\.(.*)", replacement="$1_copy")
        assert route.apply(record(1, topic="shop.users")).topic == "users_copy"
        assert route.apply(record(1, topic="my.shop.users")).topic == "my.shop.users"

    def test_the_time_of_the_record_goes_into_the_topic(self) -> None:
        route = transform("TimestampRouter", topic_format="${topic}_${timestamp}", timestamp_format="yyyy-MM")
        assert route.apply(record(1, timestamp_ms=1_700_000_000_000)).topic == "orders_2023-11"

    def test_a_record_without_a_time_is_refused(self) -> None:
        with pytest.raises(DataError, match="Timestamp missing"):
            transform("TimestampRouter").apply(record(1))


class TestReplaceField:
    def test_fields_are_left_out_and_renamed(self) -> None:
        replace = transform("ReplaceField$Value", exclude="c", renames="a:x")
        assert replace.apply(record({"a": 1, "b": 2, "c": 3})).value == {"x": 1, "b": 2}
        assert transform("ReplaceField$Value", include="b").apply(record({"a": 1, "b": 2})).value == {"b": 2}

    def test_the_schema_follows(self) -> None:
        out = transform("ReplaceField$Value", renames="id:key").apply(record({"id": 1, "name": None}, USER))
        assert [field.name for field in out.value_schema.fields] == ["key", "name"]
        assert (out.value_schema.name, out.value_schema.version) == ("shop.User", 3)


class TestSetSchemaMetadata:
    def test_it_sets_name_and_version(self) -> None:
        out = transform("SetSchemaMetadata$Value", schema_name="n", schema_version="8").apply(record({"id": 1}, USER))
        assert (out.value_schema.name, out.value_schema.version) == ("n", 8)

    def test_a_value_without_schema_is_refused_and_null_passes(self) -> None:
        rename = transform("SetSchemaMetadata$Value", schema_name="n")
        assert rename.apply(record(None)).value is None
        with pytest.raises(DataError, match="Schema required"):
            rename.apply(record({"id": 1}))


class TestTimestampConverter:
    def test_a_text_becomes_a_timestamp(self) -> None:
        convert = transform(
            "TimestampConverter$Value", field="at", target_type="Timestamp", format="yyyy-MM-dd HH:mm:ss"
        )
        schema = struct_schema({"at": OPTIONAL_STRING_SCHEMA})
        out = convert.apply(record({"at": "2024-02-03 04:05:06"}, schema))
        assert out.value == {"at": dt.datetime(2024, 2, 3, 4, 5, 6, tzinfo=dt.UTC)}
        assert out.value_schema.field("at").schema == TIMESTAMP_SCHEMA.as_optional()

    @pytest.mark.parametrize(
        ("target", "expected"),
        [
            ("unix", 1706933106),
            ("Date", dt.date(2024, 2, 3)),
            ("Time", dt.time(4, 5, 6)),
            ("Timestamp", dt.datetime(2024, 2, 3, 4, 5, 6, tzinfo=dt.UTC)),
        ],
    )
    def test_seconds_become_any_form(self, target: str, expected: object) -> None:
        convert = transform("TimestampConverter$Value", target_type=target, unix_precision="seconds")
        assert convert.apply(record(1706933106, INT64_SCHEMA)).value == expected

    def test_a_text_of_another_form_is_refused(self) -> None:
        convert = transform("TimestampConverter$Value", target_type="unix", format="yyyy")
        with pytest.raises(DataError, match="does not match pattern"):
            convert.apply(record("soon", STRING_SCHEMA))

    def test_texts_need_a_format(self) -> None:
        with pytest.raises(ConfigError, match="requires format"):
            transform("TimestampConverter$Value", target_type="string")


class TestValueToKey:
    def test_fields_become_the_key(self) -> None:
        out = transform("ValueToKey", fields="id").apply(record({"id": 1, "name": "Ada"}, USER))
        assert (out.key, out.key_schema) == ({"id": 1}, struct_schema({"id": INT64_SCHEMA}))

    def test_a_field_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(DataError, match="Field does not exist: age"):
            transform("ValueToKey", fields="age").apply(record({"id": 1}, USER))


def test_the_filter_drops_each_record_that_it_is_applied_to() -> None:
    assert transform("Filter").apply(record(1)) is None


def test_predicates_look_at_headers_topic_and_value() -> None:
    has = load(f"{KAFKA}predicates.HasHeaderKey")
    has.configure({"name": "a"})
    matches = load(f"{KAFKA}predicates.TopicNameMatches")
    matches.configure({"pattern": "ord.*"})
    tombstone = load(f"{KAFKA}predicates.RecordIsTombstone")
    plain = record(1)
    assert not has.test(plain) and has.test(msgspec.structs.replace(plain, headers=(ConnectHeader("a", 1),)))
    assert matches.test(plain) and not matches.test(msgspec.structs.replace(plain, topic="my.orders"))
    assert not tombstone.test(plain) and tombstone.test(record(None))
