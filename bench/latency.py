"""Latency at a steady rate: from a record's timestamp to its output in the hands of a `read_committed` reader."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from rich.console import Console
from rich.table import Table

from bench import sides
from bench.feed import Feeder, Outputs, endless_orders, percentiles
from bench.machine import Machine
from bench.measure import RunError, running
from bench.processes import ProcessGroup
from bench.scenarios import Scenario

_STARTUP_S = 300.0
_MEMORY_EVERY_S = 2.0
_STEPS = {"tasks": ("process", "delta", "apply"), "transaction": ("publish",)}


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        scenario: on Kafka, without a table beside the stream.
        sides: one after the other.
        guarantee: of both sides.
        rate: orders per second.
        seconds: of the measured part.
        warm_up_s: what comes before it, from the first output on.
        commit_interval_ms: of both sides.
        seed: of the orders.
    """

    scenario: Scenario
    sides: Sequence[str]
    guarantee: str
    rate: int
    seconds: float
    warm_up_s: float
    commit_interval_ms: int
    seed: int


@dataclass(frozen=True, slots=True)
class Latency:
    """What was measured of one side.

    Attributes:
        ms: from timestamp to sight, of each output record of the measured part.
        cpu_s: CPU seconds of all processes in the measured part.
        peak_pss_mb: highest sum of the processes' proportional memory.
        split_ms: parts of the time of an epoch, each epoch's; ours only.
    """

    ms: Sequence[float]
    cpu_s: float
    peak_pss_mb: float
    split_ms: Mapping[str, Sequence[float]]


def run(options: Options, console: Console) -> str:
    """Measure the sides in turn and show what came out, also as a JSON line.

    Raises:
        RunError: an application ended by itself, or sent nothing.
    """
    found: dict[str, Latency] = {}
    with Machine() as machine:
        for side in options.sides:
            sides.prepare(side)
            found[side] = _measure(machine, side, options)
    _show(options, found, console)
    return _json_line(options, found)


def _measure(machine: Machine, side: str, options: Options) -> Latency:
    application_id = f"latency-{side}"
    source = replace(options.scenario.input, name=f"{application_id}-orders")
    target = f"{application_id}-output"
    state_dir, timings = machine.folder / application_id, machine.folder / f"{application_id}.json"
    topics = machine.kafka
    state_dir.mkdir()
    for name in (source.name, target):
        topics.create(name, source.partitions)
    command = sides.command(
        side,
        replace(options.scenario, input=source),
        machine.java,
        log_arguments=topics.arguments,
        output_topic=target,
        application_id=application_id,
        guarantee=options.guarantee,
        state_dir=state_dir,
    )
    command += ["--commit-interval-ms", str(options.commit_interval_ms)]
    if side == "ours":
        command += ["--timings", str(timings)]
    records = ((source.name, key, value) for key, value in endless_orders(source.users, options.seed))
    outputs = Outputs(topics.bootstrap, [TopicPartition(target, number) for number in range(source.partitions)])
    try:
        with (
            running(command, machine.folder / f"{application_id}.log", sides.ROOT) as group,
            Feeder(topics.bootstrap, records, options.rate),
        ):
            ms, cpu_s = _watch(group, outputs, options)
    except RunError as failure:
        raise RunError(f"{side}: {failure}") from None
    finally:
        outputs.close()
        topics.delete(application_id)
        shutil.rmtree(state_dir, ignore_errors=True)
    return Latency(ms, cpu_s, group.peak_pss_mb, _split(timings, options))


def _watch(group: ProcessGroup, outputs: Outputs, options: Options) -> tuple[list[float], float]:
    """Latencies of the measured part and the CPU seconds in it."""
    began = time.monotonic()
    first: float | None = None
    measuring_cpu_s: float | None = None
    next_memory_s = began
    found: list[float] = []
    for messages in outputs:
        seen_ms, now = time.time_ns() / 1e6, time.monotonic()
        if first is None:
            if messages:
                first = now
            elif now - began > _STARTUP_S:
                raise RunError(f"no output within {_STARTUP_S:g} s")
        elif now - first >= options.warm_up_s + options.seconds:
            break
        elif now - first >= options.warm_up_s:
            if measuring_cpu_s is None:
                measuring_cpu_s = group.cpu_s()
            found.extend(seen_ms - message.timestamp()[1] for message in messages)
        if now >= next_memory_s:
            if group.root_has_ended():
                raise RunError("the application ended by itself")
            group.sample_memory()
            next_memory_s = now + _MEMORY_EVERY_S
    if not found or measuring_cpu_s is None:
        raise RunError("no output in the measured part")
    return found, group.cpu_s() - measuring_cpu_s


def _split(timings: Path, options: Options) -> dict[str, list[float]]:
    """The time of each epoch of the measured part: planning, tasks, transaction, the rest.

    The slowest bundle counts.
    """
    if not timings.exists():
        return {}
    epochs = [epoch for epoch in json.loads(timings.read_text()) if epoch["records"] < 10 * options.rate]
    epochs = epochs[len(epochs) // 3 :]  # without the warm-up
    parts: dict[str, list[float]] = {name: [] for name in ("epoch", "planning", *_STEPS, "rest")}
    for epoch in epochs:
        steps = {name: sum(epoch["bundle_ms"].get(step, 0.0) for step in known) for name, known in _STEPS.items()}
        steps["planning"] = epoch["spark_ms"].get("latestOffset", 0.0)
        steps["rest"] = max(0.0, epoch["total_ms"] - sum(steps.values()))
        for name, value in {"epoch": epoch["total_ms"], **steps}.items():
            parts[name].append(value)
    return parts


def _side(options: Options, latency: Latency | None) -> dict[str, Any] | None:
    if latency is None:
        return None
    return {
        "guarantee": options.guarantee,
        "latency_ms": percentiles(latency.ms),
        "outputs": len(latency.ms),
        "cpu_s": round(latency.cpu_s, 2),
        "peak_pss_mb": round(latency.peak_pss_mb, 1),
        "split_ms": {name: percentiles(values) for name, values in latency.split_ms.items() if values},
    }


def _json_line(options: Options, found: Mapping[str, Latency]) -> str:
    ours, peer = found.get("ours"), found.get("peer")
    ratio = None
    if ours is not None and peer is not None:
        value = round(peer.cpu_s / ours.cpu_s, 3)
        ratio = {"median": value, "min": value, "max": value}
    line = {
        "scenario": f"latency_{options.scenario.name}",
        "rate": options.rate,
        "commit_interval_ms": options.commit_interval_ms,
        "ours": _side(options, ours),
        "peer": _side(options, peer),
        "ratio_throughput": None,
        "ratio_cpu": ratio,
    }
    return json.dumps(line)


def _show(options: Options, found: Mapping[str, Latency], console: Console) -> None:
    table = Table(
        title=f"{options.scenario.name} at {options.rate:,} records/s, {options.guarantee}, commit interval "
        f"{options.commit_interval_ms} ms: ms from timestamp to committed output"
    )
    table.add_column("")
    for heading in ("p50", "p90", "p99", "max", "outputs", "CPU s", "peak PSS MB"):
        table.add_column(heading, justify="right")
    for side, name in (("ours", "Hayase"), ("peer", "Kafka Streams")):
        if (latency := found.get(side)) is not None:
            rest = (f"{len(latency.ms):,}", f"{latency.cpu_s:.1f}", f"{latency.peak_pss_mb:,.0f}")
            table.add_row(name, *_cells(latency.ms), *rest)
            for part, values in latency.split_ms.items():
                if values:
                    table.add_row(f"  {'one epoch' if part == 'epoch' else part}", *_cells(values))
    console.print(table)


def _cells(values: Sequence[float]) -> list[str]:
    return [f"{value:,.0f}" for value in percentiles(values).values()]
