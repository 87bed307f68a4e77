"""Sales per product and region in windows of 6 hours, from a stream of orders.

Reads the topics `orders` (keyed by user), `users` and `products`; writes `enriched-orders` and `sales`.
`hayase demo` runs it on generated input; on your own topics: `hayase run examples/ecommerce.py:topology`.
"""

from datetime import timedelta

import polars as pl

from hayase import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, count, left, right, sum_

text = Serdes.string()
order = {"id": pl.Int64, "product": pl.String, "quantity": pl.Int64, "amount": pl.Int64, "card": pl.String}
order_json = Serdes.json(schema={**order, "test": pl.Boolean})  # amounts are cents
user_json = Serdes.json(schema={"name": pl.String, "street": pl.String, "city": pl.String, "region": pl.String})
product_json = Serdes.json(schema={"name": pl.String})

builder = StreamsBuilder()
orders = builder.stream("orders", Consumed.with_(text, order_json))
users = builder.table("users", Consumed.with_(text, user_json))
products = builder.global_table("products", Consumed.with_(text, product_json))

# Test orders go no further, and of a card only the last four digits do.
masked_card = pl.lit("**** ") + pl.col("card").str.slice(-4)
masked = orders.filter_not(pl.col("test"), name="drop-test-orders").map_values(
    {**{field: pl.col(field) for field in order}, "card": masked_card}, name="mask-card"
)

# Each order gets the address its user has at that time, and the product's name if there is such a product.
kept = {field: left(field) for field in order}
address = pl.concat_str(right("street"), right("city"), separator=", ")
enriched = masked.join(users, {**kept, "address": address, "region": right("region")}, name="add-user").left_join(
    products,
    "product",
    {**kept, "product": right("name").fill_null("(unknown)"), "address": left("address"), "region": left("region")},
    name="add-product",
)
enriched.to("enriched-orders", Produced.with_(text))

sales = (
    enriched.group_by(["product", "region"])
    .windowed_by(TimeWindows.of_size_and_grace(timedelta(hours=6), timedelta(minutes=30)))
    .agg(
        Materialized.as_("sales").with_retention(timedelta(days=30)),
        orders=count(),
        quantity=sum_("quantity"),
        revenue=sum_("amount"),
    )
)
sales.to_stream().to("sales")

topology = builder.build()
