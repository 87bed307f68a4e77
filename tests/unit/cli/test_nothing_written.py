"""A run to the end that has read records and written none says where to look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from hayase import BufferConfig, Consumed, Produced, Serdes, State, StreamsBuilder, Suppressed, TimeWindows, Topology
from hayase.app.report import ProgressReport
from hayase.cli.nothing_written import nothing_written

TEXT = Serdes.string()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64}))


def topology_of(build: Callable[[StreamsBuilder, Any], Any], *, sink: bool = True) -> Topology:
    builder = StreamsBuilder()
    made = build(builder, builder.stream("in", READ))
    if sink:
        made.to("out", Produced.with_(TEXT, Serdes.json()))
    return builder.build()


def report(consumed: int, produced: int) -> ProgressReport:
    return ProgressReport(State.NOT_RUNNING, 1, 0, consumed, produced, 0, 0, 0, 0)


def windowed(builder: StreamsBuilder, stream: Any) -> Any:
    windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=5))
    table = stream.group_by_key().windowed_by(windows).count()
    return (
        table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        .to_stream()
        .select_key(lambda key, value: key.key)
    )


def joined(builder: StreamsBuilder, stream: Any) -> Any:
    return stream.join(builder.table("rows", READ), lambda left, right: left)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (windowed, "rows wait until their window closes"),
        (joined, "My join finds nothing"),
        (lambda _, stream: stream.filter(pl.col("n") > 5), "drop records"),
    ],
)
def test_the_reason_that_the_topology_makes_likely_is_named(build: Callable[..., Any], said: str) -> None:
    hint = nothing_written(topology_of(build), report(5, 0))
    assert hint is not None and said in hint


def test_there_is_nothing_to_say_where_nothing_is_amiss() -> None:
    topology = topology_of(joined)
    assert nothing_written(topology, report(5, 1)) is None
    assert nothing_written(topology, report(0, 0)) is None
    assert nothing_written(topology_of(joined, sink=False), report(5, 0)) is None
