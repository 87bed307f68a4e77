"""Programs that are described."""

from __future__ import annotations

from tests.unit.patterns.test_relations import Paid, Pay, Refused, Reserve, payments, reserving

from hayase import StreamsBuilder
from hayase.patterns import AggregateCommand, AggregateState, CommandTarget, Saga, Step

_stock, _order = CommandTarget("stock", [Reserve]), CommandTarget("order", [Pay])
orders, stock, chain = StreamsBuilder(), StreamsBuilder(), StreamsBuilder()
reserving(_stock).add_to(orders)
Saga(
    "checkout",
    Reserve,
    [
        Step(
            name="pay",
            to=_order,
            action=lambda saga: _order.command(saga.id, Pay(1)),
            undo=lambda saga: _order.command(saga.id, Pay(-1)),
            success=[Paid],
            refusal=[Refused],
        ),
        Step(name="keep", to=_stock, action=lambda saga: _stock.command("book", Reserve(saga.id))),
    ],
).add_to(orders)
payments("stock").add_to(stock)
_first, _second = payments("first"), payments("second")


@_first.on(Paid)
def pay_next(event: Paid, own: AggregateState[int]) -> AggregateCommand:
    return _second.command(own.id, Pay(event.cents))


_first.add_to(chain)
_second.add_to(chain)
