"""Rows out of Debezium's events."""

from __future__ import annotations

import polars as pl
import pytest

from hayase import Consumed, Serdes, StreamsBuilder
from hayase.core.errors import SerializationError
from hayase.testing import TopologyTestDriver

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
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("users", Serdes.string(), Serdes.bytes())
        sink = driver.create_output_topic("rows", Serdes.string(), Serdes.bytes())
        for event in (CREATE, DELETE, None):
            source.pipe_input("1", event)
        assert [value is None for _, value in sink.read_key_values_to_list()] == [False, True, True]
