"""An aggregate for the tests: an order that is placed, paid, and expires if it is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from hayase import Serdes, StreamsBuilder, Topology
from hayase.core.records import Headers
from hayase.patterns import AggregateState, CommandTarget, Deadline, Decider, EventSourced, Rejected, Reply, deadline
from hayase.patterns.command_reading import command_headers
from hayase.patterns.replies import decode_reply
from hayase.testing import TopologyTestDriver


@dataclass(frozen=True)
class Place:
    item: str


class Pay(msgspec.Struct, frozen=True, tag=True):
    cents: int


@dataclass(frozen=True)
class Expire:
    pass


@dataclass(frozen=True)
class Placed:
    item: str


class Paid(msgspec.Struct, frozen=True, tag=True):
    cents: int


@dataclass(frozen=True)
class Expired:
    pass


@dataclass(frozen=True)
class Order:
    item: str
    cents: int = 0
    expired: bool = False


Command = Place | Pay | Expire
Event = Placed | Paid | Expired


def decide(command: Command, order: Order | None) -> list[Event] | Rejected:
    match command:
        case Place(item):
            return Rejected(f"it is there with {order.item}") if order else [Placed(item)]
        case Pay(13):
            raise RuntimeError("13 is unlucky")
        case Pay(cents):
            if order is None:
                return Rejected("there is no order")
            return [Paid(cents // 2), Paid(cents - cents // 2)]
        case Expire():
            return [] if order is None or order.cents or order.expired else [Expired()]


def evolve(order: Order | None, event: Event) -> Order | None:
    match event:
        case Placed(item):
            return Order(item)
        case Paid(cents):
            assert order is not None
            return Order(order.item, order.cents + cents, order.expired)
        case Expired():
            assert order is not None
            return Order(order.item, order.cents, expired=True)


DECIDER = Decider[Command, Event, Order | None](None, decide, evolve)


class Reserve(msgspec.Struct, frozen=True):
    order: str


STOCK = CommandTarget("stock", [Reserve])


def order_aggregate(**options: Any) -> EventSourced[Command, Event, Order | None]:
    return EventSourced("order", DECIDER, **options)


def with_deadline(order: EventSourced[Command, Event, Order | None]) -> EventSourced[Command, Event, Order | None]:
    @order.on(Placed)
    def expire(event: Placed, own: AggregateState[Order | None]) -> Deadline:
        return deadline(timedelta(minutes=1), order.command(own.id, Expire()))

    return order


def topology_of(*aggregates: EventSourced[Any, Any, Any]) -> Topology:
    builder = StreamsBuilder()
    for aggregate in aggregates:
        aggregate.add_to(builder)
    return builder.build()


class Shop:
    """An aggregate in the test driver."""

    def __init__(self, driver: TopologyTestDriver, order: EventSourced[Command, Event, Order | None]) -> None:
        self.driver = driver
        self.order = order
        text, raw = Serdes.string(), Serdes.bytes()
        self.commands = driver.create_input_topic("order-commands", raw, raw)
        self.events = driver.create_output_topic("order-events", text, raw)
        self._replies = driver.create_output_topic("order-replies", text, raw)
        self.dead_letters = driver.create_output_topic("order-dead-letters", raw, raw)

    def send(self, aggregate_id: str, command: Command, command_id: str, **more: str | int | None) -> None:
        made = self.order.command(aggregate_id, command)
        self.raw(aggregate_id.encode(), made.data, command_headers(made, command_id, "/tests", 0, more))

    def raw(self, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        self.commands.pipe_input(key, value, 0, headers)

    def replies(self) -> list[Reply]:
        return [decode_reply(record.value) for record in self._replies.read_records_to_list()]

    def recorded(self) -> list[Any]:
        types = self.order.event_types
        found = []
        for record in self.events.read_records_to_list():
            name = dict(record.headers)["ce_type"]
            assert name is not None
            found.append(types.decode(name.decode(), record.value))
        return found

    def state(self, aggregate_id: str) -> Any:
        return self.driver.store("order-state").get(aggregate_id)


@contextmanager
def shop(order: EventSourced[Command, Event, Order | None] | None = None) -> Iterator[Shop]:
    """The topology of one aggregate, driven."""
    order = order or order_aggregate()
    with TopologyTestDriver(topology_of(order)) as driver:
        yield Shop(driver, order)
