"""Where the input is cut into epochs changes nothing for aggregates that run in rows.

Windows of all kinds, cogroups.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from tests.budget import examples
from tests.unit.task.harness import Chunking, Given, run
from tests.unit.task.test_epoch_cuts import LENIENT, OFF, READ, TEXT, WRITE, assert_same, cuts, records

from hayase import (
    EmitStrategy,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    sum_,
)

pytestmark = pytest.mark.usefixtures("quiet")

WINDOWS: dict[str, Any] = {
    "hopping": TimeWindows.of_size_and_grace(timedelta(milliseconds=20), timedelta(milliseconds=5)).advance_by(
        timedelta(milliseconds=10)
    ),
    "sliding": SlidingWindows.of_time_difference_and_grace(timedelta(milliseconds=10), timedelta(milliseconds=15)),
    "session": SessionWindows.of_inactivity_gap_and_grace(timedelta(milliseconds=10), timedelta(milliseconds=15)),
}


def windowed(windows: Any, *, on_close: bool = False) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("a", READ).group_by_key().windowed_by(windows)
    if on_close:
        grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
    table = grouped.agg(Materialized.as_("w"), n=count(), total=sum_("n"))
    table.to_stream().to("out", Produced.with_(None, WRITE.value_serde))
    table.late_records().to("late", Produced.with_(None, Serdes.json()))
    return builder.build()


def cogrouped(windows: Any = None) -> Topology:
    builder = StreamsBuilder()
    one, other = (builder.stream(topic, READ).group_by_key() for topic in "ab")
    both = one.cogroup(lambda key, value, agg: [*agg, 1]).cogroup(other, lambda key, value, agg: [*agg, 2][-5:])
    table = both.aggregate(list, Materialized.as_("c").with_key_serde(TEXT)) if windows is None else None
    if table is None and isinstance(windows, SessionWindows):
        table = both.windowed_by(windows).aggregate(list, lambda key, left, right: left + right, Materialized.as_("c"))
    elif table is None:
        table = both.windowed_by(windows).aggregate(list, Materialized.as_("c"))
    table.to_stream().to("out", Produced.with_(None, WRITE.value_serde))
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    **{kind: lambda w=windows: windowed(w) for kind, windows in WINDOWS.items()},
    **{f"{kind} on close": lambda w=windows: windowed(w, on_close=True) for kind, windows in WINDOWS.items()},
    "cogroup": cogrouped,
    **{f"cogroup {kind}": lambda w=windows: cogrouped(w) for kind, windows in WINDOWS.items()},
}


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(15), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_with_caches_off_cuts_change_nothing(name: str, found: list[Given], at: list[int]) -> None:
    topology = TOPOLOGIES[name]()
    whole = run(topology, found, processing_form="rows", **OFF)
    assert_same(run(topology, found, at, processing_form="rows", **OFF), whole)


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(10), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_with_caches_on_cuts_change_no_store_and_no_last_value(name: str, found: list[Given], at: list[int]) -> None:
    topology = TOPOLOGIES[name]()
    whole = run(topology, found, processing_form="rows", **OFF)
    cut = run(topology, found, at, processing_form="rows", **LENIENT)
    assert cut.stores == whole.stores
    last = [{k: v for k, v in each.last("out").items() if v is not None} for each in (cut, whole)]
    assert last[0] == last[1]


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=examples(5), deadline=None, print_blob=True)
@given(found=records, at=cuts)
def test_an_epoch_too_large_for_memory_changes_nothing(name: str, found: list[Given], at: list[int]) -> None:
    topology = TOPOLOGIES[name]()
    for caching in (LENIENT, OFF):
        whole = run(topology, found, at, processing_form="rows", **caching)
        assert_same(run(topology, found, at, chunk=Chunking(), processing_form="rows", **caching), whole)
