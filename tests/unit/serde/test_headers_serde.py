"""Values that are kept with the headers of their record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hayase import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    Produced,
    Serdes,
    Stores,
    StreamsBuilder,
    ValueAndHeaders,
    ValueAndTimestamp,
)
from hayase.core.errors import SerializationError
from hayase.serde import HeadersSerde, Serde
from hayase.testing import TopologyTestDriver

TEXT = Serdes.string()
HEADERS = st.lists(st.tuples(st.text(), st.none() | st.binary())).map(tuple)


@given(st.text(), HEADERS)
def test_value_and_headers_come_back_in_their_order(value: str, headers: Any) -> None:
    serde = Serdes.with_headers(TEXT)
    assert serde.deserialize(serde.serialize(ValueAndHeaders(value, headers))) == ValueAndHeaders(value, headers)


@pytest.mark.parametrize(
    "value",
    [
        "paid",
        ValueAndHeaders(None),
        ValueAndHeaders(5),
        ValueAndHeaders("paid", ((b"x", {1}),)),
        ValueAndTimestamp("paid", 1),
    ],
    ids=["bare", "nothing", "not the inner's", "odd headers", "another pair"],
)
def test_what_it_cannot_keep_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        Serdes.with_headers(TEXT).serialize(value)


@given(st.binary())
def test_other_bytes_are_refused_or_read_as_what_they_say(data: bytes) -> None:
    serde = Serdes.with_headers(Serdes.bytes())
    try:
        found = serde.from_bytes(data)
    except SerializationError:
        return
    assert serde.from_bytes(serde.to_bytes(found)) == found


def test_the_inner_serde_is_found_by_defaults_and_topics() -> None:
    class Inner(type(TEXT)):  # type: ignore[misc]
        def for_topic(self, topic: str, side: Any, settings: Any) -> Serde[str]:
            return Inner() if topic == "t" else self

    inner = Inner()
    assert Serdes.with_headers(inner).for_topic("t", "value", {}).inner is not inner
    replaced = Serdes.with_headers(inner).map_inner(lambda _: TEXT)
    assert isinstance(replaced, HeadersSerde) and replaced.inner is TEXT


class LastHeaders(FixedKeyProcessor[str, str, str]):
    """Sends a value with the headers of the one before."""

    def init(self, context: Any) -> None:
        self.context, self.last = context, context.get_state_store("last")

    def process(self, record: FixedKeyRecord[str, str]) -> None:
        before = self.last.get(record.key)
        kept = ValueAndHeaders(record.value, record.headers)
        self.last.put(record.key, ValueAndTimestamp(kept, record.timestamp_ms))
        self.context.forward(record.with_headers(before.value.headers if before else ()))


def test_a_timestamped_store_keeps_headers() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.timestamped_key_value_store("last", TEXT, Serdes.with_headers(TEXT)))
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).process_values(LastHeaders, "last")
    stream.to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        source.pipe_input("k", "a", 1, headers=(("trace", b"17"),))
        source.pipe_input("k", "b", 2, headers=(("trace", b"18"),))
        found = driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()
        assert driver.store("last").get("k") == ValueAndTimestamp(ValueAndHeaders("b", (("trace", b"18"),)), 2)
    assert [(record.value, record.headers) for record in found] == [("a", ()), ("b", (("trace", b"17"),))]


def test_a_header_name_that_is_no_text_is_a_fault_of_the_value() -> None:
    with pytest.raises(SerializationError):  # it was a UnicodeDecodeError, which no handler saw
        Serdes.with_headers(TEXT).from_bytes(b"\x92\x91\x92\xa2\xff\xff\xc4\x00\xc4\x01a")
    with pytest.raises(SerializationError):
        Serdes.with_headers(TEXT).serialize(ValueAndHeaders("a", (("\ud800", b""),)))
