"""Payments: one for each order."""

from msgspec import Struct
from shop_messages import Captured, Charge, PaymentRefused, Refund

from hayase.patterns import Decider, EventSourced


class Refunded(Struct):
    cents: int


Event = Captured | PaymentRefused | Refunded


def decide(command: Charge | Refund, paid: int) -> list[Event]:
    match command:
        case Charge(_, "expired" | "stolen" as card):
            return [PaymentRefused(f"the card is {card}")]
        case Charge(cents):
            return [] if paid else [Captured(cents)]
        case Refund():
            return [Refunded(paid)] if paid else []


def evolve(paid: int, event: Event) -> int:
    match event:
        case Captured(cents):
            return cents
        case Refunded():
            return 0
    return paid


payment = EventSourced("payment", Decider(0, decide, evolve), refusals=[PaymentRefused])
topology = payment.topology()
