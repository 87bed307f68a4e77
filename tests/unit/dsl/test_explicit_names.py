"""`ensure.explicit.internal.resource.naming`."""

from __future__ import annotations

import pytest

from hayase import Consumed, Grouped, Materialized, Serdes, StreamsBuilder, Topology, TopologyError
from hayase.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
STRICT = {"ensure.explicit.internal.resource.naming": True}


def counting(grouped: Grouped, *store: Materialized) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, LONG))
    stream.group_by(lambda key, value: key[:1], grouped).count(*store).to_stream().to("out")
    return builder.build()


def test_generated_names_of_stores_and_repartitions_are_refused_each_with_the_call_that_names_it() -> None:
    unnamed = counting(Grouped.with_(TEXT, LONG))
    with pytest.raises(TopologyError) as raised:
        TopologyTestDriver(unnamed, STRICT)
    assert raised.value.condition == "GENERATED_NAMES"
    for told in ("KSTREAM-AGGREGATE-STATE-STORE-0000000002", "-repartition", "Materialized.as_", "Grouped"):
        assert told in raised.value.message
    TopologyTestDriver(unnamed).close()


def test_named_ones_are_accepted() -> None:
    for name in ("counts", "since-1700000000"):  # a number of one's own is no counter
        topology = counting(Grouped.with_(TEXT, LONG, name="by-letter"), Materialized.as_(name).with_key_serde(TEXT))
        TopologyTestDriver(topology, STRICT).close()


def test_the_generated_name_of_a_source_table_s_store_is_refused() -> None:
    builder = StreamsBuilder()
    table = builder.table("users", Consumed.with_(TEXT, LONG))
    builder.stream("clicks", Consumed.with_(TEXT, LONG)).join(table, lambda a, b: a + b).to("out")
    with pytest.raises(TopologyError, match=r"users-STATE-STORE-\d{10}"):
        TopologyTestDriver(builder.build(), STRICT)
