"""What the services of the shop say to each other: commands and events. Nothing else is shared."""

from dataclasses import dataclass

from hayase.patterns import CommandTarget


@dataclass
class Place:
    """To an order: buy something."""

    item: str
    quantity: int
    cents: int
    card: str
    address: str


@dataclass
class Cancel:
    """To an order: the customer does not want it any more, or it takes too long."""

    reason: str


@dataclass
class Accept:
    """To an order: its checkout begins."""


@dataclass
class Close:
    """To an order: its checkout has been taken back."""


@dataclass
class Finish:
    """To an order: it is on its way."""


@dataclass
class Restock:
    """To the stock of an item."""

    quantity: int


@dataclass
class Reserve:
    """To the stock of an item."""

    order: str
    quantity: int


@dataclass
class Release:
    """To the stock of an item: what is reserved for an order is free again."""

    order: str


@dataclass
class Take:
    """To the stock of an item: what is reserved for an order has left the house."""

    order: str


@dataclass
class Charge:
    """To the payment of an order."""

    cents: int
    card: str


@dataclass
class Refund:
    """To the payment of an order."""


@dataclass
class Captured:
    """The card was charged."""

    cents: int


@dataclass
class PaymentRefused:
    """The card was refused."""

    reason: str


@dataclass
class Refunded:
    """The customer has the money back."""

    cents: int


@dataclass
class Ship:
    """To the parcel of an order."""

    item: str
    address: str


STOCK = CommandTarget("stock", [Reserve, Release, Take, Restock])
PAYMENT = CommandTarget("payment", [Charge, Refund])
PARCEL = CommandTarget("parcel", [Ship])
