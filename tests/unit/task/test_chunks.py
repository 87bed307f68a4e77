"""An epoch in chunks, with the rest of it on disk, has the same results as one that is in memory as a whole."""

from __future__ import annotations

import json
import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, Result, merged, run, run_partitions
from tests.unit.task.test_epoch_cuts import LENIENT, OFF, ONE_TASK, READ, WRITE, cuts, plain, records, rekeyed, spread

from hayase import Materialized, StreamsBuilder, Topology

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quiet")]

chunkings = st.builds(Chunking, st.integers(1, 4), st.sampled_from([1, 3_000]), st.booleans())


def old_values(**_: Any) -> Topology:
    """Tables behind tables: what one cache holds back, another one holds back again."""
    builder = StreamsBuilder()
    table = builder.table("a", READ, Materialized.as_("t"))
    big = table.filter(pl.col("n") > 1, Materialized.as_("big"))
    big.map_values({"m": pl.col("n") * 2}, Materialized.as_("double")).to_stream().to("double", WRITE)
    big.to_stream().to("big", WRITE)
    return builder.build()


TOPOLOGIES = {**ONE_TASK, "tables": old_values}


def assert_same(one: Result, other: Result) -> None:
    """Dead letters are written when a batch is decoded, so their order depends on the batches."""
    assert {t: plain(sent) for t, sent in one.sent.items() if t != "dead"} == {
        t: plain(sent) for t, sent in other.sent.items() if t != "dead"
    }
    assert sorted(map(str, plain(one.sent.get("dead", [])))) == sorted(map(str, plain(other.sent.get("dead", []))))
    assert one.stores == other.stores
    assert one.metrics.rows() == other.metrics.rows()


@pytest.mark.parametrize("caching", [OFF, LENIENT], ids=["uncached", "cached"])
@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(25), deadline=None, print_blob=True)
@given(found=records, at=cuts, chunk=chunkings)
def test_chunks_change_nothing(
    name: str, form: str, caching: dict[str, Any], found: list[Given], at: list[int], chunk: Chunking
) -> None:
    topology = TOPOLOGIES[name]()
    whole = run(topology, found, at[:2], processing_form=form, **caching)
    assert_same(run(topology, found, at[:2], processing_form=form, chunk=chunk, **caching), whole)


@pytest.mark.parametrize("form", ["rows", "columns"])
@settings(max_examples=examples(25), deadline=None, print_blob=True)
@given(found=records, at=cuts, chunk=chunkings)
def test_chunks_change_nothing_on_both_sides_of_a_shuffle(
    form: str, found: list[Given], at: list[int], chunk: Chunking
) -> None:
    found = spread([record for record in found if record.topic == "a"], 3)
    whole = run_partitions(rekeyed(), {"a": 3}, found, at[:2], processing_form=form, **LENIENT)
    cut = run_partitions(rekeyed(), {"a": 3}, found, at[:2], processing_form=form, chunk=chunk, **LENIENT)
    assert_same(cut, whole)


@pytest.mark.parametrize("caching", [OFF, LENIENT], ids=["uncached", "cached"])
@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_chunks_of_long_epochs_change_nothing(name: str, form: str, caching: dict[str, Any], seed: int) -> None:
    """Rows are updated, removed and made again in many chunks, with and without headers."""
    rng = random.Random(seed)
    found = merged([some_record(rng, at) for at in range(300)])
    topology = TOPOLOGIES[name]()
    more = {**caching, "prefix": seed == 0}
    whole = run(topology, found, [200], processing_form=form, **more)
    chunk = Chunking(rng.choice([1, 7, 40]), rng.choice([1, 20_000]), rng.random() < 0.7)
    assert_same(run(topology, found, [200], processing_form=form, chunk=chunk, **more), whole)


def some_record(rng: random.Random, at: int) -> Given:
    row = {"n": rng.randrange(-3, 9), "x": rng.random(), "s": rng.choice("pqr")}
    value = None if rng.random() < 0.2 else json.dumps(row).encode()
    key = None if rng.random() < 0.05 else f"k{rng.randrange(12)}".encode()
    headers = (("h", str(at).encode()),) if 100 < at < 160 else ()
    return Given(rng.choice("ab"), 0, key, value, max(0, at + rng.randrange(-20, 20)), headers)
