"""Orders, and the checkout that takes each of them through the other services.

`hayase run examples/shop/orders.py` runs this service; the others run beside it. `hayase demo --shop` runs all of them.
"""

from dataclasses import dataclass
from datetime import timedelta

from shop_messages import (
    PARCEL,
    PAYMENT,
    STOCK,
    Accept,
    Cancel,
    Captured,
    Charge,
    Close,
    Finish,
    PaymentRefused,
    Place,
    Refund,
    Release,
    Reserve,
    Ship,
)

from hayase import StreamsBuilder
from hayase.patterns import (
    AggregateCommand,
    AggregateState,
    CancelSaga,
    Deadline,
    Decider,
    EventSourced,
    Rejected,
    Saga,
    Step,
    deadline,
)


@dataclass
class Placed:
    """The customer wants something."""

    wish: Place


@dataclass
class CancelAsked:
    """The customer does not want it any more, if that is still possible."""

    reason: str


@dataclass
class Cancelled:
    """Nothing of it is left."""


@dataclass
class Shipped:
    """It is paid and on its way."""


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
        Step(  # its undo is the last of all: when the order is cancelled nothing is left of it
            name="accept",
            to=order,
            action=lambda saga: order.command(saga.id, Accept()),
            undo=lambda saga: order.command(saga.id, Close()),
        ),
        Step(
            name="reserve",
            to=STOCK,
            action=lambda saga: STOCK.command(saga.data.item, Reserve(saga.id, saga.data.quantity)),
            undo=lambda saga: STOCK.command(saga.data.item, Release(saga.id)),
        ),
        Step(
            name="pay",
            to=PAYMENT,
            action=lambda saga: PAYMENT.command(saga.id, Charge(saga.data.cents, saga.data.card)),
            undo=lambda saga: PAYMENT.command(saga.id, Refund()),
            success=[Captured],
            refusal=[PaymentRefused],
        ),
        Step(
            name="ship",
            to=PARCEL,
            action=lambda saga: PARCEL.command(saga.id, Ship(saga.data.item, saga.data.address)),
            pivot=True,
        ),
        Step(name="finish", to=order, action=lambda saga: order.command(saga.id, Finish())),
    ],
)


@order.on(Placed)
def check_out(event: Placed, own: AggregateState[str | None]) -> list[AggregateCommand | Deadline]:
    too_late = order.command(own.id, Cancel("it takes too long"))
    return [checkout.start(own.id, event.wish), deadline(timedelta(minutes=30), too_late)]


@order.on(CancelAsked)
def take_back(event: CancelAsked, own: AggregateState[str | None]) -> AggregateCommand:
    return checkout.command(own.id, CancelSaga(event.reason))


topology = StreamsBuilder()
order.add_to(topology)
checkout.add_to(topology)
