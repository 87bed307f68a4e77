"""Sagas in the test driver: what is done, taken back, tried again and compensated."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.patterns.sagas import (
    PAY,
    PAYMENTS,
    RESERVE,
    SHIP,
    SHIPPING,
    STOCK,
    Ask,
    Checkout,
    Do,
    Driven,
    Release,
    Reserve,
    Reserved,
    checkout,
    driven,
)

from hayase import Serdes, StreamsBuilder
from hayase.core.errors import HayaseError, TopologyError
from hayase.patterns import AggregateCommand, CancelSaga, RetrySaga, Saga, SagaState, Step
from hayase.patterns.command_reading import command_headers
from hayase.patterns.replies import Reply, encode_reply
from hayase.patterns.saga.definition import definition_of
from hayase.testing import TopologyTestDriver
from hayase.topology.nodes import SourceNode

WAITING = replace(RESERVE, success=[Reserved])
PAY_1, SHIP_1, UNPAY_1 = "checkout:17:pay:action:1", "checkout:17:ship:action:1", "checkout:17:pay:undo:1"


def test_a_saga_whose_steps_succeed_completes_in_order() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        assert shop.sent("payments") == [PAY_1]
        assert shop.sent("shipping") == []
        shop.reply("payments", PAY_1, "accepted")
        assert shop.sent("shipping") == [SHIP_1]
        shop.reply("shipping", SHIP_1, "accepted")
        assert (shop.row().status, shop.left()) == ("completed", 0)
        assert shop.told() == ["Started", *["StepSucceeded"] * 3, "Completed"]


def test_a_refusal_takes_back_what_was_done() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "rejected", "no money")
        assert (shop.row().status, shop.row().reason, shop.left()) == ("cancelled", "pay: no money", 1)
        assert shop.sent("payments") == [PAY_1]


def test_metrics_count_sagas_by_what_became_of_them() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "rejected", "no money")
        shop.send("18", Checkout("book"), "b")
        names = ("started", "undoing", "cancelled", "completed", "command")
        counted = [shop.driver.metrics.by_owner(f"saga/{name}").get("checkout", 0) for name in names]
        assert counted == [2, 1, 1, 0, 5]  # commands: reserve and pay, twice, and the undo


def test_a_refusal_of_the_first_step_takes_nothing_back() -> None:
    with driven() as shop:
        shop.stock("book", Reserve("x"), "x")
        shop.send("17", Checkout("book"), "a")
        assert (shop.row().status, shop.sent("payments"), shop.left()) == ("cancelled", [], 0)


def test_a_step_that_is_accepted_with_other_events_than_it_waits_for_is_seen_to_be_stuck() -> None:
    saga = Saga("checkout", Checkout, [RESERVE, PAY, replace(SHIP, success=[Reserved])])
    with driven(saga) as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "accepted")
        shop.reply("shipping", SHIP_1, "accepted", events=1)
        assert not shop.row().stuck  # the event may be on its way
        shop.pass_time(11)
        shop.pass_time(2)
        row = shop.row()
        assert row.stuck and row.steps["ship"].reason == "it was accepted, with events of which none is Reserved"
        assert shop.told()[-1] == "StepStuck"
        assert shop.sent("shipping") == [SHIP_1, SHIP_1]


def test_without_an_answer_the_same_id_is_sent_again_and_then_undone() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.pass_time(10.5)
        shop.pass_time(1.5)
        assert shop.sent("payments") == [PAY_1, PAY_1]
        shop.pass_time(10.5)
        assert shop.sent("payments") == [UNPAY_1]
        assert (shop.row().status, shop.left()) == ("undoing", 0)
        shop.reply("payments", UNPAY_1, "accepted")
        assert (shop.row().status, shop.left()) == ("cancelled", 1)


def test_what_failed_is_sent_again_under_the_same_id() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "failed", "broken")
        shop.pass_time(1.5)
        assert shop.sent("payments") == [PAY_1, PAY_1]


def test_an_undo_is_tried_until_it_succeeds_under_a_new_id_after_a_refusal() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.send("17", CancelSaga("changed my mind"), "b")
        assert shop.sent("payments") == [PAY_1, UNPAY_1]
        shop.reply("payments", UNPAY_1, "rejected", "not now")
        shop.pass_time(1.5)
        assert shop.sent("payments") == ["checkout:17:pay:undo:2"]
        shop.pass_time(10.5)
        shop.pass_time(60)
        assert set(shop.sent("payments")) == {"checkout:17:pay:undo:2"}
        shop.reply("payments", "checkout:17:pay:undo:2", "accepted")
        assert shop.row().status == "cancelled"


def test_a_success_that_comes_after_the_undo_is_compensated() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.send("17", CancelSaga(), "b")
        shop.reply("payments", UNPAY_1, "accepted")
        assert shop.row().status == "cancelled"
        shop.reply("payments", PAY_1, "accepted")
        assert shop.row().status == "undoing"
        shop.reply("payments", "checkout:17:pay:undo:2", "accepted")
        assert (shop.row().status, shop.left()) == ("cancelled", 1)


def test_behind_the_pivot_a_refusal_is_tried_again_under_a_new_id() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "accepted")
        shop.reply("shipping", SHIP_1, "rejected", "no truck")
        shop.pass_time(1.5)
        assert shop.sent("shipping") == [SHIP_1, "checkout:17:ship:action:2"]
        shop.reply("shipping", "checkout:17:ship:action:2", "accepted")
        assert shop.row().status == "completed"


def test_behind_the_pivot_there_is_no_way_back() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "accepted")
        shop.send("17", CancelSaga(), "b")
        assert (shop.statuses(), shop.row().status) == (["accepted", "rejected"], "running")


def test_a_repeated_start_and_repeated_answers_do_nothing() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.send("17", Checkout("book"), "a")
        shop.send("17", Checkout("pen"), "b")
        shop.reply("payments", PAY_1, "accepted")
        shop.reply("payments", PAY_1, "accepted")
        assert shop.statuses() == ["accepted", "accepted", "rejected"]
        assert (shop.sent("payments"), shop.sent("shipping"), shop.left()) == ([PAY_1], [SHIP_1], 0)


def test_a_start_with_the_id_of_another_one_is_answered_with_the_digest_of_the_first() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a", requestdigest="of the book")
        shop.send("17", Checkout("pen"), "a", requestdigest="of the pen")
        assert shop.request_digests() == ["of the book", "of the book"]


def test_retry_sends_at_once() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.send("17", RetrySaga(), "b")
        assert shop.sent("payments") == [PAY_1, PAY_1]


def test_a_saga_that_ended_is_forgotten_after_a_time() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "rejected")
        shop.pass_time(8 * 24 * 3600)
        assert shop.row() is None


def test_an_action_that_arrives_after_its_undo_is_refused() -> None:
    with driven() as shop:
        shop.stock("book", Release("17"), "u", undoes="a")
        shop.stock("book", Reserve("17"), "a")
        assert shop.driver.store("stock-state").get("book") is None
        shop.stock("book", Reserve("17"), "b")
        assert shop.left() == 0


def test_an_undo_that_decide_refuses_succeeds_only_where_nothing_was_done() -> None:
    with driven() as shop:
        replies: Any = shop.driver.create_output_topic("stock-replies", *_raw())
        shop.stock("book", Reserve("17"), "a")
        shop.stock("book", Release("18"), "u", undoes="a")
        shop.stock("book", Release("18"), "v", undoes="never")
        assert [_status(each) for each in replies.read_values_to_list()] == ["accepted", "rejected", "accepted"]


def test_an_action_is_undone_once() -> None:
    with driven() as shop:
        shop.stock("book", Reserve("17"), "a")
        shop.stock("book", Release("17"), "u", undoes="a")
        shop.stock("book", Reserve("17"), "b")
        shop.stock("book", Release("17"), "v", undoes="a")
        assert shop.left() == 0


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], "no steps"),
        ([RESERVE, RESERVE], "one name"),
        ([SHIP, PAY], "'ship' has no undo"),
        ([SHIP, RESERVE], "'ship' has no undo"),
        ([[RESERVE, PAY]], "beside it"),
        ([Step(name="s", to=RESERVE.to, action=RESERVE.action, success=[Release])], "does not emit"),
        ([Step(name="s", to=RESERVE.to, action=RESERVE.action, refusal=[Reserved])], "and none of success"),
    ],
)
def test_a_saga_that_could_get_stuck_is_refused_when_it_is_made(steps: Any, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        Saga("checkout", Checkout, steps)


def test_a_saga_without_pivot_may_lack_the_undo_of_its_last_step() -> None:
    assert checkout().definitions[1].pivot_group() == 1
    assert Saga("two", Checkout, [RESERVE, SHIP]).definitions[1].pivot_group() == 1


def _alone(saga: Saga[Checkout]) -> StreamsBuilder:
    builder = StreamsBuilder()
    saga.add_to(builder)
    return builder


def _raw() -> tuple[Any, Any]:
    return Serdes.bytes(), Serdes.bytes()


def _status(value: bytes) -> str:
    return value.decode().split('"status":"')[1].split('"')[0]


def test_an_event_that_the_action_causes_means_success() -> None:
    with driven(Saga("checkout", Checkout, [WAITING, PAY, SHIP])) as shop:
        shop.send("17", Checkout("book"), "a")
        assert (shop.row().steps["reserve"].status, shop.sent("payments")) == ("done", [PAY_1])


def test_an_action_that_is_accepted_without_an_event_had_nothing_to_do_and_is_done() -> None:
    asked = Step(
        name="ask", to=STOCK, action=lambda saga: STOCK.command("book", Ask()), success=[Reserved], nothing_to_undo=True
    )
    with driven(Saga("checkout", Checkout, [asked, PAY, SHIP])) as shop:
        shop.send("17", Checkout("book"), "a")
        assert (shop.row().steps["ask"].status, shop.sent("payments")) == ("done", [PAY_1])


def test_two_sagas_read_the_answers_of_one_aggregate() -> None:
    first, second = (Saga(name, Checkout, [WAITING]) for name in ("first", "second"))
    builder = StreamsBuilder()
    for each in (STOCK, first, second):
        each.add_to(builder)
    with TopologyTestDriver(builder.build()) as driver:
        for saga in (first, second):
            made = saga.start("17", Checkout(saga.name))
            driver.create_input_topic(saga.commands_topic, *_raw()).pipe_input(
                b"17", made.data, 0, command_headers(made, saga.name, "/tests", 0, {})
            )
        assert [driver.store(f"{name}-state").get("17").status for name in ("first", "second")] == ["completed"] * 2


@pytest.mark.parametrize("order", [(STOCK, checkout()), (checkout(), STOCK)])
def test_an_aggregate_of_the_same_topology_answers_at_once_wherever_it_was_added(order: Any) -> None:
    builder = StreamsBuilder()
    for each in order:
        each.add_to(builder)
    topology = builder.build()
    read = {topic for node in topology.nodes if isinstance(node, SourceNode) for topic in node.topics}
    assert read >= {"payments-replies", "shipping-replies"} and "stock-replies" not in read
    assert builder.build().nodes == topology.nodes
    with TopologyTestDriver(topology) as driver:
        shop = Driven(driver, checkout())
        shop.send("17", Checkout("book"), "a")
        assert (shop.row().steps["reserve"].status, shop.sent("payments")) == ("done", [PAY_1])


def test_an_aggregate_of_another_application_answers_through_its_topics() -> None:
    saga = Saga("checkout", Checkout, [WAITING, PAY, SHIP])
    with TopologyTestDriver(_alone(saga).build()) as driver:
        replies, events = (driver.create_input_topic(f"stock-{kind}", *_raw()) for kind in ("replies", "events"))
        shop = Driven(driver, saga)
        shop.send("17", Checkout("book"), "a")
        caused = (("ce_causationid", b"checkout:17:reserve:action:1"), ("ce_id", b"book/1"))
        accepted = Reply(status="accepted", aggregate="stock", aggregate_id="book", command_id="-", events=1)
        replies.pipe_input(b"-", encode_reply(accepted), 0, (*caused, ("ce_type", b"Reply")))
        assert shop.row().steps["reserve"].accepted and shop.sent("payments") == []
        events.pipe_input(b"book", b"{}", 0, (*caused, ("ce_type", b"Reserved")))
        assert shop.sent("payments") == [PAY_1]


def test_the_commands_of_a_step_are_for_one_aggregate_of_its_addressee() -> None:
    step = Step(
        name="reserve", to=STOCK, aggregate_id=lambda saga: saga.data.item, action=lambda saga: Reserve(saga.id),
        undo=lambda saga: Release(saga.id),
    )  # fmt: skip
    state = SagaState("17", Checkout("book"))
    assert step.command(state, undo=False) == STOCK.command("book", Reserve("17"))
    assert step.command(state, undo=True) == STOCK.command("book", Release("17"))
    own = Step(name="pay", to=PAYMENTS, action=lambda saga: Do(saga.id), pivot=True)
    assert own.command(state, undo=False).aggregate_id == "17"
    elsewhere = Step(name="pay", to=PAYMENTS, action=lambda saga: STOCK.command("book", Reserve("17")), pivot=True)
    with pytest.raises(TopologyError, match="made a command for 'stock-commands'; its aggregate is 'payments'"):
        elsewhere.command(state, undo=False)


def test_an_action_that_wants_to_end_the_process_is_not_sent_and_the_saga_says_why() -> None:
    def ending(saga: SagaState[Checkout]) -> AggregateCommand:
        sys.exit(3)

    saga = Saga("checkout", Checkout, [replace(RESERVE, action=ending), PAY, SHIP])
    with driven(saga) as shop:
        shop.send("17", Checkout("book"), "a")
        assert shop.row().steps["reserve"].reason == "the code wanted to end the process: SystemExit(3)"


def changed_steps(saga: Saga[Checkout]) -> None:
    """As if a later program had other steps under the same version."""
    saga.definitions[1] = definition_of("checkout", 1, [RESERVE, PAY, replace(SHIP, name="deliver")])


def test_a_program_with_other_steps_of_one_version_is_refused_where_a_saga_is_open() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        changed_steps(shop.saga)
        with pytest.raises(HayaseError, match=r"began with the steps reserve, pay, ship; .*earlier=\{1: \[…\]\}"):
            shop.reply("payments", PAY_1, "accepted")


def test_what_comes_late_for_a_saga_that_ended_with_other_steps_is_left_out() -> None:
    with driven() as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "accepted")
        shop.reply("shipping", SHIP_1, "accepted")
        changed_steps(shop.saga)
        shop.reply("payments", PAY_1, "accepted")
        shop.send("17", CancelSaga(), "b")
        assert shop.row().status == "completed" and shop.statuses() == ["accepted", "rejected"]


def test_an_action_that_its_topic_would_refuse_is_refused() -> None:
    shipping = replace(SHIP, action=lambda saga: SHIPPING.command(saga.id, Do("x" * 1_000_000)))
    with driven(
        Saga("checkout", Checkout, [RESERVE, PAY, replace(shipping, name="tell", nothing_to_undo=True)])
    ) as shop:
        shop.send("17", Checkout("book"), "a")
        shop.reply("payments", PAY_1, "accepted")
        assert "allowed are 900000" in shop.row().steps["tell"].reason and shop.sent("shipping") == []
