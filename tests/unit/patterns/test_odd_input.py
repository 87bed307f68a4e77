"""What programs and other senders do wrong stops no partition, and is said."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from tests.unit.patterns.shop import (
    STOCK,
    Command,
    Event,
    Expire,
    Order,
    Pay,
    Place,
    Placed,
    Reserve,
    evolve,
    order_aggregate,
    shop,
)

from hayase import Produced, Serdes, StreamsBuilder
from hayase.core.errors import ProcessingError, SerializationError
from hayase.core.records import SourceRecord
from hayase.patterns import Decider, EventSourced, Rejected
from hayase.patterns.cloud_events import to_headers
from hayase.patterns.command_reading import ATTRIBUTE_MAX_BYTES, check_attributes
from hayase.patterns.reactions import AGGREGATE_ID_MAX_BYTES
from hayase.patterns.reasons import REASON_MAX
from hayase.patterns.recorded_events import read_recorded
from hayase.patterns.saga.rows import read_command_id
from hayase.testing import TopologyTestDriver


def order_that(decide: Any) -> EventSourced[Command, Event, Order | None]:
    decider = Decider[Command, Event, Order | None](None, decide, evolve)
    return EventSourced("order", decider, commands=[Place, Pay, Expire])


@pytest.mark.parametrize("reason", [None, 5, ValueError("sold out")])
def test_a_rejection_whose_reason_is_no_text_fails_the_command(reason: object) -> None:
    with shop(order_that(lambda command, order: Rejected(cast("str", reason)))) as driven:
        driven.send("17", Place("book"), "a")
        (reply,) = driven.replies()
        assert reply.status == "failed" and "Rejected(str(error))" in reply.reason


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("there is no text")


@pytest.mark.parametrize("error", [ValueError("\ud800"), UnspeakableError(), ValueError("x" * 2_000_000)])
def test_an_error_whose_text_cannot_be_written_fails_the_command(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "hayase.patterns")  # workers of pytest send what was logged as UTF-8

    def decide(command: Command, order: Order | None) -> list[Event]:
        raise error

    with shop(order_that(decide)) as driven:
        driven.send("17", Place("book"), "a")
        (reply,) = driven.replies()
        assert reply.status == "failed" and type(error).__name__ in reply.reason
        assert len(reply.reason) < REASON_MAX + 100


@pytest.mark.parametrize("reason", ["\ud800", "x" * 2_000_000])
def test_a_reason_that_cannot_be_written_as_it_is_is_changed_or_cut(reason: str) -> None:
    with shop(order_that(lambda command, order: Rejected(reason))) as driven:
        driven.send("17", Place("book"), "a")
        (reply,) = driven.replies()
        assert reply.status == "rejected" and 0 < len(reply.reason) < REASON_MAX + 100


@pytest.mark.parametrize("version", [b"-5", b"0", b"1" * 30])
def test_a_record_of_others_among_the_events_is_not_indexed(version: bytes) -> None:
    with shop() as driven:
        events = driven.driver.create_input_topic("order-events", Serdes.bytes(), Serdes.bytes())
        events.pipe_input(b"17", b"{}", 0, (("ce_aggregateversion", version),))
        driven.send("17", Place("book"), "a")
        assert [key.version for key, _ in driven.driver.store("order-events-index").all()] == [1]


@pytest.mark.parametrize(
    ("key", "attributes", "code"),
    [
        (b"17", {"id": "a" * (ATTRIBUTE_MAX_BYTES + 1), "type": "Place"}, b"INVALID_HEADERS"),
        (b"17", {"id": "a", "type": "Place", "correlationid": "x" * (ATTRIBUTE_MAX_BYTES + 1)}, b"INVALID_HEADERS"),
        (b"1" * (AGGREGATE_ID_MAX_BYTES + 1), {"id": "a", "type": "Place"}, b"NO_AGGREGATE_ID"),
    ],
)
def test_a_command_whose_ids_no_reply_could_carry_is_a_dead_letter(
    key: bytes, attributes: dict[str, str | int | None], code: bytes
) -> None:
    with shop() as driven:
        driven.raw(key, b'{"item":"x"}', to_headers(attributes))
        (letter,) = driven.dead_letters.read_records_to_list()
        assert dict(letter.headers)["__streams.errors.exception"] == code
        assert driven.replies() == []


def test_the_longest_ids_that_are_taken_are_answered() -> None:
    with shop() as driven:
        driven.raw(
            b"1" * AGGREGATE_ID_MAX_BYTES,
            b'{"item":"x"}',
            (*to_headers({"id": "a" * ATTRIBUTE_MAX_BYTES, "type": "Place"}), ("baggage", b"x" * 100_000)),
        )
        assert [reply.status for reply in driven.replies()] == ["accepted"]


def test_an_id_that_is_too_long_is_refused_where_it_is_sent() -> None:
    with pytest.raises(SerializationError, match=r"INVALID_AGGREGATE_ID.*4000 bytes at most"):
        order_aggregate().command("é" * (AGGREGATE_ID_MAX_BYTES // 2 + 1), Place("book"))
    assert order_aggregate().command("é" * (AGGREGATE_ID_MAX_BYTES // 2), Place("book"))


def test_a_dead_letter_is_no_larger_than_a_topic_takes() -> None:
    value, baggage = b"x" * 1_048_000, ("baggage", b"y" * 400_000)
    with shop() as driven:
        driven.raw(b"17", value, (("ce_type", b"Place"), baggage))
        (letter,) = driven.dead_letters.read_records_to_list()
        headers = dict(letter.headers)
        assert int(headers["__streams.errors.truncated"] or b"") > len(value)
        assert headers["__streams.errors.offset"] == b"0" and headers["ce_type"] == b"Place"
        size = len(letter.value) + sum(len(name) + len(text or b"") for name, text in letter.headers)
        assert value.startswith(letter.value) and size < 900_000


def test_an_id_with_a_number_of_any_length_is_none_of_a_saga() -> None:
    assert read_command_id("checkout", f"checkout:17:pay:action:{'1' * 5000}") is None


def test_a_command_of_a_reaction_that_its_topic_would_refuse_fails_the_command_that_caused_it() -> None:
    order = order_aggregate(max_bytes=500)

    @order.on(Placed)
    def reserve(event: Placed, own: Any) -> Any:
        return STOCK.command(event.item, Reserve("x" * 501))

    with shop(order) as driven:
        driven.send("17", Place("book"), "a")
        (reply,) = driven.replies()
        assert reply.status == "failed" and "the command Reserve of a reaction has 513 bytes" in reply.reason
        assert driven.recorded() == []


@pytest.mark.parametrize("headers", [(), (("ce_type", b"Placed"),), (("ce_aggregateversion", b"1"),)])
def test_a_record_of_others_among_the_events_is_none_for_streams_and_read_models(headers: Any) -> None:
    order, builder, raw = order_aggregate(), StreamsBuilder(), Serdes.bytes()
    order.add_to(builder)
    order.events(builder).map_values(lambda recorded: recorded.type).to(
        "types", Produced.with_(Serdes.string(), Serdes.string())
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("order-events", raw, raw).pipe_input(b"17", b"\xff", 0, headers)
        made = order.command("17", Place("book"))
        commands = driver.create_input_topic("order-commands", raw, raw)
        commands.pipe_input(b"17", made.data, 0, to_headers({"id": "a", "type": "Place"}))
        types = driver.create_output_topic("types", Serdes.string(), Serdes.string())
        assert types.read_values_to_list() == ["Placed"]
    assert read_recorded(order, SourceRecord("order-events", 0, 7, 0, b"17", b"\xff", headers)) is None


def test_an_event_whose_fields_cannot_be_read_is_still_an_error() -> None:
    headers = (("ce_type", b"Placed"), ("ce_aggregateversion", b"1"))
    with pytest.raises(ProcessingError, match="EVENT_UNREADABLE"):
        read_recorded(order_aggregate(), SourceRecord("order-events", 0, 7, 0, b"17", b"\xff", headers))


def test_what_a_client_says_about_a_command_is_not_longer_than_headers_may_be() -> None:
    for name in ("source", "correlation_id", "causation_id"):
        with pytest.raises(SerializationError, match=f"INVALID_ATTRIBUTE.*{name} is 'xxx"):
            check_attributes({name: "x" * (ATTRIBUTE_MAX_BYTES + 1)})
    check_attributes({"correlation_id": None, "source": "x" * ATTRIBUTE_MAX_BYTES})
