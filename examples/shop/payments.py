"""Payments: one for each order."""

from shop_messages import Captured, Charge, PaymentRefused, Refund, Refunded

from hayase import StreamsBuilder
from hayase.patterns import Decider, EventSourced

REFUSED_CARDS = {"expired", "stolen"}


Event = Captured | PaymentRefused | Refunded


def decide(command: Charge | Refund, paid: int) -> list[Event]:
    match command:
        case Charge(cents, card):
            if card in REFUSED_CARDS:
                return [PaymentRefused(f"the card is {card}")]
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
topology = StreamsBuilder()
payment.add_to(topology)
