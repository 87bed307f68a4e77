"""Topologies of a shared runtime that are added, replaced, paused and removed: how long each change takes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import polars as pl

from bench.fed_topics import OUTPUT_S, FedTopics, source, target, totals_of
from bench.machine import Machine
from bench.measure import wait_until
from bench.ours.application import orders
from bench.shared_runtime import SharedRuntime, totals
from hayase import Produced, Serdes, StreamsBuilder, Topology, count, sum_

CHANGES = 5
"""Each change is measured so often."""
_RATE = 10.0
_SETTINGS: dict[str, object] = {"commit.interval.ms": 100}
_SILENCE_S = 2.0


def measure_changes(machine: Machine, runtime: SharedRuntime) -> dict[str, list[float]]:
    """Seconds that each change took, each time.

    Raises:
        RunError: a result is wrong.
    """
    taken_s: dict[str, list[float]] = defaultdict(list)
    for number in range(CHANGES):
        name = f"changed{number}"
        topics = FedTopics(machine, [name])
        first, second = totals(source(name), target(name)), _negative_totals(source(name), target(name))
        with topics.feeding([name], _RATE):
            add = partial(runtime.add, name, first, _SETTINGS)
            taken_s["add to first output"].append(_until_output(topics, add, lambda total: total > 0))
            change = partial(runtime.replace, name, second)
            taken_s["replace to first output"].append(_until_output(topics, change, lambda total: total < 0))
        topics.check()
        with topics.feeding([name], _RATE):
            taken_s["pause"].append(_until_silence(topics, partial(runtime.pause, name)))
        runtime.resume(name)
        topics.check()
        with topics.feeding([name], _RATE):
            taken_s["remove"].append(_until_silence(topics, partial(runtime.remove, name)))
    return taken_s


def _negative_totals(source: str, target: str) -> Topology:
    """As `totals`, with the same state; its outputs show that it is another program."""
    builder = StreamsBuilder()
    counted = builder.stream(source, orders()).group_by_key().agg(n=count(), total=sum_("amount"))
    negative = counted.to_stream().map_values({"n": pl.col("n"), "total": -pl.col("total")})
    negative.to(target, Produced.with_(Serdes.string(), Serdes.json()))
    return builder.build()


def _until_output(topics: FedTopics, change: Callable[[], None], is_new: Callable[[int], bool]) -> float:
    """Seconds from a request to its answer and the first output that is new, whichever comes later."""
    began = time.monotonic()
    change()
    wait_until(lambda: any(is_new(totals_of(message).total) for message in topics.look()), "it has an output", OUTPUT_S)
    return time.monotonic() - began


def _until_silence(topics: FedTopics, change: Callable[[], None]) -> float:
    """Seconds from a request to its answer and the last output, whichever comes later."""
    time.sleep(1.0)
    topics.look()
    began = time.monotonic()
    change()
    last_s = time.monotonic()
    while time.monotonic() - last_s < _SILENCE_S:
        if topics.look():
            last_s = time.monotonic()
    return last_s - began
