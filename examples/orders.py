"""Orders as an event-sourced aggregate: they expire if they are not paid in time.

`python examples/orders.py` tries it in this process; `hayase run examples/orders.py` runs it on Spark, and
`hayase events show examples/orders.py order 17` prints the story of an order.
"""

from dataclasses import dataclass
from datetime import timedelta

from hayase import Serdes, StreamsBuilder
from hayase.patterns import AggregateState, Deadline, Decider, DeciderTestCase, EventSourced, Rejected, deadline
from hayase.testing import TopologyTestDriver


@dataclass
class Place:
    """Order an item."""

    item: str
    cents: int


@dataclass
class Pay:
    """Pay for it."""

    cents: int


@dataclass
class Expire:
    """Give it up, if it is not paid."""


@dataclass
class Placed:
    """The item was ordered."""

    item: str
    cents: int


@dataclass
class Paid:
    """It was paid."""

    cents: int


@dataclass
class Expired:
    """It was not paid in time."""


@dataclass
class Order:
    """What of an order counts for decisions."""

    due_cents: int
    expired: bool = False


def decide(command: Place | Pay | Expire, order: Order | None) -> list[Placed | Paid | Expired] | Rejected:
    if isinstance(command, Place):
        return Rejected("the order is there already") if order else [Placed(command.item, command.cents)]
    if order is None:
        return Rejected("there is no such order")
    if isinstance(command, Expire):
        return [Expired()] if order.due_cents and not order.expired else []
    if order.expired or command.cents > order.due_cents:
        return Rejected("the order has expired" if order.expired else f"only {order.due_cents} cents are due")
    return [Paid(command.cents)]


def evolve(order: Order | None, event: Placed | Paid | Expired) -> Order | None:
    if isinstance(event, Placed):
        return Order(event.cents)
    assert order is not None  # the others follow `Placed`
    if isinstance(event, Paid):
        return Order(order.due_cents - event.cents)
    return Order(order.due_cents, expired=True)


orders = Decider[Place | Pay | Expire, Placed | Paid | Expired, Order | None](None, decide, evolve)
order = EventSourced("order", orders)


@order.on(Placed)
def expire(event: Placed, own: AggregateState[Order | None]) -> Deadline:
    return deadline(timedelta(minutes=30), order.command(own.id, Expire()))


builder = StreamsBuilder()
order.add_to(builder)
topology = builder.build()

if __name__ == "__main__":
    DeciderTestCase(orders).given(Placed("book", 1250)).when(Pay(1250)).then(Paid(1250)).then_state(Order(0))
    with TopologyTestDriver(topology) as driver:
        commands = driver.create_input_topic("order-commands", Serdes.string(), Serdes.json())
        for number, (key, command) in enumerate(
            [("17", Place("book", 1250)), ("18", Place("pen", 300)), ("17", Pay(1250))]
        ):
            headers = (("ce_id", b"%d" % number), ("ce_type", type(command).__name__.encode()))
            commands.pipe_input(key, command, headers=headers)
        driver.advance_wall_clock_time(timedelta(hours=1))
        for recorded in driver.create_output_topic(
            "order-events", Serdes.string(), Serdes.json()
        ).read_records_to_list():
            print(recorded.key, dict(recorded.headers)["ce_type"].decode(), recorded.value)
