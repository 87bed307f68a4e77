"""Values as a dataclass, with types that a type checker follows from topic to topic.

`python examples/typed.py` tries it in this process; `mypy --strict examples/typed.py` checks it.
"""

from dataclasses import dataclass
from datetime import timedelta

from hayase import (
    Consumed,
    Grouped,
    KStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    TimeWindows,
    Windowed,
)
from hayase.testing import TopologyTestDriver


@dataclass
class Order:
    """One order."""

    item: str
    cents: int
    coupon: str | None = None


text, number, order = Serdes.string(), Serdes.long(), Serdes.json(Order)

builder = StreamsBuilder()
orders: KStream[str, Order] = builder.stream("orders", Consumed.with_(text, order))
spent: KTable[str, int] = orders.group_by_key().aggregate(
    lambda: 0, lambda customer, order, cents: cents + order.cents, Materialized.as_("spent").with_value_serde(number)
)
per_minute: KTable[Windowed[str], int] = (
    orders.group_by(lambda customer, order: order.item, Grouped.with_(text))
    .windowed_by(TimeWindows.of_size_with_no_grace(timedelta(minutes=1)))
    .count()
)
per_minute.to_stream(lambda window, n: window.key).to("sold", Produced.with_(text, number))
topology = builder.build()

if __name__ == "__main__":
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("orders", text, order)
        source.pipe_input("ada", Order("book", 1250))
        source.pipe_input("bob", Order("book", 1250, coupon="SPRING"))
        print(driver.create_output_topic("sold", text, number).read_key_values_to_list())
        print("ada spent", driver.store("spent").get("ada").value)
