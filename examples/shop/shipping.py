"""Shipping: one parcel for each order."""

from msgspec import Struct
from shop_messages import STOCK, Ship, Take

from hayase.patterns import AggregateState, Decider, EventSourced, Reactions, Rejected


class Dispatched(Struct):
    item: str


def decide(command: Ship, dispatched: bool) -> list[Dispatched] | Rejected:
    if not command.address:
        return Rejected("there is no address")
    return [] if dispatched else [Dispatched(command.item)]


def evolve(dispatched: bool, event: Dispatched) -> bool:
    return True


parcel = EventSourced("parcel", Decider(False, decide, evolve))


@parcel.on(Dispatched)
def take(event: Dispatched, own: AggregateState[bool]) -> Reactions:
    return STOCK.command(event.item, Take(own.id))


topology = parcel.topology()
