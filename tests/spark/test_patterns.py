"""Aggregates on Spark: commands from a client, the history, verification, and states that are rebuilt."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta

import pytest
from tests.spark.place import Place, until
from tests.unit.patterns.shop import Expire, Expired, Order, Paid, Pay, Placed, order_aggregate, with_deadline
from tests.unit.patterns.shop import Place as PlaceOrder

from hayase import HayaseError
from hayase.core.errors import CheckpointError, ConfigError
from hayase.patterns import AggregateState, CommandOutcomeUnknownError, Deadline, PatternsApp, deadline
from hayase.patterns.verification import rebuild, verify

START = timedelta(minutes=3)
"""Until the first reply: Spark starts first."""


@pytest.mark.timeout(600)
def test_commands_are_decided_once_and_the_history_is_there_after_the_application_has_stopped(place: Place) -> None:
    order = with_deadline(order_aggregate())
    app = PatternsApp(order, place.settings(), partitions=2)
    app.start()
    try:
        with app.commands(order) as commands:
            placed = commands.send("17", PlaceOrder("book"), expected_version=0, command_id="a", timeout=START)
            again = commands.send("17", PlaceOrder("book"), expected_version=0, command_id="a")
            assert (placed.status, placed.version) == ("accepted", 1) and again.version == 1
            assert placed.position is not None and placed.position.offset >= 1
            assert commands.send("17", Pay(5), expected_version=7).status == "conflict"
            assert commands.send("17", Pay(13)).status == "failed"
            assert asyncio.run(commands.send_async("17", Pay(5))).versions == range(2, 4)
            many = commands.send_many([(str(number), PlaceOrder("pen")) for number in range(100, 150)])
            assert [reply.aggregate_id for reply in many] == [str(number) for number in range(100, 150)]
            assert all(reply.accepted for reply in many)
            commands.send_nowait("18", Expire())
            child = os.fork()
            if not child:
                with app.commands(order) as own:
                    reply = own.send("19", PlaceOrder("lamp"))
                os._exit(0 if reply.accepted else 1)
            assert os.waitpid(child, 0)[1] == 0
        events = app.events(order)
        until(lambda: len(events.history("17")) == 3, app)
        assert verify(order, app).different == 0
    finally:
        app.close()
    stopped = PatternsApp(order, place.settings())
    events = stopped.events("order")
    assert [each.event for each in events.history("17")] == [Placed("book"), Paid(2), Paid(3)]
    first, *_ = events.history("17")
    assert (first.version, first.causation_id, first.application, first.source) == (1, "a", "app", "/client")
    assert events.state("17") == AggregateState("17", 3, Order("book", 5))
    assert events.state("17", version=2) == AggregateState("17", 2, Order("book", 2))
    assert events.state("17", at=first.time_ms - 1) == AggregateState("17", 0, None)
    assert events.state("17", at=first.time_ms).version >= 1
    assert events.state("nothing") == AggregateState("nothing", 0, None)
    verified = verify(order, stopped)
    assert (verified.aggregates, verified.events, verified.different) == (52, 54, 0)


def test_a_raised_state_version_is_refused_until_the_states_are_rebuilt(place: Place) -> None:
    order = order_aggregate()
    app = PatternsApp(order, place.settings(), partitions=2)
    app.start()
    try:
        app.commands(order).send_many(
            [("17", PlaceOrder("book")), ("17", Pay(5)), ("18", PlaceOrder("pen"))], timeout=START
        )
    finally:
        app.close()
    raised = order_aggregate(state_version=2)
    app = PatternsApp(raised, place.settings())
    with pytest.raises(CheckpointError) as refused:
        app.run_to_end()
    assert refused.value.condition == "STORE_SCHEMA_CHANGED"
    assert "hayase events rebuild" in refused.value.message
    done = rebuild(raised, app.topology, app.config)
    assert done.failed == 0 and done.epoch is not None
    app = PatternsApp(raised, place.settings())
    app.run_to_end()
    assert app.events(raised).state("17") == AggregateState("17", 3, Order("book", 5))
    assert rebuild(raised, app.topology, app.config).stores == ()


def test_no_reply_in_time_means_that_the_outcome_is_unknown(place: Place) -> None:
    app = PatternsApp(order_aggregate(), place.settings())
    app.create_topics()
    with app.commands("order") as commands, pytest.raises(CommandOutcomeUnknownError) as error:
        commands.send("17", PlaceOrder("book"), command_id="a", timeout=timedelta(milliseconds=100))
    assert error.value.command_ids == ("a",)


def test_topics_that_lose_events_and_aggregates_of_another_application_are_refused(place: Place) -> None:
    app = PatternsApp(order_aggregate(), place.settings(), partitions=1)
    place.log.create_topic("order-events", 1, {"retention.ms": "60000"})
    with pytest.raises(ConfigError, match="alter order-events") as error:
        app.create_topics()
    assert error.value.condition == "EVENTS_WOULD_BE_LOST"
    place.log.alter_topic_config("order-events", {"retention.ms": "-1"})
    headers = (("ce_application", b"other"),)
    place.put("order-events", [("17", {"item": "book"}, 0)], headers)
    with pytest.raises(HayaseError) as owned:
        app.create_topics()
    assert owned.value.condition == "AGGREGATE_OWNED"


def test_deadlines_fire_while_no_command_comes(place: Place) -> None:
    order = order_aggregate()

    @order.on(Placed)
    def expire_soon(event: Placed, own: AggregateState[Order | None]) -> Deadline:
        return deadline(timedelta(milliseconds=300), order.command(own.id, Expire()))

    app = PatternsApp(order, place.settings(), partitions=1)
    app.start()
    try:
        app.commands(order).send("17", PlaceOrder("book"), timeout=START)
        until(lambda: [each.event for each in app.events(order).history("17")] == [Placed("book"), Expired()], app)
    finally:
        app.close()
