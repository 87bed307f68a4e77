"""Joins of two streams on Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.spark.place import Place
from tests.spark.topologies import TEXT

from hayase import Consumed, JoinWindows, Produced, StreamsBuilder, Topology

pytestmark = pytest.mark.timeout(600)

READ, WRITTEN = Consumed.with_(TEXT, TEXT), Produced.with_(TEXT, TEXT)
WINDOWS = JoinWindows.of_time_difference_and_grace(timedelta(milliseconds=10), timedelta(milliseconds=5))


def pairs() -> Topology:
    """Left records keep their key, right ones get theirs from the value, so that they cross a shuffle."""
    builder = StreamsBuilder()
    rights = builder.stream("rights", READ).select_key(lambda key, value: value[0])
    lefts = builder.stream("lefts", READ)
    lefts.outer_join(rights, lambda left, right: f"{left}+{right}", WINDOWS).to("out", WRITTEN)
    return builder.build()


def test_what_waits_for_a_partner_in_one_run_meets_it_or_comes_out_alone_in_the_next(place: Place) -> None:
    for topic in ("lefts", "rights", "out"):
        place.topic(topic)
    keys = "abcdefgh"
    place.put("lefts", [(key, f"{key}-left".encode(), 100) for key in keys])
    place.run(pairs())
    assert place.rows("out") == []
    place.put("rights", [(None, f"{key}-right".encode(), 105) for key in keys[:5]])
    place.run(pairs())
    met = {(key, f"{key}-left+{key}-right".encode(), 105) for key in keys[:5]}
    assert {(row.key, row.value, row.timestamp_ms) for row in place.rows("out")} == met
    place.put("rights", [(None, f"{key}-late".encode(), 1_000) for key in keys])  # in each task time moves on
    place.run(pairs())
    alone = {(key, f"{key}-left+None".encode(), 100) for key in keys[5:]}
    assert {(row.key, row.value, row.timestamp_ms) for row in place.rows("out")} == met | alone
