"""Orders, and the checkout that takes each of them through the other services.

`hayase run examples/shop/orders.py` runs this service; the others run beside it. `hayase demo --shop` runs all of them.
"""

from datetime import timedelta

from msgspec import Struct
from shop_messages import PARCEL, PAYMENT, STOCK, Captured, Charge, PaymentRefused, Refund, Release, Reserve, Ship

from hayase.patterns import AggregateState, CancelSaga, Decider, EventSourced, Reactions, Rejected, Saga, Step, deadline


class Place(Struct):
    item: str
    quantity: int
    cents: int
    card: str
    address: str


class Cancel(Struct):
    reason: str


class Accept(Struct): ...  # the checkout begins


class Close(Struct): ...  # the checkout has been taken back


class Finish(Struct): ...  # the parcel is on its way


class Placed(Struct):
    wish: Place


class CancelAsked(Struct):
    reason: str


class Cancelled(Struct): ...


class Shipped(Struct): ...


Event = Placed | CancelAsked | Cancelled | Shipped


def decide(command: Place | Cancel | Accept | Close | Finish, order: str | None) -> list[Event] | Rejected:
    match command, order:
        case Place(), None:
            return [Placed(command)]
        case Place(), _:
            return Rejected("the order is there")
        case _, None:
            return Rejected("there is no such order")
        case Cancel(reason), "placed":
            return [CancelAsked(reason)]
        case Close(), "placed":
            return [Cancelled()]
        case Finish(), "placed":
            return [Shipped()]
    return []


def evolve(order: str | None, event: Event) -> str | None:
    match event:
        case Placed():
            return "placed"
        case Cancelled():
            return "cancelled"
        case Shipped():
            return "shipped"
    return order


order = EventSourced("order", Decider(None, decide, evolve))
checkout = Saga(
    "checkout",
    Place,  # its data; its id is that of the order
    [
        # The undo of the first step is the last of all: when the order is cancelled nothing is left of it.
        Step(name="accept", to=order, action=lambda saga: Accept(), undo=lambda saga: Close()),
        Step(
            name="reserve",
            to=STOCK,
            aggregate_id=lambda saga: saga.data.item,
            action=lambda saga: Reserve(saga.id, saga.data.quantity),
            undo=lambda saga: Release(saga.id),
        ),
        Step(
            name="pay",
            to=PAYMENT,
            action=lambda saga: Charge(saga.data.cents, saga.data.card),
            undo=lambda saga: Refund(),
            success=[Captured],
            refusal=[PaymentRefused],
        ),
        Step(name="ship", to=PARCEL, action=lambda saga: Ship(saga.data.item, saga.data.address), pivot=True),
        Step(name="finish", to=order, action=lambda saga: Finish()),
    ],
)


@order.on(Placed)
def check_out(event: Placed, own: AggregateState[str | None]) -> Reactions:
    too_late = order.command(own.id, Cancel("it takes too long"))
    return [checkout.start(own.id, event.wish), deadline(timedelta(minutes=30), too_late)]


@order.on(CancelAsked)
def take_back(event: CancelAsked, own: AggregateState[str | None]) -> Reactions:
    return checkout.command(own.id, CancelSaga(event.reason))


topology = order.topology(checkout)
