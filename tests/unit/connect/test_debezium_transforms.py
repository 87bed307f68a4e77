"""Debezium's transforms: rows out of envelopes, events out of an outbox."""

from __future__ import annotations

from typing import Any

import pytest

from hayase.connect.exceptions import ConnectError, DataError
from hayase.connect.model import ConnectHeader, SourceRecord
from hayase.connect.schema import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    ConnectSchema,
    struct_schema,
)
from hayase.connect.transforms.event_router import EventRouter
from hayase.connect.transforms.extract_new_record_state import ExtractNewRecordState
from hayase.core.errors import ConfigError


def envelope(row: ConnectSchema) -> ConnectSchema:
    source = struct_schema({"lsn": OPTIONAL_INT64_SCHEMA, "table": STRING_SCHEMA})
    return struct_schema(
        {"before": row.as_optional(), "after": row.as_optional(), "source": source, "op": STRING_SCHEMA,
         "ts_ms": OPTIONAL_INT64_SCHEMA},
        name="shop.public.users.Envelope",
    )  # fmt: skip


USER = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="shop.public.users.Value")
ENVELOPE = envelope(USER)


def event(op: str, before: Any, after: Any, schema: ConnectSchema = ENVELOPE) -> SourceRecord:
    value = {"before": before, "after": after, "source": {"lsn": 9, "table": "users"}, "op": op, "ts_ms": 5}
    return SourceRecord(
        source_partition={}, source_offset={}, topic="shop.public.users", key={"id": 1},
        key_schema=struct_schema({"id": INT32_SCHEMA}), value=value, value_schema=schema,
    )  # fmt: skip


TOMBSTONE = SourceRecord(source_partition={}, source_offset={}, topic="shop.public.users", key={"id": 1})
CREATE = event("c", None, {"id": 1, "name": "Ada"})
DELETE = event("d", {"id": 1, "name": "Ada"}, None)


def unwrap(**config: str) -> ExtractNewRecordState:
    made = ExtractNewRecordState()
    made.configure({name.replace("_", "."): value for name, value in config.items()})
    return made


class TestExtractNewRecordState:
    def test_the_row_becomes_the_value(self) -> None:
        out = unwrap().apply(CREATE)
        assert out is not None
        assert (out.value, out.value_schema) == ({"id": 1, "name": "Ada"}, USER)

    @pytest.mark.parametrize(
        ("mode", "of_delete", "keeps_tombstone"),
        [
            ("drop", None, False),
            ("tombstone", None, False),
            ("rewrite", {"id": 1, "name": "Ada", "__deleted": "true"}, False),
            ("rewrite-with-tombstone", {"id": 1, "name": "Ada", "__deleted": "true"}, True),
        ],
    )
    def test_deletes_and_tombstones_by_mode(self, mode: str, of_delete: Any, keeps_tombstone: bool) -> None:
        smt = unwrap(delete_tombstone_handling_mode=mode)
        deleted = smt.apply(DELETE)
        assert (deleted and deleted.value) == of_delete
        assert (smt.apply(TOMBSTONE) is not None) == keeps_tombstone

    def test_fields_that_a_header_names_are_left_out_of_row_and_key(self) -> None:
        smt = unwrap(drop_fields_header_name="dropped", drop_fields_from_key="true")
        smt_all = unwrap(drop_fields_header_name="dropped", drop_fields_keep_schema_compatible="false")
        named = CREATE.new_record(headers=(ConnectHeader("dropped", ["id", "name", "other"]),))
        out, out_all = smt.apply(named), smt_all.apply(named)
        assert out is not None
        assert out_all is not None
        assert (out.value, out.key) == ({"id": 1}, {"id": 1})  # id is not optional
        assert (out_all.value, out_all.key) == ({}, {"id": 1})

    def test_a_delete_keeps_added_fields_that_its_header_names(self) -> None:
        smt = unwrap(
            drop_fields_header_name="dropped", add_fields="op", delete_tombstone_handling_mode="rewrite",
        )  # fmt: skip
        out = smt.apply(DELETE.new_record(headers=(ConnectHeader("dropped", ["name", "__op"]),)))
        assert out is not None
        assert out.value == {"id": 1, "__deleted": "true", "__op": "d"}

    def test_a_delete_that_becomes_a_tombstone_without_schema_loses_fields_of_its_key(self) -> None:
        smt = unwrap(
            drop_fields_header_name="dropped", drop_fields_from_key="true",
            delete_tombstone_handling_mode="delete-to-tombstone",
        )  # fmt: skip
        key = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA})
        named = ConnectHeader("dropped", ["name"])
        out = smt.apply(DELETE.new_record(headers=(named,), key_schema=key, key={"id": 1, "name": "Ada"}))
        assert out is not None
        assert (out.key, out.value) == ({"id": 1}, None)

    def test_a_header_of_dropped_fields_that_is_no_list_is_an_error(self) -> None:
        smt = unwrap(drop_fields_header_name="dropped")
        with pytest.raises(DataError, match="give it a list of names of fields"):
            smt.apply(CREATE.new_record(headers=(ConnectHeader("dropped", "name"),)))

    def test_null_becomes_the_default_in_a_row_that_is_rewritten(self) -> None:
        row = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA.with_default("nobody")})
        nameless = event("c", None, {"id": 1, "name": None}, envelope(row))
        rewritten, plain = unwrap(delete_tombstone_handling_mode="rewrite").apply(nameless), unwrap().apply(nameless)
        assert rewritten is not None
        assert plain is not None
        assert rewritten.value == {"id": 1, "name": "nobody", "__deleted": "false"}
        assert plain.value == {"id": 1, "name": None}

    def test_a_delete_can_become_the_tombstone(self) -> None:
        smt = unwrap(delete_tombstone_handling_mode="delete-to-tombstone")
        deleted = smt.apply(DELETE)
        assert deleted is not None
        assert (deleted.value, deleted.value_schema) == (None, None)
        assert smt.apply(TOMBSTONE) is None

    def test_fields_of_the_envelope_are_added(self) -> None:
        smt = unwrap(add_fields="op,table,source.lsn:position", add_headers="op")
        out = smt.apply(CREATE)
        assert out is not None and out.value_schema is not None
        assert out.value == {"id": 1, "name": "Ada", "__op": "c", "__table": "users", "__position": 9}
        assert out.headers == (ConnectHeader("__op", "c", OPTIONAL_STRING_SCHEMA),)
        assert [field.name for field in out.value_schema.fields] == ["id", "name", "__op", "__table", "__position"]

    def test_a_field_of_the_row_names_the_topic(self) -> None:
        out = unwrap(route_by_field="name").apply(CREATE)
        assert out is not None and out.topic == "Ada"

    def test_other_records_pass(self) -> None:
        other = SourceRecord(source_partition={}, source_offset={}, topic="t", value={"op": "c"})
        assert unwrap().apply(other) is other

    def test_an_unknown_part_of_the_envelope_is_refused(self) -> None:
        with pytest.raises(ConfigError):
            unwrap(add_fields="origin.lsn")


OUTBOX = struct_schema(
    {"id": STRING_SCHEMA, "aggregatetype": STRING_SCHEMA, "aggregateid": STRING_SCHEMA, "type": STRING_SCHEMA,
     "payload": OPTIONAL_STRING_SCHEMA, "at": INT64_SCHEMA.named("io.debezium.time.MicroTimestamp", version=1)},
)  # fmt: skip
ROW = {
    "id": "e1", "aggregatetype": "order", "aggregateid": "o7", "type": "OrderPaid", "payload": '{"cents":5,"x":null}',
    "at": 7_000,
}  # fmt: skip


def route(row: dict[str, object] = ROW, op: str = "c", **config: str) -> SourceRecord | None:
    router = EventRouter()
    router.configure(
        {name.replace("__", "!").replace("_", ".").replace("!", "_"): each for name, each in config.items()}
    )
    out = router.apply(event(op, None, row, envelope(OUTBOX)))
    assert out is None or isinstance(out, SourceRecord)
    return out


class TestEventRouter:
    def test_a_row_becomes_an_event(self) -> None:
        out = route()
        assert out is not None
        assert (out.topic, out.key, out.value) == ("outbox.event.order", "o7", '{"cents":5,"x":null}')
        assert out.headers == (ConnectHeader("id", "e1", STRING_SCHEMA),)
        assert out.timestamp_ms == 5

    def test_columns_go_into_headers_and_the_envelope(self) -> None:
        out = route(table_fields_additional_placement="type:header:eventType,at:envelope")
        assert out is not None
        assert out.headers[1] == ConnectHeader("eventType", "OrderPaid", STRING_SCHEMA)
        assert out.value == {"payload": ROW["payload"], "at": 7_000}

    def test_a_payload_of_json_becomes_a_struct(self) -> None:
        out = route(table_expand_json_payload="true")
        assert out is not None and out.value_schema is not None
        assert (out.value, [field.name for field in out.value_schema.fields]) == ({"cents": 5}, ["cents"])

    def test_the_time_comes_from_a_column(self) -> None:
        out = route(table_field_event_timestamp="at")
        assert out is not None and out.timestamp_ms == 7

    def test_the_topic_is_made_by_a_pattern(self) -> None:
        out = route(route_topic_regex="(?<kind>[a-z]+)", route_topic_replacement="events-${kind}")
        assert out is not None and out.topic == "events-order"

    def test_an_empty_payload_can_be_a_tombstone(self) -> None:
        out = route({**ROW, "payload": None}, route_tombstone_on_empty_payload="true")
        assert out is not None
        assert (out.value, out.value_schema) == (None, None)

    def test_deletes_are_left_out_and_updates_refused_as_configured(self) -> None:
        assert route(op="d") is None
        assert route(op="u") is None
        with pytest.raises(ConnectError, match="update of the outbox table"):
            route(op="u", table_op_invalid_behavior="fatal")

    def test_a_column_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(DataError, match="Unable to find field"):
            route(table_field_event_id="nope")
