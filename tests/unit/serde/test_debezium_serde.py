"""Rows out of Debezium's events."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence

import msgspec
import polars as pl
import pytest
from tests.ksqldb.epoch_driver import EpochDriver

from hayase import Consumed, Produced, Serde, Serdes, StreamsBuilder
from hayase.core.errors import SerializationError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.serde.unavailable import UNAVAILABLE
from hayase.testing import TopologyTestDriver
from hayase.testing.topics import RawRecord

ROW = Serdes.json(schema={"name": pl.String, "cents": pl.Int64})
CREATE = b'{"before":null,"after":{"name":"Ada","cents":5},"source":{"lsn":1},"op":"c","ts_ms":1}'
WITH_SCHEMA = b'{"schema":{"type":"struct"},"payload":' + CREATE + b"}"
DELETE = b'{"before":{"name":"Ada","cents":5},"after":null,"op":"d"}'
CUT = b'{"before":null,"after":{"name":"__debezium_unavailable_value","cents":5},"op":"u"}'


def test_an_event_is_the_row_that_it_leaves_and_a_delete_none() -> None:
    serde = Serdes.debezium(ROW)
    assert serde.deserialize(CREATE) == serde.deserialize(WITH_SCHEMA) == {"name": "Ada", "cents": 5}
    assert serde.deserialize(DELETE) is None
    assert serde.deserialize(None) is None
    assert serde.deserialize(serde.serialize({"name": "Bob", "cents": 1})) == {"name": "Bob", "cents": 1}


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"after":{}}', b'{"op":"c","after":5}', CUT])
def test_what_is_no_whole_row_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        Serdes.debezium(ROW).deserialize(data)


def test_the_column_form_means_the_same() -> None:
    codec = Serdes.debezium(ROW).columns
    assert codec is not None
    decoded = codec.decode_list([CREATE, DELETE, None, b"{}", CUT, WITH_SCHEMA])
    assert [index for index, _ in decoded.bad] == [3, 4]
    assert decoded.null.to_list() == [False, True, True, False, False, False]
    assert decoded.frame["name"].to_list() == ["Ada", None, None, None, None, "Ada"]


def test_a_captured_topic_is_a_table() -> None:
    builder = StreamsBuilder()
    builder.table("users", Consumed.with_(Serdes.string(), Serdes.debezium(ROW))).to_stream().to("rows")
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 0}) as driver:
        source = driver.create_input_topic("users", Serdes.string(), Serdes.bytes())
        sink = driver.create_output_topic("rows", Serdes.string(), Serdes.bytes())
        for event in (CREATE, DELETE, None):
            source.pipe_input("1", event)
        assert [value is None for _, value in sink.read_key_values_to_list()] == [False, True, True]


def test_large_bytes_that_are_not_there_are_refused() -> None:
    text = base64.b64encode(b"__debezium_unavailable_value")
    with pytest.raises(SerializationError, match="REPLICA IDENTITY FULL"):
        Serdes.debezium(Serdes.json()).deserialize(b'{"after":{"photo":"' + text + b'"},"op":"u"}')


@dataclasses.dataclass
class User:
    name: str | None
    cents: int


class Struct(msgspec.Struct):
    name: str | None
    cents: int


ROWS: dict[str, Serde] = {
    "dict": Serdes.json(),
    "columns": ROW,
    "dataclass": Serdes.json(User),
    "struct": Serdes.json(Struct),
}


def event(name: str | None, cents: int) -> bytes:
    return msgspec.json.encode({"before": None, "after": {"name": name, "cents": cents}, "op": "u"})


def rows_of(
    inner: Serde, form: str, *epochs: Sequence[tuple[str, bytes | None]]
) -> tuple[list[tuple[str, object]], int]:
    """What a captured table sends, and how many records were dropped."""
    builder = StreamsBuilder()
    table = builder.table("users", Consumed.with_(Serdes.string(), Serdes.debezium(inner)))
    table.to_stream().to("rows", Produced.with_(Serdes.string(), inner))
    config = {
        "processing.form": form, "processing.exception.handler": "log_and_continue", "statestore.cache.max.bytes": 0,
    }  # fmt: skip
    with EpochDriver(builder.build(), config) as driver:
        for epoch in epochs:
            driver.pipe_epoch([RawRecord("users", key.encode(), value, 0) for key, value in epoch])
        sent = [
            ((each.key or b"").decode(), None if each.value is None else msgspec.json.decode(each.value))
            for each in driver.output_queue("rows")
        ]
        dropped = driver.metrics.total(DROPPED_RECORDS)
    return sent, dropped


FORMS = [("dict", "rows"), ("dataclass", "rows"), ("struct", "rows"), ("columns", "columns"), ("dataclass", "columns")]


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_table_keeps_a_value_that_an_update_left_as_it_was(kind: str, form: str) -> None:
    one = [("a", event("Ada", 1)), ("a", event(UNAVAILABLE, 2)), ("b", event(None, 1)), ("b", event(UNAVAILABLE, 3))]
    two = [("a", event(UNAVAILABLE, 4)), ("a", event("Eve", 5)), ("a", event(UNAVAILABLE, 6)), ("c", event("C", 1))]
    sent, _ = rows_of(ROWS[kind], form, one, two)
    assert [(key, row and tuple(row.values())) for key, row in sent] == [  # type: ignore[attr-defined]
        ("a", ("Ada", 1)), ("a", ("Ada", 2)), ("b", (None, 1)), ("b", (None, 3)),
        ("a", ("Ada", 4)), ("a", ("Eve", 5)), ("a", ("Eve", 6)), ("c", ("C", 1)),
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_an_update_without_the_row_before_it_goes_to_the_failure_policy(kind: str, form: str) -> None:
    events = [
        ("a", event(UNAVAILABLE, 1)), ("b", event("Bob", 2)), ("b", DELETE), ("b", event(UNAVAILABLE, 3)),
        ("a", event("Ada", 4)), ("a", event(UNAVAILABLE, 5)),
    ]  # fmt: skip
    sent, dropped = rows_of(ROWS[kind], form, events)
    assert [(key, row and tuple(row.values())) for key, row in sent] == [  # type: ignore[attr-defined]
        ("b", ("Bob", 2)), ("b", None), ("a", ("Ada", 4)), ("a", ("Ada", 5)),
    ]  # fmt: skip
    assert dropped == 2


@dataclasses.dataclass
class Album:
    photo: bytes
    tags: list[str]


ALBUM = Serdes.json(Album)
TAGS = Serdes.json(schema={"photo": pl.String, "tags": pl.List(pl.String)})


@pytest.mark.parametrize(
    ("inner", "form"), [(ALBUM, "rows"), (Serdes.json(), "rows"), (TAGS, "rows"), (TAGS, "columns")]
)
def test_large_lists_are_kept_and_bytes_where_they_are_read_as_bytes(inner: Serde, form: str) -> None:
    mark = base64.b64encode(UNAVAILABLE.encode()).decode() if inner is ALBUM else UNAVAILABLE
    first = {"photo": base64.b64encode(b"x").decode(), "tags": ["a", "b"]}
    rows = [first, {"photo": mark, "tags": [UNAVAILABLE]}]
    sent, _ = rows_of(inner, form, [("a", msgspec.json.encode({"after": row, "op": "u"})) for row in rows])
    assert sent == [("a", first), ("a", first)]


def test_a_stream_does_not_see_rows_that_lack_a_value() -> None:
    builder = StreamsBuilder()
    builder.stream("users", Consumed.with_(Serdes.string(), Serdes.debezium(ROW))).to("rows")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(SerializationError, match="REPLICA IDENTITY FULL"),
    ):
        driver.create_input_topic("users", Serdes.string(), Serdes.bytes()).pipe_input("a", CUT)
