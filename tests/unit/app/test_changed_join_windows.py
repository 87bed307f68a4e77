"""A program that joins two streams goes on with the records that are kept when its windows are others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.spark.place import Place, until
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

import hayase
from hayase import Consumed, JoinWindows, Produced, Serdes, StreamJoined, StreamsBuilder, Topology
from hayase.runtime.driver import shared_query

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]

TEXT, NUMBERS = Serdes.string(), Serdes.json(schema={"n": pl.Int64})
PAIRS = Serdes.json(schema={"left": pl.Int64, "right": pl.Int64})
AT_ONCE: dict[str, object] = {"commit.interval.ms": 0}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with embedded_place(tmp_path, "left", "right", "pairs") as made:
        yield made


def joined(seconds: int, *, columns: bool) -> Topology:
    """Left joined with right, up to so many seconds apart."""
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, Consumed.with_(TEXT, NUMBERS)) for topic in ("left", "right"))
    windows = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=seconds))
    kept = StreamJoined.with_(TEXT, NUMBERS, NUMBERS).with_name("pairs").with_store_name("pairs")
    if columns:
        pairs = left.left_join(right, {"left": hayase.left("n"), "right": hayase.right("n")}, windows, kept)
    else:
        pairs = left.left_join(right, _pair, windows, kept)
    pairs.to("pairs", Produced.with_(TEXT, PAIRS))
    return builder.build()


def _pair(left: dict[str, int], right: dict[str, int] | None) -> dict[str, int | None]:
    return {"left": left["n"], "right": None if right is None else right["n"]}


def pairs(place: Place) -> set[tuple[int, int | None]]:
    return {(value["left"], value["right"]) for _, value, _ in place.rows("pairs")}


@pytest.mark.parametrize("columns", [False, True])
def test_records_that_are_kept_are_joined_by_the_new_windows(place: Place, columns: bool) -> None:
    with runtime_in(place) as runtime:
        runtime.add_topology("joining", joined(10, columns=columns), AT_ONCE)
        runtime.start()
        place.put("left", [("k", {"n": 1}, 100_000), ("k", {"n": 2}, 109_000)])
        place.put("right", [("k", {"n": 3}, 108_000)])
        until(lambda: pairs(place) == {(1, 3), (2, 3)})
        runtime.replace_topology("joining", joined(60, columns=columns), AT_ONCE)
        place.put("right", [("k", {"n": 4}, 155_000)])
        until(lambda: pairs(place) == {(1, 3), (2, 3), (1, 4), (2, 4)})
        runtime.replace_topology("joining", joined(5, columns=columns), AT_ONCE)
        place.put("left", [("k", {"n": 5}, 149_000), ("k", {"n": 6}, 156_000)])
        place.put("left", [("k", {"n": 7}, 300_000)])
        until(lambda: pairs(place) == {(1, 3), (2, 3), (1, 4), (2, 4), (5, None), (6, 4)})
