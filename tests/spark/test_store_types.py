"""Stores in memory and stores without changelog on real Spark: restarts, and workers that die."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.spark.place import Place, store_rows

from hayase import Consumed, Materialized, Produced, Serdes, StoreType, StreamsBuilder, Topology, count, sum_
from hayase.core.errors import StateError

TEXT = Serdes.string()


def topology(**stores: Materialized) -> Topology:
    """Counts and sums per key, one sub-topology a store, into the topic `<store>-out`."""
    builder = StreamsBuilder()
    schema = Serdes.json(schema={"amount": pl.Int64})
    for name, options in stores.items():
        given = builder.stream(f"{name}-in", Consumed.with_(TEXT, schema))
        table = given.group_by_key().agg(options, n=count(), total=sum_("amount"))
        table.to_stream().to(f"{name}-out", Produced.with_(TEXT, Serdes.json()))
    return builder.build()


STORES = {
    "memory": Materialized.as_("memory").with_store_type(StoreType.IN_MEMORY),
    "lost": Materialized.as_("lost").with_store_type(StoreType.IN_MEMORY).with_logging_disabled(),
    "local": Materialized.as_("local").with_logging_disabled(),
}


def amounts(first: int, last: int) -> list[tuple[str, dict[str, int], int]]:
    return [(f"k{i % 5}", {"amount": i}, i) for i in range(first, last)]


def expected(first: int, last: int) -> dict[str, dict[str, int]]:
    found = {f"k{k}": [i for i in range(first, last) if i % 5 == k] for k in range(5)}
    return {key: {"n": len(given), "total": sum(given)} for key, given in found.items()}


def test_a_restart_restores_what_is_logged_and_what_is_in_memory_alone_begins_empty(
    place: Place, tmp_path: Path
) -> None:
    for name in STORES:
        place.topic(f"{name}-in"), place.topic(f"{name}-out")
    memory = {"state_memory_dir": str(tmp_path / "memory"), "max_records_per_epoch": 60}
    for first, last in ((0, 50), (50, 100)):
        for name in STORES:
            place.put(f"{name}-in", amounts(first, last))
        app = place.run(topology(**STORES), **memory)
        # Nothing of what was in memory takes room when the application has stopped.
        assert not list((tmp_path / "memory").rglob("*.mdb"))
    assert place.last("memory-out") == expected(0, 100)
    assert place.last("local-out") == expected(0, 100)
    assert place.last("lost-out") == expected(50, 100)
    assert store_rows(app, "local") == expected(0, 100)
    with pytest.raises(StateError, match="keeps these stores in memory"):
        app.store("memory").get("k0")
