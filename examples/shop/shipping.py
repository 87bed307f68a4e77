"""Shipping: one parcel for each order."""

from dataclasses import dataclass

from shop_messages import STOCK, Ship, Take

from hayase import StreamsBuilder
from hayase.patterns import AggregateCommand, AggregateState, Decider, EventSourced, Rejected


@dataclass
class Dispatched:
    """The parcel has left the house."""

    item: str


def decide(command: Ship, dispatched: bool) -> list[Dispatched] | Rejected:
    if not command.address:
        return Rejected("there is no address")
    return [] if dispatched else [Dispatched(command.item)]


def evolve(dispatched: bool, event: Dispatched) -> bool:
    return True


parcel = EventSourced("parcel", Decider(False, decide, evolve))


@parcel.on(Dispatched)
def take(event: Dispatched, own: AggregateState[bool]) -> AggregateCommand:
    return STOCK.command(event.item, Take(own.id))


topology = StreamsBuilder()
parcel.add_to(topology)
