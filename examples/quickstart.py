"""Counts purchases and adds up what was spent, per customer.

hayase topics create purchases --partitions 2
hayase topics create spending --partitions 2
echo 'ada:{"item": "book", "cents": 1250}' | hayase topics produce purchases
hayase run examples/quickstart.py --to-end
hayase topics consume spending --from-beginning --stop-at-end
"""

import polars as pl

from hayase import Consumed, Materialized, Produced, Serdes, StreamsBuilder, count, sum_
from hayase.testing import TopologyTestDriver

builder = StreamsBuilder()
purchases = builder.stream(
    "purchases", Consumed.with_(Serdes.string(), Serdes.json(schema={"item": pl.String, "cents": pl.Int64}))
)
spending = (
    purchases.filter(pl.col("cents") > 0)
    .group_by_key()
    .agg(Materialized.as_("spending"), purchases=count(), cents=sum_("cents"))
)
spending.to_stream().to("spending", Produced.with_(Serdes.string()))
topology = builder.build()

if __name__ == "__main__":  # try it in this process: no Spark, no topics on disk
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("purchases", Serdes.string(), Serdes.json())
        sink = driver.create_output_topic("spending", Serdes.string(), Serdes.json())
        source.pipe_input("ada", {"item": "book", "cents": 1250})
        source.pipe_input("ada", {"item": "pen", "cents": 300})
        for customer, total in sink.read_key_values_to_list():
            print(customer, total)
        print("in the store:", driver.store("spending").get("ada"))
