"""An aggregate in the test driver: what commands do, and what bad ones do not."""

from __future__ import annotations

import signal
from datetime import timedelta
from typing import Any, cast

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary
from cloudevents.core.formats.json import JSONFormat
from tests.unit.patterns.shop import (
    STOCK,
    Command,
    Event,
    Expire,
    Expired,
    Order,
    Paid,
    Pay,
    Place,
    Placed,
    Reserve,
    decide,
    evolve,
    order_aggregate,
    shop,
    with_deadline,
)

from hayase import HandlerAnswer, Serdes
from hayase.core.records import Headers
from hayase.patterns import AggregateCommand, AggregateState, Deadline, Decider, EventSourced, Rejected, deadline
from hayase.patterns.aggregate_processor import AggregateProcessor
from hayase.patterns.cloud_events import to_headers


def test_a_command_records_events_keeps_the_state_and_replies_with_versions() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("17", Pay(5), "b")
        assert driven.recorded() == [Placed("book"), Paid(2), Paid(3)]
        assert driven.state("17") == AggregateState("17", 3, Order("book", 5))
        first, second = driven.replies()
        assert (first.status, list(first.versions)) == ("accepted", [1])
        assert (second.status, list(second.versions), second.version) == ("accepted", [2, 3], 3)


def test_a_changed_evolve_is_warned_of_once_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    each_looks = property(lambda self: False, lambda self, value: None)
    monkeypatch.setattr(AggregateProcessor, "_compared", each_looks, raising=False)  # as if each were a new process
    digests = iter(["first", "first", "changed", "changed"])
    monkeypatch.setattr(EventSourced, "evolve_digest", lambda self: next(digests))
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("18", Place("pen"), "b")
        assert caplog.records == []
        driven.send("17", Pay(5), "c")
        driven.send("19", Place("pen"), "d")
        assert driven.recorded()[-3:] == [Paid(2), Paid(3), Placed("pen")]
    (warning,) = [each.getMessage() for each in caplog.records if "has changed" in each.getMessage()]
    assert "evolve of order" in warning and "hayase events rebuild" in warning


def test_metrics_count_what_became_of_commands() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("17", Place("book"), "a")
        driven.send("17", Place("pen"), "b")
        driven.send("17", Pay(13), "c")
        driven.send("17", Pay(5), "d", expectedversion=0)
        names = ("accepted", "repeated", "rejected", "failed", "conflict", "event", "dead-letter", "invalid")
        counted = [driven.driver.metrics.by_owner(f"event-sourced/{name}").get("order", 0) for name in names]
        assert counted == [1, 1, 1, 1, 1, 1, 0, 0]


def test_a_rejection_is_replied_and_records_nothing() -> None:
    with shop() as driven:
        driven.send("17", Pay(5), "a")
        (reply,) = driven.replies()
        assert (reply.status, reply.reason, reply.version) == ("rejected", "there is no order", 0)
        assert driven.recorded() == [] and driven.state("17") is None


def test_another_version_than_expected_is_a_conflict_that_says_which_it_is() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a", expectedversion=0)
        driven.send("17", Pay(5), "b", expectedversion=0)
        assert [(reply.status, reply.version) for reply in driven.replies()] == [("accepted", 1), ("conflict", 1)]
        assert driven.recorded() == [Placed("book")]


def test_a_repeated_id_gets_the_stored_reply_and_does_nothing() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("17", Pay(5), "b")
        driven.send("17", Place("book"), "a")
        first, _, repeated = driven.replies()
        assert repeated == first
        assert driven.recorded() == [Placed("book"), Paid(2), Paid(3)]
        assert driven.driver.metrics.total("event-sourced/repeated") == 1


def test_ids_are_those_of_one_aggregate() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("18", Place("pen"), "a")
        assert driven.recorded() == [Placed("book"), Placed("pen")]


def test_an_id_counts_again_when_its_window_is_over_and_is_forgotten() -> None:
    with shop(order_aggregate(deduplication_window=timedelta(minutes=1))) as driven:
        driven.send("17", Place("book"), "a")
        driven.driver.advance_wall_clock_time(timedelta(seconds=59))
        driven.send("17", Place("book"), "a")
        driven.driver.advance_wall_clock_time(timedelta(seconds=1))
        driven.send("17", Place("book"), "a")
        assert [reply.status for reply in driven.replies()] == ["accepted", "accepted", "rejected"]
        driven.driver.advance_wall_clock_time(timedelta(minutes=2))
        driven.send("18", Place("book"), "b")
        kept = [key for key, _ in driven.driver.store("order-command-ids").all() if not key.startswith("\0")]
        assert kept == ["18\0b"]


def test_what_raises_fails_with_its_command_and_the_next_goes_on() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("17", Pay(13), "b")
        driven.send("17", Pay(4), "c")
        _, failed, paid = driven.replies()
        assert (failed.status, failed.command_id, failed.aggregate_id, failed.version) == ("failed", "b", "17", 1)
        assert failed.reason == "RuntimeError: 13 is unlucky"
        assert paid.status == "accepted" and driven.recorded() == [Placed("book"), Paid(2), Paid(2)]


ENDS = [SystemExit(3), KeyboardInterrupt()]


@pytest.mark.parametrize("error", ENDS, ids=["sys.exit", "KeyboardInterrupt"])
@pytest.mark.parametrize("where", ["decide", "evolve", "reaction"])
def test_code_that_wants_to_end_the_process_fails_with_its_command(error: BaseException, where: str) -> None:
    def end(function: str, item: str) -> None:
        if function == where and item == "bomb":
            raise error

    def ending_decide(command: Command, order: Order | None) -> list[Event] | Rejected:
        end("decide", getattr(command, "item", ""))
        return decide(command, order)

    def ending_evolve(order: Order | None, event: Event) -> Order | None:
        end("evolve", getattr(event, "item", ""))
        return evolve(order, event)

    order = EventSourced("order", Decider[Command, Event, Order | None](None, ending_decide, ending_evolve))

    @order.on(Placed)
    def react(event: Placed, own: AggregateState[Order | None]) -> None:
        end("reaction", event.item)

    with shop(order) as driven:
        driven.send("17", Place("bomb"), "a")
        driven.send("17", Place("book"), "b")
        failed, placed = driven.replies()
        assert (failed.status, failed.reason) == ("failed", f"the code wanted to end the process: {error!r}")
        assert placed.status == "accepted" and driven.recorded() == [Placed("book")]


def test_a_signal_that_comes_while_a_command_is_decided_ends_the_process() -> None:
    def interrupted(command: Command, order: Order | None) -> list[Event]:
        signal.raise_signal(signal.SIGINT)
        return []

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        decider = Decider[Command, Event, Order | None](None, interrupted, evolve)
        with pytest.raises(KeyboardInterrupt), shop(EventSourced("order", decider)) as driven:
            driven.send("17", Place("book"), "a")
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("answer", "letters"), [(HandlerAnswer.CONTINUE, 0), (HandlerAnswer.DEAD_LETTER, 1)])
def test_the_failure_handler_decides_about_what_raises(answer: HandlerAnswer, letters: int) -> None:
    with shop(order_aggregate(failure_handler=lambda failed, error: answer)) as driven:
        driven.send("17", Pay(13), "a")
        assert [reply.status for reply in driven.replies()] == ["failed"]
        assert len(driven.dead_letters.read_records_to_list()) == letters


def test_a_failure_handler_can_stop_the_application() -> None:
    order = order_aggregate(failure_handler=lambda failed, error: HandlerAnswer.FAIL)
    with shop(order) as driven, pytest.raises(Exception, match="13 is unlucky"):
        driven.send("17", Pay(13), "a")


@pytest.mark.parametrize(
    ("more", "value", "code"),
    [
        ({"type": "Fly"}, b"{}", "UNKNOWN_TYPE"),
        ({"type": None}, b"{}", "UNKNOWN_TYPE"),
        ({"subject": "18"}, b'{"item":"x"}', "WRONG_AGGREGATE"),
        ({"expectedversion": "-1"}, b'{"item":"x"}', "INVALID_ATTRIBUTE"),
        ({"replypartition": "x"}, b'{"item":"x"}', "INVALID_ATTRIBUTE"),
        ({"replytopic": "other"}, b'{"item":"x"}', "INVALID_ATTRIBUTE"),
        ({}, b'{"item":' + b'"' + b"x" * 1000 + b'"}', "TOO_LARGE"),
        ({}, b'{"item":7}', "MALFORMED"),
        ({}, b"\xff", "MALFORMED"),
        ({}, None, "MALFORMED"),
    ],
)
def test_a_bad_command_is_answered_with_what_is_wrong(more: dict[str, Any], value: bytes | None, code: str) -> None:
    with shop(order_aggregate(max_bytes=500)) as driven:
        driven.raw(b"17", value, to_headers({"id": "a", "type": "Place", "subject": "17", **more}))
        driven.send("17", Place("book"), "b")
        bad, good = driven.replies()
        assert (bad.status, bad.code, bad.command_id) == ("invalid", code, "a") and bad.reason
        assert good.status == "accepted"


@pytest.mark.parametrize(
    ("key", "headers", "code"),
    [
        (b"17", to_headers({"type": "Place"}), b"NO_COMMAND_ID"),
        (b"17", to_headers({"type": "Place", "id": ""}), b"NO_COMMAND_ID"),
        (b"17", (("ce_id", b"\xff"),), b"INVALID_HEADERS"),
        (None, to_headers({"type": "Place", "id": "a"}), b"NO_AGGREGATE_ID"),
        (b"\xff", to_headers({"type": "Place", "id": "a"}), b"NO_AGGREGATE_ID"),
        (b"a\0b", to_headers({"type": "Place", "id": "a"}), b"NO_AGGREGATE_ID"),
    ],
)
def test_a_command_that_cannot_be_answered_is_a_dead_letter_that_says_why(
    key: bytes | None, headers: Headers, code: bytes
) -> None:
    with shop() as driven:
        driven.raw(key, b'{"item":"x"}', headers)
        driven.send("17", Place("book"), "b")
        (letter,) = driven.dead_letters.read_records_to_list()
        found = dict(letter.headers)
        assert found["__streams.errors.exception"] == code
        assert found["__streams.errors.offset"] == b"0" and found["__streams.errors.topic"] == b"order-commands"
        assert letter.value == b'{"item":"x"}'
        assert [reply.command_id for reply in driven.replies()] == ["b"]


def test_an_event_that_is_too_large_fails_before_anything_is_sent() -> None:
    with shop(order_aggregate(max_bytes=40)) as driven:
        driven.send("17", Place("x" * 29), "a")
        assert [reply.status for reply in driven.replies()] == ["accepted"]
        driven.send("18", Place("é" * 14), "b")
        assert len(driven.recorded()) == 2


def test_the_size_of_an_event_is_said_with_what_is_allowed() -> None:
    def longer(command: Command, order: Order | None) -> list[Event]:
        return [Placed("x" * 100)]

    decider = Decider[Command, Event, Order | None](None, longer, evolve)
    with shop(EventSourced("order", decider, max_bytes=40)) as driven:
        driven.send("17", Place("x"), "a")
        assert driven.replies()[0].reason == "the event Placed has 111 bytes; allowed are 40 (max_bytes)"


def test_a_deadline_fires_once_when_its_time_has_come() -> None:
    with shop(with_deadline(order_aggregate())) as driven:
        driven.send("17", Place("book"), "a")
        driven.send("18", Place("pen"), "b")
        driven.send("18", Pay(2), "c")
        driven.driver.advance_wall_clock_time(timedelta(seconds=59))
        assert Expired() not in driven.recorded()
        driven.driver.advance_wall_clock_time(timedelta(seconds=2))
        driven.driver.advance_wall_clock_time(timedelta(minutes=5))
        assert driven.recorded() == [Expired()]
        assert driven.state("17").state == Order("book", expired=True)
        assert not list(driven.driver.store("order-deadlines").all())


def test_a_reaction_sends_a_command_that_names_its_cause_and_counts_once() -> None:
    order = order_aggregate()

    @order.on(Placed)
    def reserve(event: Placed, own: AggregateState[Order | None]) -> list[AggregateCommand]:
        assert own.state == Order(event.item)
        return [STOCK.command(event.item, Reserve(own.id))]

    with shop(order) as driven:
        driven.send("17", Place("book"), "a", correlationid="visit")
        (sent,) = driven.driver.create_output_topic(
            "stock-commands", Serdes.string(), Serdes.json(Reserve)
        ).read_records_to_list()
        headers = dict(sent.headers)
        assert (sent.key, sent.value) == ("book", Reserve("17"))
        assert headers["ce_id"] == b"order/17/1/0" and headers["ce_type"] == b"Reserve"
        assert headers["ce_causationid"] == b"17/1" and headers["ce_correlationid"] == b"visit"


def test_a_reaction_that_raises_fails_the_command() -> None:
    order = order_aggregate()

    @order.on(Placed)
    def broken(event: Placed, own: AggregateState[Order | None]) -> None:
        raise ValueError("no stock")

    with shop(order) as driven:
        driven.send("17", Place("book"), "a")
        assert [reply.reason for reply in driven.replies()] == ["ValueError: no stock"]
        assert driven.recorded() == [] and driven.state("17") is None


def test_a_state_that_cannot_be_kept_sends_nothing() -> None:
    def unlike_any_state(order: Order | None, event: Event) -> Order | None:
        return cast("Order", "paid") if isinstance(event, Paid) else evolve(order, event)

    order = EventSourced("order", Decider[Command, Event, Order | None](None, decide, unlike_any_state))

    @order.on(Paid)
    def reserve(event: Paid, own: AggregateState[Order | None]) -> list[AggregateCommand | Deadline]:
        return [
            STOCK.command("book", Reserve(own.id)),
            deadline(timedelta(minutes=1), order.command(own.id, Expire())),
        ]

    with shop(order) as driven:
        driven.send("17", Place("book"), "a")
        driven.send("17", Pay(4), "b")
        driven.send("17", Place("pen"), "c")
        assert [(reply.status, reply.version) for reply in driven.replies()] == [
            ("accepted", 1),
            ("failed", 1),
            ("rejected", 1),
        ]
        assert driven.recorded() == [Placed("book")] and driven.state("17").state == Order("book")
        sent = driven.driver.create_output_topic("stock-commands", Serdes.bytes(), Serdes.bytes())
        assert sent.read_records_to_list() == [] and not list(driven.driver.store("order-deadlines").all())


def test_events_and_replies_are_cloud_events_for_their_own_sdk() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a", correlationid="visit")
        (record,) = driven.events.read_records_to_list()
        message = KafkaMessage({name: value or b"" for name, value in record.headers}, record.key, record.value)
        event = from_binary(message, JSONFormat())
        assert (event.get_id(), event.get_type(), event.get_source()) == ("17/1", "Placed", "/order")
        assert event.get_subject() == "17" and event.get_data() == {"item": "book"}
        assert event.get_extension("causationid") == "a" and event.get_extension("correlationid") == "visit"
        assert event.get_time() is not None


def test_the_index_says_where_each_event_is() -> None:
    with shop() as driven:
        driven.send("17", Place("book"), "a")
        driven.send("18", Place("pen"), "b")
        driven.send("17", Pay(4), "c")
        rows = [
            (key.aggregate_id, key.version, place.offset)
            for key, place in driven.driver.store("order-events-index").all()
        ]
        assert rows == [("17", 1, 0), ("17", 2, 2), ("17", 3, 3), ("18", 1, 1)]
