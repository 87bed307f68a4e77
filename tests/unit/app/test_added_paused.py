"""Topologies that are added to a shared runtime with what is wanted of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.app.query_in_process import QueryInProcess, embedded_place, runtime_in

from hayase import Consumed, Produced, Serdes, StreamsBuilder, StreamsRuntime, Topology
from hayase.app.membership import Member, Membership
from hayase.app.topology_set import Program, TopologySet
from hayase.runtime.driver import shared_query
from hayase.storage.posix_blobs import PosixBlobs

TEXT = Serdes.string()


def copy(sink: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to(sink, Produced.with_(TEXT, TEXT))
    return builder.build()


def runtime(folder: Path) -> StreamsRuntime:
    where = {"state.dir": str(folder / "state"), "log.dir": str(folder / "log")}
    return StreamsRuntime({"application.id": "shop", **where})


def remembering(folder: Path, *, paused: bool) -> Membership:
    """What an earlier run has left of a topology."""
    membership = Membership(PosixBlobs(folder))
    membership.publish({"a": Member("shop-a", membership.keep_program(copy("out"), {}), paused=paused)})
    return membership


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_topology_that_is_added_paused_begins_no_epoch_until_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_query, "SharedQuery", QueryInProcess)
    with embedded_place(tmp_path, "in", "quiet", "live") as place:
        place.put("in", [(f"k{i}", {"id": i}, i) for i in range(20)])
        with runtime_in(place) as running:
            running.start()
            quiet = running.add_topology("quiet", copy("quiet"), {"commit.interval.ms": 0}, paused=True)
            running.add_topology("live", copy("live"), {"commit.interval.ms": 0})
            _wait_for(lambda: len(place.rows("live")) == 20)
            assert quiet.progress().epochs == 0
            assert not place.rows("quiet")
            running.resume("quiet")
            _wait_for(lambda: len(place.rows("quiet")) == 20)


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("paused", [None, True, False])
def test_what_is_said_of_a_topology_that_is_added_counts_before_what_is_remembered(
    tmp_path: Path, paused: bool | None, remembered: bool
) -> None:
    config_of = runtime(tmp_path)._config_of
    before, behind = TopologySet("shop", config_of), TopologySet("shop", config_of)
    membership = remembering(tmp_path, paused=remembered)
    program = Program(copy("out"), {}, None)
    before.add("a", program, paused=paused)
    before.recall(membership, programs=True)
    behind.recall(membership, programs=False)
    behind.add("a", program, paused=paused)
    wanted = remembered if paused is None else paused
    for topologies in (before, behind):
        assert topologies.is_paused("a") is topologies.topology("a").is_paused is wanted


def test_a_topology_that_is_resumed_before_the_start_of_its_runtime_is_not_paused_by_what_is_remembered(
    tmp_path: Path,
) -> None:
    topologies = TopologySet("shop", runtime(tmp_path)._config_of)
    topologies.add("a", Program(copy("out"), {}, None))
    topologies.set_paused("a", False)
    topologies.recall(remembering(tmp_path, paused=True), programs=True)
    assert not topologies.topology("a").is_paused


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)
