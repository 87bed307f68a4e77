"""A saga for the tests: reserve and approve beside each other, pay (the pivot), ship."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hayase import Serdes, StreamsBuilder
from hayase.patterns import CommandTarget, Decider, EventSourced, Rejected, Retries, Saga, SagaState, Step
from hayase.patterns.command_reading import command_headers
from hayase.patterns.replies import Reply, decode_reply, encode_reply
from hayase.patterns.saga.rows import SagaRow
from hayase.testing import TopologyTestDriver


@dataclass(frozen=True)
class Checkout:
    item: str


@dataclass(frozen=True)
class Reserve:
    order: str


@dataclass(frozen=True)
class Release:
    order: str


@dataclass(frozen=True)
class Ask:
    """Accepted without an event."""


@dataclass(frozen=True)
class Reserved:
    order: str


@dataclass(frozen=True)
class Released:
    order: str


@dataclass
class Stock:
    left: int
    orders: list[str]


def decide(command: Reserve | Release | Ask, stock: Stock) -> list[Reserved | Released] | Rejected:
    if isinstance(command, Ask):
        return []
    if isinstance(command, Reserve):
        return [Reserved(command.order)] if stock.left else Rejected("sold out")
    return [Released(command.order)] if command.order in stock.orders else Rejected("nothing is reserved")


def evolve(stock: Stock, event: Reserved | Released) -> Stock:
    if isinstance(event, Reserved):
        return Stock(stock.left - 1, [*stock.orders, event.order])
    return Stock(stock.left + 1, [each for each in stock.orders if each != event.order])


STOCK = EventSourced("stock", Decider(Stock(1, []), decide, evolve))


@dataclass(frozen=True)
class Do:
    order: str


@dataclass(frozen=True)
class Undo:
    order: str


PAYMENTS, SHIPPING = CommandTarget("payments", [Do, Undo]), CommandTarget("shipping", [Do, Undo])
RETRIES = Retries(times=1, pause=timedelta(seconds=1))
TIMEOUT = timedelta(seconds=10)


def _reserve(saga: SagaState[Checkout]) -> Any:
    return STOCK.command(saga.data.item, Reserve(saga.id))


def _release(saga: SagaState[Checkout]) -> Any:
    return STOCK.command(saga.data.item, Release(saga.id))


RESERVE = Step(name="reserve", to=STOCK, action=_reserve, undo=_release, retries=RETRIES, timeout=TIMEOUT)
PAY = Step(
    name="pay", to=PAYMENTS, action=lambda saga: PAYMENTS.command(saga.id, Do(saga.id)),
    undo=lambda saga: PAYMENTS.command(saga.id, Undo(saga.id)), retries=RETRIES, timeout=TIMEOUT, pivot=True,
)  # fmt: skip
SHIP = Step(
    name="ship", to=SHIPPING, action=lambda saga: SHIPPING.command(saga.id, Do(saga.id)), retries=RETRIES,
    timeout=TIMEOUT,
)  # fmt: skip


def checkout(**options: Any) -> Saga[Checkout]:
    return Saga("checkout", Checkout, [RESERVE, PAY, SHIP], **options)


class Driven:
    """A saga and the stock in the test driver; payments and shipping are answered by hand."""

    def __init__(self, driver: TopologyTestDriver, saga: Saga[Checkout]) -> None:
        self.driver, self.saga = driver, saga
        raw = Serdes.bytes()
        self._commands = driver.create_input_topic("checkout-commands", raw, raw)
        self._replies = {
            name: driver.create_input_topic(f"{name}-replies", raw, raw) for name in ("payments", "shipping")
        }
        self._out = {
            name: driver.create_output_topic(f"{name}-commands", raw, raw) for name in ("payments", "shipping")
        }
        self._own_replies = driver.create_output_topic("checkout-replies", raw, raw)
        self._told = driver.create_output_topic("checkout-events", raw, raw)

    def send(self, saga_id: str, command: object, command_id: str, **more: str) -> None:
        made = self.saga.command(saga_id, command)
        headers = command_headers(made, command_id, "/tests", 0, {**more})
        self._commands.pipe_input(saga_id.encode(), made.data, 0, headers)

    def stock(self, item: str, command: Reserve | Release, command_id: str, **more: str) -> None:
        made = STOCK.command(item, command)
        headers = command_headers(made, command_id, "/tests", 0, {**more})
        raw = Serdes.bytes()
        self.driver.create_input_topic("stock-commands", raw, raw).pipe_input(item.encode(), made.data, 0, headers)

    def sent(self, to: str) -> list[str]:
        """The ids of the commands that came to payments or shipping."""
        return [dict(each.headers)["ce_id"].decode() for each in self._out[to].read_records_to_list()]  # type: ignore[union-attr]

    def reply(self, to: str, command_id: str, status: Any, reason: str = "", events: int = 0) -> None:
        reply = Reply(
            status=status, aggregate=to, aggregate_id="-", command_id=command_id, reason=reason, events=events
        )
        headers = (("ce_causationid", command_id.encode()), ("ce_type", b"Reply"), ("ce_id", command_id.encode()))
        self._replies[to].pipe_input(command_id.encode(), encode_reply(reply), 0, headers)

    def pass_time(self, seconds: float) -> None:
        self.driver.advance_wall_clock_time(timedelta(seconds=seconds))

    def row(self, saga_id: str = "17") -> SagaRow:
        row: SagaRow = self.driver.store("checkout-state").get(saga_id)
        return row

    def left(self, item: str = "book") -> int:
        left: int = self.driver.store("stock-state").get(item).state.left
        return left

    def request_digests(self) -> list[str]:
        """Those of the replies, by which a command source tells a repeat from another request with its id."""
        return [decode_reply(each).request_digest for each in self._own_replies.read_values_to_list()]

    def statuses(self) -> list[str]:
        return [each.decode().split('"status":"')[1].split('"')[0] for each in self._own_replies.read_values_to_list()]

    def told(self) -> list[str]:
        return [dict(each.headers)["ce_type"].decode() for each in self._told.read_records_to_list()]  # type: ignore[union-attr]


@contextmanager
def driven(saga: Saga[Checkout] | None = None) -> Iterator[Driven]:
    """The saga beside the stock, driven."""
    saga, builder = saga or checkout(), StreamsBuilder()
    STOCK.add_to(builder)
    saga.add_to(builder)
    with TopologyTestDriver(builder.build()) as driver:
        yield Driven(driver, saga)
