"""A topology of a shared runtime whose function takes long: it keeps one process busy, and its neighbours go on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.spark.place import Place
from tests.spark.test_faults_beside_neighbours import copying
from tests.spark.test_shared_runtime import OF_TOPOLOGIES, runtime_of, topics, wait
from tests.spark.topologies import amounts, expected, totals

from hayase import State, StreamsRuntime
from hayase.log.assignments import Assignments
from hayase.storage.open import open_blobs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SLOW_S = 10.0


def slow(order: dict[str, Any]) -> dict[str, Any]:
    time.sleep(SLOW_S)
    return order


def _goes_on(place: Place, runtime: StreamsRuntime, first: int, slow_rows: int) -> int:
    """The neighbour has the results of several epochs while the slow one is at one record."""
    for last in range(first + 10, first + 60, 10):
        place.put("in", amounts(last - 10, last))
        wait(lambda at=last: place.last("out") == expected(at), runtime)  # type: ignore[misc]
    assert len(place.rows("slow-out")) == slow_rows
    return last


def _ids_of_slow(place: Place) -> set[str]:
    """The transactional ids of the slow topology, without the prefix of the place."""
    blobs = open_blobs(str(place.folder / "state" / place.application_id / "checkpoint"), fsync=False)
    bundles = Assignments(blobs).newest().places[f"{place.application_id}-slow"]
    return {each.id.replace(place.prefix, "") for each in bundles.values()}


def _beside_a_slow_one(place: Place, prefix: str = "") -> None:
    topics(place, "in", "out", "slow-in", "slow-out")
    runtime = runtime_of(place, **{"num.stream.threads": 1, "epoch.span.max.ms": 3_000})
    runtime.add_topology("healthy", totals(f"{prefix}in", f"{prefix}out"), OF_TOPOLOGIES)
    runtime.add_topology("slow", copying(f"{prefix}slow-in", f"{prefix}slow-out", slow), OF_TOPOLOGIES)
    with runtime:
        runtime.start()
        place.put("in", amounts(0, 10))
        wait(lambda: place.last("out") == expected(10), runtime)
        last = 10
        for record in range(3):
            place.put("slow-in", amounts(record, record + 1))
            time.sleep(1.0)  # it is at it
            last = _goes_on(place, runtime, last, record)
            wait(lambda at=record: len(place.rows("slow-out")) == at + 1, runtime)  # type: ignore[misc]
        if prefix:
            assert _ids_of_slow(place) == {"app-@slot-0-app-slow"}
        assert [runtime.topology(name).errors for name in ("healthy", "slow")] == [[], []]
        assert {app.state for app in runtime.topologies.values()} == {State.RUNNING}
    rows = [row[1]["amount"] for row in place.rows("slow-out")]
    assert sorted(rows) == [0, 1, 2]


def test_a_topology_that_takes_long_for_a_record_does_not_hold_up_its_neighbours(place: Place) -> None:
    _beside_a_slow_one(place)


@pytest.mark.kafka
def test_a_topology_that_takes_long_for_a_record_does_not_hold_up_its_neighbours_on_kafka(kafka_place: Place) -> None:
    _beside_a_slow_one(kafka_place, kafka_place.prefix)
