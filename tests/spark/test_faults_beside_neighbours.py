"""A topology of a shared runtime that is at fault ends, or waits, alone: its neighbours go on."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.small_disk import fill, mounted
from tests.spark.place import Place, until
from tests.spark.test_shared_runtime import OF_TOPOLOGIES, runtime_of, topics, wait
from tests.spark.topologies import JSON, TEXT, WRITTEN, amounts, expected, totals

from hayase import Consumed, State, StreamsBuilder, StreamsRuntime, Topology
from hayase.core.errors import HayaseError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BAD = 13


def copying(source: str, sink: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Topology:
    builder = StreamsBuilder()
    builder.stream(source, Consumed.with_(TEXT, JSON)).map_values(change).to(sink, WRITTEN)
    return builder.build()


def poisoned(order: dict[str, Any]) -> dict[str, Any]:
    if order["amount"] == BAD:
        raise ValueError("thirteen")
    return order


def hanging(order: dict[str, Any]) -> dict[str, Any]:
    if order["amount"] == BAD:
        time.sleep(600)
    return order


def locking(order: dict[str, Any]) -> dict[str, Any]:
    """Hangs in a call of C that keeps Python's lock, so that no other thread of the process runs."""
    if order["amount"] == BAD:
        ctypes.PyDLL(None).sleep(600)
    return order


def killing(order: dict[str, Any]) -> dict[str, Any]:
    if order["amount"] == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return order


def large(order: dict[str, Any]) -> dict[str, Any]:
    return {**order, "padding": "x" * 1_000} if order["amount"] == BAD else order


FAULTS = {
    "poisoned": (poisoned, "PROCESSING_FAILED", "thirteen"),
    "unwritable": (large, "RECORD_REFUSED", "out-unwritable"),
    "killing": (killing, "WORKER_DIED", "2 worker processes died"),
    "hanging": (hanging, "STEP_HUNG", "in hanging"),
    "locking": (locking, "STEP_HUNG", "in locking"),
}
"""Names of topologies that fail on one amount → what they do with it, and what their error says."""


def test_a_topology_that_is_at_fault_ends_alone(place: Place) -> None:
    topics(place, "in", "out", *(f"in-{name}" for name in FAULTS))
    runtime = runtime_of(place)
    runtime.add_topology("healthy", totals(), OF_TOPOLOGIES)
    for name, (change, _, _) in FAULTS.items():
        place.log.create_topic(f"out-{name}", 2, {"max.message.bytes": "500"})
        settings = {**OF_TOPOLOGIES, "max.poll.interval.ms": 4_000}
        runtime.add_topology(name, copying(f"in-{name}", f"out-{name}", change), settings)
    with runtime:
        runtime.start()
        for name in FAULTS:
            place.put(f"in-{name}", amounts(0, BAD))
        wait(lambda: all(len(place.rows(f"out-{name}")) == BAD for name in FAULTS), runtime)
        last = 0
        for name, (_, condition, said) in FAULTS.items():
            place.put(f"in-{name}", amounts(BAD, BAD + 1))
            last = _healthy_goes_on(place, runtime, last)
            until(lambda at=name: runtime.topology(at).state is State.ERROR, seconds=120)  # type: ignore[misc]
            error = runtime.topology(name).error
            assert isinstance(error, HayaseError)
            assert (error.condition, said in str(error)) == (condition, True), str(error)
            assert len(place.rows(f"out-{name}")) == BAD, "nothing of the epoch was written"
            last = _healthy_goes_on(place, runtime, last)
        assert runtime.topology("healthy").errors == []
        assert runtime.state is State.RUNNING


def _healthy_goes_on(place: Place, runtime: StreamsRuntime, last: int) -> int:
    place.put("in", amounts(last, last + 20))
    wait(lambda: place.last("out") == expected(last + 20), runtime)
    assert runtime.topology("healthy").state is State.RUNNING
    return last + 20


def test_a_topology_whose_disk_is_full_waits_alone_and_goes_on_when_there_is_room(place: Place, tmp_path: Path) -> None:
    topics(place, "in", "out", "in-full", "out-full")
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir(mode=0o700)
    with mounted(checkpoints / f"{place.application_id}-full", 24) as folder:
        folder.chmod(0o700)
        runtime = runtime_of(place, checkpoint_dir=str(checkpoints))
        runtime.add_topology("healthy", totals(), OF_TOPOLOGIES)
        runtime.add_topology("full", totals("in-full", "out-full"), OF_TOPOLOGIES)
        with runtime:
            runtime.start()
            place.put("in-full", amounts(0, 10))
            wait(lambda: place.last("out-full") == expected(10), runtime)
            filler = fill(folder)
            place.put("in-full", amounts(10, 50))
            until(lambda: runtime.topology("full").state is State.REBALANCING, seconds=120)
            last = _healthy_goes_on(place, runtime, 0)
            assert place.last("out-full") == expected(10)
            assert {failure.error.condition for failure in runtime.topology("full").errors} == {"DISK_FULL"}
            filler.unlink()
            wait(lambda: place.last("out-full") == expected(50), runtime)
            _healthy_goes_on(place, runtime, last)
            assert runtime.topology("healthy").errors == []
