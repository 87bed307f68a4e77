"""What the services of the shop say to each other: commands and events. Nothing else is shared."""

from msgspec import Struct

from hayase.patterns import CommandTarget


class Reserve(Struct):
    order: str
    quantity: int


class Release(Struct):
    order: str


class Take(Struct):  # what is reserved has left the house
    order: str


class Charge(Struct):
    cents: int
    card: str


class Refund(Struct): ...


class Captured(Struct):
    cents: int


class PaymentRefused(Struct):
    reason: str


class Ship(Struct):
    item: str
    address: str


STOCK = CommandTarget("stock", [Reserve, Release, Take])
PAYMENT = CommandTarget("payment", [Charge, Refund])
PARCEL = CommandTarget("parcel", [Ship])
