"""The stock: what is left of each item, and what is reserved."""

from dataclasses import dataclass, field

from shop_messages import Release, Reserve, Restock, Take

from hayase import StreamsBuilder
from hayase.patterns import Decider, EventSourced, Rejected


@dataclass
class Restocked:
    """More of it came."""

    quantity: int


@dataclass
class Reserved:
    """Some of it is kept for an order."""

    order: str
    quantity: int


@dataclass
class Released:
    """It is free again."""

    order: str
    quantity: int


@dataclass
class Sold:
    """It has left the house."""

    order: str
    quantity: int


@dataclass
class Shelf:
    """The stock of one item."""

    left: int = 0
    reserved: dict[str, int] = field(default_factory=dict)


Event = Restocked | Reserved | Released | Sold


def decide(command: Restock | Reserve | Release | Take, shelf: Shelf) -> list[Event] | Rejected:
    match command:
        case Restock(quantity):
            return [Restocked(quantity)]
        case Reserve(order, quantity):
            if order in shelf.reserved:
                return []
            return [Reserved(order, quantity)] if quantity <= shelf.left else Rejected("sold out")
        case Release(order):
            return [Released(order, shelf.reserved[order])] if order in shelf.reserved else []
        case Take(order):
            return [Sold(order, shelf.reserved[order])] if order in shelf.reserved else []


def evolve(shelf: Shelf, event: Event) -> Shelf:
    match event:
        case Restocked(quantity):
            return Shelf(shelf.left + quantity, shelf.reserved)
        case Reserved(order, quantity):
            return Shelf(shelf.left - quantity, {**shelf.reserved, order: quantity})
    others = {order: quantity for order, quantity in shelf.reserved.items() if order != event.order}
    return Shelf(shelf.left + (event.quantity if isinstance(event, Released) else 0), others)


stock = EventSourced("stock", Decider(Shelf(), decide, evolve))
topology = StreamsBuilder()
stock.add_to(topology)
