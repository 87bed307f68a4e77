"""Functions with two forms: operators call the one for records in rows, the one for frames in columns."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Grouped, KStream, Materialized, Produced, Serdes, StreamsBuilder, Topology, count
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import CompileOptions
from hayase.core.metrics import ROW_BY_ROW
from hayase.serde.protocol import Schema
from hayase.testing import TopologyTestDriver
from hayase.topology.operators import ROW, VectorizedFunction, VectorizedResult

TEXT, LONG = Serdes.string(), Serdes.long()
IN = Consumed.with_(TEXT, LONG)
LONGS = Schema((("value", pl.Int64()),), bare=True)
TEXTS = Schema((("value", pl.String()),), bare=True)
TRUTHS = Schema((("value", pl.Boolean()),), bare=True)
INPUTS = [("a", 1), ("b", None), ("a", 5), (None, 7), ("b", 8)]

called: list[str] = []


def both(
    rows: Callable[..., Any], columns: Callable[..., pl.DataFrame], schema: Schema, **more: Any
) -> VectorizedFunction:
    """A function that notes which of its forms is called."""

    def by_row(*arguments: Any) -> Any:
        called.append("rows")
        return rows(*arguments)

    def by_frame(*frames: pl.DataFrame) -> VectorizedResult:
        called.append("columns")
        return VectorizedResult(columns(*frames), row_by_row=3)

    return VectorizedFunction(by_row, by_frame, schema, **more)


def expression(value: pl.Expr) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.select(value.alias("value"))


LARGE = both(lambda key, value: value is not None and value > 4, expression(pl.col("value") > 4), TRUTHS)
DOUBLED = both(lambda key, value: None if value is None else 2 * value, expression(pl.col("value") * 2), LONGS)
NAMED = both(
    lambda key, value: None if value is None else f"k{value}", expression(pl.format("k{}", pl.col("value"))), TEXTS
)
PAIRS = both(
    lambda key, value: (f"p{key}" if key else None, value),
    lambda frame: frame.select(pl.format("p{}", pl.col("__key")).alias("__key"), "value"),
    LONGS,
    key_schema=TEXTS,
)
TIMED = both(
    lambda key, value, timestamp_ms: timestamp_ms, lambda frame: frame.select(pl.col("__ts").alias("value")), LONGS,
    timed=True,
)  # fmt: skip
TWICE = both(
    lambda key, value: [] if value is None else [value, value + 1],
    lambda frame: (
        frame.select(pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW), pl.concat_list("value", pl.col("value") + 1))
        .filter(frame["value"].is_not_null())
        .explode("value")
    ),
    LONGS,
)
ADDED = both(
    lambda key, left, right: left + (right or 0),
    lambda left, right: pl.DataFrame({"value": left["value"] + right["value"].fill_null(0)}),
    LONGS,
)
BY_PARITY = both(
    lambda key, value: ("even" if value % 2 == 0 else "odd", value),
    lambda frame: frame.select(
        pl.when(pl.col("value") % 2 == 0).then(pl.lit("even")).otherwise(pl.lit("odd")).alias("__key"), "value"
    ),
    LONGS,
    key_schema=TEXTS,
)


def stream_topology(change: Callable[[KStream[Any, Any]], KStream[Any, Any]]) -> Topology:
    builder = StreamsBuilder()
    change(builder.stream("in", IN)).to("out", Produced.with_(TEXT, None))
    return builder.build()


def joined() -> Topology:
    builder = StreamsBuilder()
    table = builder.table("in", IN, Materialized.as_("rows"))
    builder.stream("other", IN).left_join(table, ADDED).to("out", Produced.with_(TEXT, LONG))
    return builder.build()


def of_table(change: Callable[[Any], Any]) -> Topology:
    builder = StreamsBuilder()
    change(builder.table("in", IN, Materialized.as_("rows"))).to_stream().to("out", Produced.with_(TEXT, LONG))
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    "filter": lambda: stream_topology(lambda stream: stream.filter(LARGE)),
    "filter_not": lambda: stream_topology(lambda stream: stream.filter_not(LARGE)),
    "map_values": lambda: stream_topology(lambda stream: stream.map_values(DOUBLED)),
    "timestamps": lambda: stream_topology(lambda stream: stream.map_values(TIMED)),
    "select_key": lambda: stream_topology(lambda stream: stream.select_key(NAMED)),
    "map": lambda: stream_topology(lambda stream: stream.map(PAIRS)),
    "flat_map_values": lambda: stream_topology(lambda stream: stream.flat_map_values(TWICE)),
    "join": joined,
    "filter of a table": lambda: of_table(lambda table: table.filter(LARGE)),
    "map_values of a table": lambda: of_table(lambda table: table.map_values(DOUBLED)),
    "group_by of a table": lambda: of_table(lambda table: table.group_by(BY_PARITY, Grouped.with_(TEXT, LONG)).count()),
}


def run(topology: Topology, form: str) -> tuple[list[tuple[Any, Any]], int]:
    """What the inputs become, and how many records were counted as computed row by row."""
    config = {"processing.form": form, "statestore.cache.max.bytes": 0}
    with TopologyTestDriver(topology, config) as driver:
        topics = [driver.create_input_topic("in", TEXT, LONG)]
        if any("other" in getattr(node, "topics", ()) for node in topology.nodes):
            topics.append(driver.create_input_topic("other", TEXT, LONG))
        for key, value in INPUTS:
            for topic in topics:
                topic.pipe_input(key, value, timestamp_ms=10)
        written = driver.create_output_topic("out", Serdes.bytes(), Serdes.bytes()).read_key_values_to_list()
        return written, driver.metrics.total(ROW_BY_ROW)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_each_form_calls_its_own_function_and_gives_the_same(name: str) -> None:
    called.clear()
    in_rows, _ = run(TOPOLOGIES[name](), "rows")
    assert set(called) == {"rows"}
    called.clear()
    in_columns, left = run(TOPOLOGIES[name](), "columns")
    assert set(called) == {"columns"}
    assert in_columns == in_rows
    assert in_rows
    assert left or name == "join"


def test_a_sub_topology_of_pure_functions_needs_no_delta() -> None:
    def pure(definition: str) -> tuple[bool, str]:
        function = VectorizedFunction(
            lambda key, value: value,
            lambda frame: VectorizedResult(frame.select("value")),
            LONGS,
            pure=bool(definition),
            definition=definition,
        )
        builder = StreamsBuilder()
        counted = builder.stream("in", IN).map_values(function).group_by(NAMED_PURELY, Grouped.with_(TEXT, LONG))
        counted.agg(n=count()).to_stream().to("out", Produced.with_(TEXT))
        first = next(iter(compile_subtopologies(builder.build(), CompileOptions()).values()))
        return first.pure, first.definition

    assert pure("")[0] is False
    assert pure("one")[0] is True
    assert pure("one")[1] != pure("other")[1]


NAMED_PURELY = VectorizedFunction(
    lambda key, value: f"k{value}",
    lambda frame: VectorizedResult(frame.select(pl.format("k{}", pl.col("value")).alias("value"))),
    TEXTS,
    pure=True,
    definition="name",
)


def test_only_the_fields_that_a_function_reads_become_columns() -> None:
    fields = {"a": pl.Int64, "b": pl.Int64, "c": pl.Int64}
    first = VectorizedFunction(
        lambda key, value: {"x": value["a"]},
        lambda frame: VectorizedResult(frame.select(pl.col("a").alias("x"))),
        Schema((("x", pl.Int64()),), python_type=dict),
        reads=frozenset({"a"}),
    )
    builder = StreamsBuilder()
    json = Serdes.json(schema=fields)
    builder.stream("in", Consumed.with_(TEXT, json)).map_values(first).to("out", Produced.with_(TEXT, Serdes.json()))
    (compiled,) = compile_subtopologies(builder.build(), CompileOptions()).values()
    assert compiled.sources[0].fields == {"a"}


def test_a_function_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(VectorizedFunction(len, len, LONGS, definition="length")))
    assert (copy.rows, copy.schema, copy.definition) == (len, LONGS, "length")
