"""The proof that nothing was lost, sold or paid twice: from the topics of events, and the databases, alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TOPICS = ("order-events", "stock-events", "payment-events", "parcel-events", "checkout-events")


class Fact(NamedTuple):
    """A record of a topic of events: of which aggregate or saga, its type and its fields."""

    topic: str
    key: str
    type: str
    fields: dict[str, Any]


@dataclass
class Story:
    """What the topics say about one order."""

    cents: int = 0
    quantity: int = 0
    saga: str = "not begun"
    seen: Counter[str] = field(default_factory=Counter)
    """How often each event came; for goods and money, how much."""

    @property
    def state(self) -> str:
        """How far it is."""
        for event, state in (("Cancelled", "cancelled"), ("Shipped", "shipped"), ("Dispatched", "dispatched")):
            if self.seen[event]:
                return state
        if self.saga == "undoing":
            return "taken back"
        return "paid" if self.seen["Captured"] else "reserved" if self.seen["Reserved"] else "placed"

    @property
    def settled(self) -> bool:
        """Whether nothing more is to come."""
        kept = self.seen["Reserved"] - self.seen["Released"] - self.seen["Sold"]
        return self.state in ("shipped", "cancelled") and self.saga in ("completed", "cancelled") and not kept

    def faults(self) -> list[str]:
        """What does not hold."""
        seen, faults = self.seen, []
        shipped = self.state == "shipped"
        if not self.settled or seen["Shipped"] + seen["Cancelled"] != 1:
            faults.append(f"it is {self.state}, its checkout is {self.saga}")
        if seen["Dispatched"] != (1 if shipped else 0):
            faults.append(f"{self.state}, with {seen['Dispatched']} parcels")
        if seen["Captured"] - seen["Refunded"] != (self.cents if shipped else 0):
            faults.append(f"{self.state}, paid {seen['Captured']} and back {seen['Refunded']} of {self.cents} cents")
        kept, sold = seen["Reserved"] - seen["Released"], seen["Sold"]
        if {kept, sold} != {self.quantity if shipped else 0}:
            faults.append(f"{self.state}, reserved {seen['Reserved']}, back {seen['Released']}, sold {seen['Sold']}")
        return faults


class Ledger:
    """All facts so far, by order and in sums."""

    def __init__(self) -> None:
        self.stories: defaultdict[str, Story] = defaultdict(Story)
        self.sums: Counter[str] = Counter()

    def add(self, facts: Iterable[Fact]) -> None:
        """Take more facts, in the order of each topic's partitions."""
        for fact in facts:
            if fact.topic == "checkout-events":
                self.stories[fact.key].saga = fact.fields["status"]
                continue
            amount = fact.fields.get("cents" if fact.topic == "payment-events" else "quantity", 1)
            amount = 1 if fact.topic in ("order-events", "parcel-events") else amount
            self.sums[fact.type] += amount
            if fact.type == "Restocked":
                continue
            story = self.stories[fact.fields["order"] if fact.topic == "stock-events" else fact.key]
            story.seen[fact.type] += amount
            if fact.type == "Placed":
                story.cents, story.quantity = fact.fields["wish"]["cents"], fact.fields["wish"]["quantity"]

    def states(self) -> Counter[str]:
        """How many orders there are, by state."""
        return Counter(story.state for story in self.stories.values())

    def settled(self, orders: int) -> bool:
        """Whether so many orders came, and nothing more is to come of any of them."""
        return self.sums["Placed"] == orders and all(story.settled for story in self.stories.values())

    def order_rows(self) -> set[tuple[object, ...]]:
        """What the read model `orders` has to be: id, quantity, cents and state of each order."""
        final = ("cancelled", "shipped")
        return {
            (key, story.quantity, story.cents, story.state if story.state in final else "placed")
            for key, story in self.stories.items()
        }

    def goods_rows(self) -> set[tuple[object, ...]]:
        """What the read model `goods` has to be: order, quantity, and whether they are sold."""
        return {
            (key, story.seen["Reserved"] - story.seen["Released"], bool(story.seen["Sold"]))
            for key, story in self.stories.items()
            if story.seen["Reserved"] > story.seen["Released"]
        }

    def payment_rows(self) -> set[tuple[object, ...]]:
        """What the database of the payment service has to hold: order and cents, of those that are paid."""
        paid = {key: story.seen["Captured"] - story.seen["Refunded"] for key, story in self.stories.items()}
        return {(key, cents) for key, cents in paid.items() if cents}

    def faults(self) -> list[str]:
        """What does not hold; nothing: the shop is proven right."""
        faults = [f"order {key}: {fault}" for key, story in self.stories.items() for fault in story.faults()]
        sums = self.sums
        left = sums["Restocked"] - sums["Reserved"] + sums["Released"]
        if sums["Sold"] + left != sums["Restocked"]:
            faults.append(f"of {sums['Restocked']} goods {sums['Sold']} are sold and {left} left")
        shipped = sum(story.cents for story in self.stories.values() if story.state == "shipped")
        if sums["Captured"] - sums["Refunded"] != shipped:
            faults.append(f"{sums['Captured']} cents came, {sums['Refunded']} went back, {shipped} were shipped for")
        return faults
