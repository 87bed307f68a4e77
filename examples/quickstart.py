"""Counts purchases and adds up what was spent, per customer.

hayase topics create purchases --partitions 2
hayase topics create spending --partitions 2
echo 'ada:{"item": "book", "cents": 1250}' | hayase topics produce purchases
hayase run examples/quickstart.py --to-end
hayase topics consume spending --from-beginning --stop-at-end
"""

import polars as pl

from hayase import Consumed, Materialized, Serdes, StreamsBuilder, count, sum_
from hayase.testing import TopologyTestDriver

purchase = Serdes.json(schema={"item": pl.String, "cents": pl.Int64})
builder = StreamsBuilder()
spending = (
    builder.stream("purchases", Consumed.with_(Serdes.string(), purchase))
    .filter(pl.col("cents") > 0)
    .group_by_key()
    .agg(Materialized.as_("spending"), purchases=count(), cents=sum_("cents"))
)
spending.to_stream().to("spending")
topology = builder.build()

if __name__ == "__main__":  # in this process, without Spark; `hayase run` takes the topology to Spark
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("purchases", Serdes.string(), purchase)
        source.pipe_input("ada", {"item": "book", "cents": 1250})
        source.pipe_input("ada", {"item": "pen", "cents": 300})
        sink = driver.create_output_topic("spending", Serdes.string(), Serdes.json())
        for customer, total in sink.read_key_values_to_list():
            print(customer, total)
        print("in the store:", driver.store("spending").get("ada"))
