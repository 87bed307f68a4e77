"""The stock: what is left of each item, and what is reserved."""

from msgspec import Struct
from shop_messages import Release, Reserve, Take

from hayase.patterns import Decider, EventSourced, Rejected


class Restock(Struct):
    quantity: int


class Restocked(Struct):
    quantity: int


class Reserved(Struct):
    order: str
    quantity: int


class Released(Struct):
    order: str
    quantity: int


class Sold(Struct):
    order: str
    quantity: int


class Shelf(Struct):
    left: int = 0
    reserved: dict[str, int] = {}


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
topology = stock.topology()
