"""Customers of the shop: random orders for scarce goods, some with bad cards or no address, some cancelled."""

from collections.abc import Iterator
from random import Random

from shop_messages import Cancel, Place, Restock

ITEMS = ("book", "globe", "lamp", "pen")


def goods(orders: int) -> Iterator[tuple[str, Restock]]:
    """The stock at first: not enough of the first item, and plenty of the last."""
    for number, item in enumerate(ITEMS, 1):
        yield item, Restock(orders * number // 6 + 1)


def wishes(seed: int, orders: int) -> Iterator[tuple[str, Place | Cancel]]:
    """Orders, and cancellations a little later."""
    random = Random(seed)
    cancellations: list[str] = []
    for number in range(1, orders + 1):
        quantity = random.randint(1, 3)
        card = random.choices(["good", "expired", "stolen"], [8, 1, 1])[0]
        address = random.choices(["Main Street 1", ""], [9, 1])[0]
        yield str(number), Place(random.choice(ITEMS), quantity, random.randint(100, 9_000) * quantity, card, address)
        if random.random() < 0.15:
            cancellations.append(str(number))
        if cancellations and random.random() < 0.3:
            yield cancellations.pop(0), Cancel("changed my mind")
    yield from ((order, Cancel("changed my mind")) for order in cancellations)
