"""Topics between a topology and Spark DataFrames: how many partitions they have, and which serdes read them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, Topology, count
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.endpoints import written_serdes
from hayase.compiler.options import compile_options, configured
from hayase.compiler.partitions import partition_counts
from hayase.core.config import StreamsConfig
from hayase.serde.protocol import Serde

CONFIG = StreamsConfig({"application.id": "a"})
TEXT = Serdes.string()
FED, DRAINED = "a-clicks-from-spark", "a-archive-to-spark"


def no_frame(spark: Any) -> Any:
    raise AssertionError


def no_write(frame: Any, number: int) -> None:
    raise AssertionError


def fed(partitions: int | None = None, *, join: bool = False) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.from_spark("clicks", no_frame, Consumed.with_(TEXT, TEXT), partitions=partitions)
    if join:
        users = builder.table("users", Consumed.with_(TEXT, TEXT), Materialized.as_("users"))
        clicks = clicks.join(users, lambda click, user: f"{click}{user}")
    clicks.to_spark("archive", no_write)
    return configured(builder.build(), CONFIG)


@pytest.mark.parametrize(("given", "join", "wanted"), [(None, False, 1), (3, False, 3), (None, True, 5)])
def test_a_fed_topic_has_the_partitions_given_else_those_of_its_partner_else_one(
    given: int | None, join: bool, wanted: int
) -> None:
    counts = partition_counts(fed(given, join=join), {"users": 5} if join else {})
    assert counts == {FED: wanted, DRAINED: wanted}


def test_both_topics_are_the_applications_own_and_only_the_fed_one_is_read() -> None:
    topology = fed(3)
    assert source_topics(topology) == [FED]
    compiled = compile_subtopologies(topology, compile_options(CONFIG))
    plan = make_plan(topology, {FED: 3}, compiled, threads=1)
    assert json.loads(plan.to_json())["internal"] == {FED: 3, DRAINED: 3}
    assert plan.topics == {FED: 3}


def serdes_of(stream_to_spark: Any, value: Serde[Any] | None = None) -> tuple[Serde[Any], Serde[Any]]:
    builder = StreamsBuilder()
    schema = Serdes.json(schema={"n": pl.Int64})
    stream_to_spark(builder.stream("in", Consumed.with_(TEXT, value or schema)))
    topology = configured(builder.build(), CONFIG)
    return written_serdes(compile_subtopologies(topology, compile_options(CONFIG)), DRAINED)


def fields(serde: Serde[Any]) -> Any:
    return None if serde.columns is None else serde.columns.schema.fields


def test_what_expressions_make_is_read_by_its_schema_without_a_serde_being_named() -> None:
    key, value = serdes_of(lambda s: s.map_values({"m": pl.col("n") + 1}).to_spark("archive", no_write))
    assert fields(key) == (("value", pl.String()),)
    assert fields(value) == (("m", pl.Int64()),)


def test_json_without_a_schema_is_read_by_that_of_what_arrives() -> None:
    json_values = Produced.with_(TEXT, Serdes.json())
    _, value = serdes_of(lambda s: s.map_values({"m": pl.col("n") + 1}).to_spark("archive", no_write, json_values))
    assert fields(value) == (("m", pl.Int64()),)


def test_what_a_function_makes_without_saying_of_which_type_is_bytes() -> None:
    _, value = serdes_of(lambda s: s.map_values(lambda value: [value]).to_spark("archive", no_write))
    assert fields(value) == (("value", pl.Binary()),)


def test_windowed_keys_are_bytes() -> None:
    windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
    key, value = serdes_of(
        lambda s: s.group_by_key().windowed_by(windows).agg(n=count()).to_stream().to_spark("archive", no_write)
    )
    assert key.columns is None or fields(key) == (("value", pl.Binary()),)
    assert fields(value) == (("n", pl.Int64()),)
