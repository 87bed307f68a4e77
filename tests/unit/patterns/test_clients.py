"""Commands from a client, the history, and the `hayase events` commands, on an embedded log without Spark."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.patterns import local_orders
from tests.unit.patterns.local_orders import LocalOrders
from tests.unit.patterns.shop import DECIDER, Order, Paid, Pay, Place, Placed, order_aggregate, topology_of

from hayase.cli.main import COMMANDS, run_cli
from hayase.compiler.plan_shape import shape_of
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, HayaseError, StateError
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.patterns import AggregateState, CommandOutcomeUnknownError, EventSourced, PatternsApp, history
from hayase.patterns.state_rows import EventKey
from hayase.patterns.verification import verify
from hayase.query.checkpoint import subtopology_of_store
from hayase.query.numbered_plans import NumberedPlan, publish_plan
from hayase.storage.lmdb_env import close_environment

pytestmark = pytest.mark.long

TARGET = f"{local_orders.__file__}:topology"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalOrders]:
    """An application to which a client has sent some commands."""
    folder = tmp_path_factory.mktemp("orders")
    made = LocalOrders(folder)
    made.start()
    with app_of(made).commands(local_orders.order, source="/tests") as commands:
        commands.send("17", Place("book"), command_id="a")
        commands.send("17", Pay(5), command_id="b", correlation_id="visit")
        commands.send("18", Place("pen"))
    made.stop()
    yield made
    made.app.close()
    for data in folder.rglob("data.mdb"):
        close_environment(data.parent)


def app_of(orders: LocalOrders) -> PatternsApp:
    return PatternsApp(local_orders.topology, orders.settings)


def test_replies_come_to_the_client_that_has_sent_the_command(tmp_path: Path) -> None:
    orders = LocalOrders(tmp_path)
    orders.start()
    try:
        with app_of(orders).commands("order") as first, app_of(orders).commands("order") as second:
            placed = first.send("17", Place("book"), expected_version=0)
            assert placed.accepted and placed.position is not None and placed.position.offset == 1
            assert placed.position.topic_id == orders.app.log.describe(["order-events"])["order-events"].topic_id
            assert second.send("17", Place("pen")).status == "rejected"
            replies = first.send_many([(str(number), Place("pen")) for number in range(100, 130)])
            assert [reply.aggregate_id for reply in replies] == [str(number) for number in range(100, 130)]
            assert asyncio.run(second.send_async("17", Pay(4))).versions == range(2, 4)
            assert first.send_nowait("17", Pay(4), command_id="x") == "x"
            assert first.send("17", Pay(4), command_id="x").version == 5
            paid = asyncio.run(second.send_many_async((str(number), Pay(4)) for number in (102, 100, 999)))
            assert [(reply.aggregate_id, reply.status) for reply in paid] == [
                ("102", "accepted"),
                ("100", "accepted"),
                ("999", "rejected"),
            ]
            assert asyncio.run(second.send_many_async([])) == []
    finally:
        orders.stop()
        orders.app.close()


def test_no_reply_in_time_names_the_ids_to_send_again(tmp_path: Path) -> None:
    orders = LocalOrders(tmp_path)
    with app_of(orders).commands("order") as commands:
        with pytest.raises(CommandOutcomeUnknownError) as error:
            commands.send("17", Place("book"), command_id="a", timeout=timedelta(milliseconds=50))
        assert error.value.command_ids == ("a",) and error.value.condition == "COMMAND_OUTCOME_UNKNOWN"
        orders.start()
        assert commands.send("17", Place("book"), command_id="a").version == 1
    orders.stop()
    orders.app.close()


def test_the_history_has_each_event_with_its_cause_and_the_state_at_any_point(orders: LocalOrders) -> None:
    events = app_of(orders).events(local_orders.order)
    first, second, third = events.history("17")
    assert [first.event, second.event, third.event] == [Placed("book"), Paid(2), Paid(3)]
    assert (second.version, second.causation_id, second.correlation_id) == (2, "b", "visit")
    assert (second.source, second.application) == ("/tests", "app")
    assert events.state("17") == AggregateState("17", 3, Order("book", 5))
    assert events.state("17", version=2) == AggregateState("17", 2, Order("book", 2))
    assert events.state("17", version=0) == AggregateState("17", 0, None)
    assert events.state("17", at=first.time_ms).state == Order("book")
    assert events.state("17", at=first.time_ms - 1).version == 0
    assert events.state("nothing").version == 0 and events.history("nothing") == []
    assert [each.version for each in events.history("17", from_version=2, to_version=2)] == [2]


def test_before_the_first_epoch_an_aggregate_has_no_history(tmp_path: Path) -> None:
    begun = LocalOrders(tmp_path)
    events = app_of(begun).events("order")
    assert events.history("17") == [] and events.state("17") == events.state("17", version=0)
    assert events.state("17").version == 0
    begun.epoch()
    for data in (tmp_path / "state").rglob("data.mdb"):
        data.unlink()  # a state that is lost is no empty one
    with pytest.raises(StateError, match="There is no state"):
        events.history("17")
    begun.app.close()


def test_a_version_that_is_not_there_and_two_points_at_once_are_refused(orders: LocalOrders) -> None:
    events = app_of(orders).events("order")
    with pytest.raises(StateError) as missing:
        events.state("17", version=9)
    assert missing.value.condition == "VERSION_NOT_THERE"
    with pytest.raises(ConfigError):
        events.state("17", version=1, at=5)


@pytest.mark.parametrize("version", [-1, 2**70, "1"])
def test_a_version_that_is_none_is_refused(orders: LocalOrders, version: Any) -> None:
    events = app_of(orders).events("order")
    for read in (partial(events.state, "17", version=version), partial(events.history, "17", from_version=version)):
        with pytest.raises(ConfigError, match="a version is a whole number from 0 on"):
            read()


def test_an_aggregate_that_is_not_in_the_topology_is_refused_with_those_that_are(orders: LocalOrders) -> None:
    with pytest.raises(HayaseError, match="it has: order"):
        app_of(orders).commands("orders")


def test_verify_finds_states_that_are_what_the_events_say(orders: LocalOrders) -> None:
    result = verify(local_orders.order, app_of(orders))
    assert (result.aggregates, result.events, result.different) == (2, 4, 0)


def test_verify_finds_a_state_that_is_not(orders: LocalOrders) -> None:
    other = order_aggregate()
    before = other.evolved
    other.evolved = lambda state, event: before(state, Paid(7) if isinstance(event, Paid) else event)  # type: ignore[method-assign] # as of a later program
    result = verify(other, app_of(orders))
    (difference,) = result.differences
    assert (difference.aggregate_id, difference.version) == ("17", 3)
    assert (difference.stored, difference.folded) == (Order("book", 5), Order("book", 14))


def events_command(orders: LocalOrders, command: str, *arguments: str) -> int:
    given = [part for key, value in orders.settings.items() for part in ("-c", f"{key}={value}")]
    return run_cli(["events", command, TARGET, *arguments, *given])


def test_commands_find_the_topics_by_the_options_that_run_has(
    orders: LocalOrders, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {str(key): str(value) for key, value in orders.settings.items()}
    folder = settings.pop("log.dir")
    given = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    for command in (["show", TARGET, "order", "17"], ["list", TARGET], ["verify", TARGET]):
        assert run_cli(["events", *command, *given, "--log-dir", folder]) == 0
        assert "Placed" in capsys.readouterr().out or command[0] == "verify"
        assert run_cli(["events", *command, *given, "--log-dir", folder, "-b", "localhost:1"]) != 0
        assert "--log-dir and --bootstrap-servers" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["events", "saga", "read-models"])
def test_commands_of_patterns_are_told_the_place_of_the_topics_as_run_is(group: str) -> None:
    commands = {each.name: each for each in COMMANDS}
    wanted = {"--log-dir", "--bootstrap-servers", "--config", "--config-file"}

    def options(command: Any) -> dict[str, str]:
        return {name: option.help for option in command.params for name in option.opts if name in wanted}

    of_run = options(commands["run"].load())
    assert of_run.keys() == wanted
    assert {
        name: options(each) for name, each in commands[group].load().commands.items() if options(each) != of_run
    } == {}


def test_show_prints_the_story_of_an_aggregate(orders: LocalOrders, capsys: pytest.CaptureFixture[str]) -> None:
    assert events_command(orders, "show", "order", "17", "--format", "json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["version"], row["event"], row["cause"], row["from"]) for row in rows] == [
        (1, "Placed", "a", "/tests"),
        (2, "Paid", "b", "/tests"),
        (3, "Paid", "b", "/tests"),
    ]
    assert rows[-1]["state"] == {"item": "book", "cents": 5, "expired": False}
    assert events_command(orders, "show", "order", "17", "--until", "1") == 0
    assert "Paid" not in capsys.readouterr().out
    assert events_command(orders, "show", "order", "99") == 1


def test_show_of_a_program_without_an_event_lists_all_and_claims_no_state_from_there_on(
    orders: LocalOrders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = tmp_path / "later.py"
    later.write_text(
        "from tests.unit.patterns.shop import Expire, Order, Place, Placed, topology_of\n"
        "from hayase.patterns import Decider, EventSourced\n"
        "def decide(command: Place | Expire, order: Order | None) -> list[Placed]:\n"
        "    return []\n"
        "def evolve(order: Order | None, event: Placed) -> Order | None:\n"
        "    return Order(event.item)\n"
        "topology = topology_of(EventSourced('order', Decider(None, decide, evolve)))\n"
    )
    given = [part for key, value in orders.settings.items() for part in ("-c", f"{key}={value}")]
    assert run_cli(["events", "show", f"{later}:topology", "order", "17", "--format", "json", *given]) == 1
    shown = capsys.readouterr()
    rows = [json.loads(line) for line in shown.out.splitlines()]
    assert [(row["event"], row["state"] == "?") for row in rows] == [
        ("Placed", False),
        ("Paid", True),
        ("Paid", True),
    ]
    assert "has no event 'Paid'" in shown.err


def test_an_index_that_is_lost_alone_is_rebuilt_when_the_application_goes_on(tmp_path: Path) -> None:
    orders = LocalOrders(tmp_path)
    with app_of(orders).commands("order") as commands:
        commands.send_nowait("17", Place("book"))
        orders.epoch()
        orders.epoch()
        orders.app.close()
        for bundle in orders.app.plan.bundles:
            if bundle.subtopology == subtopology_of_store(local_orders.topology, local_orders.order.index_store):
                shutil.rmtree(orders.app.folders.logged(bundle.id, in_memory=False))
        lost = app_of(orders).events("order")
        assert lost.state("17").version == 1
        with pytest.raises(StateError, match="STATE_NOT_THERE"):
            lost.history("17")
        again = LocalOrders(tmp_path)
        commands.send_nowait("17", Pay(5))
        again.epoch()
        again.epoch()
    assert [each.event for each in lost.history("17")] == [Placed("book"), Paid(2), Paid(3)]
    again.app.close()


def test_a_replay_by_command_ends_with_an_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orders = LocalOrders(tmp_path)
    with app_of(orders).commands("order") as commands:
        for command in (Place("book"), Pay(5)):
            commands.send_nowait("17", command)
            orders.epoch()
    into = str(tmp_path / "out")
    assert events_command(orders, "replay", "--until", "epoch:last", "--into", into) == 2
    assert "names no epoch" in capsys.readouterr().err
    assert events_command(orders, "replay", "--until", "epoch:0", "--into", into) == 0
    assert "1 records, 1 states" in capsys.readouterr().err
    orders.app.close()


def test_show_ends_with_an_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orders = LocalOrders(tmp_path)
    with app_of(orders).commands("order") as commands:
        for command in (Place("book"), Pay(5)):
            commands.send_nowait("17", command)
            orders.epoch()
    orders.epoch()
    shown = []
    for epoch in (0, 1):
        assert events_command(orders, "show", "order", "17", "--until", f"epoch:{epoch}", "--format", "json") == 0
        shown.append([json.loads(line)["version"] for line in capsys.readouterr().out.splitlines()])
    assert shown == [[1], [1, 2, 3]]
    assert events_command(orders, "show", "order", "17", "--until", "epoch:last") == 2
    assert "names no epoch" in capsys.readouterr().err
    orders.app.close()


def test_list_and_verify_print_each_aggregate(orders: LocalOrders, capsys: pytest.CaptureFixture[str]) -> None:
    assert events_command(orders, "list", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "aggregate": "order",
        "topic": "order-events",
        "offsets": 4,
        "commands": "Place, Pay, Expire",
        "events": "Placed, Paid, Expired",
    }
    assert events_command(orders, "verify") == 0


def test_a_reader_whose_topology_has_the_aggregates_in_another_order_reads_the_same_states(tmp_path: Path) -> None:
    def aggregates() -> list[EventSourced[Any, Any, Any]]:
        return [EventSourced(name, DECIDER) for name in ("order", "bill")]

    order, bill = aggregates()
    orders = LocalOrders(tmp_path, topology=topology_of(order, bill), topics=(*order.topics, *bill.topics))
    orders.app.log.alter_topic_config(bill.events_topic, {"retention.ms": "-1"})
    tasks = {name: part.partitions for name, part in orders.app.plan.subtopologies.items()}
    publish_plan(orders.app.blobs, NumberedPlan(0, shape_of(orders.app.topology, tasks)))  # as a start does
    orders.start()
    other = PatternsApp(topology_of(*reversed(aggregates())), orders.settings)
    alone = PatternsApp(aggregates()[1], orders.settings)
    with other.commands("order") as order_commands, other.commands("bill") as bill_commands:
        order_commands.send("17", Place("book"))
        bill_commands.send("17", Place("pen"))
    orders.stop()
    assert other.events("order").state("17").state == Order("book")
    for app in (other, alone):
        assert app.events("bill").state("17").state == Order("pen")
        assert [each.event for each in app.events("bill").history("17")] == [Placed("pen")]


def test_an_event_that_is_there_twice_keeps_its_first_place_in_the_index(tmp_path: Path) -> None:
    orders = LocalOrders(tmp_path)
    headers = (("ce_aggregateversion", b"1"), ("ce_type", b"Placed"))
    orders.app.writer().append(
        [OutputBatch("order-events", [b"17"] * 3, [b"{}"] * 3, [0] * 3, None, [headers] * 2 + [()])]
    )
    orders.epoch()
    rows = {row.key: row.value for row in app_of(orders).store("order-events-index").all()}
    assert [(key, place.offset) for key, place in rows.items()] == [(EventKey("17", 1), 0)]
    orders.app.close()


def test_a_history_on_kafka_fetches_little_at_once_unless_the_application_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[LogConfig] = []
    monkeypatch.setattr(history, "open_log", opened.append)
    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:9"}
    for more in ({}, {"consumer.fetch.message.max.bytes": "1000000"}):
        history._Opened(order_aggregate(), StreamsConfig({**settings, **more}))
    fetches = [each.options["consumer.fetch.message.max.bytes"] for each in opened]
    assert fetches == ["16384", "1000000"]
    assert [each.options["consumer.queued.min.messages"] for each in opened] == ["1", "1"]
