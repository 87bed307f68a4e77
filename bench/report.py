"""Figures and ratios, as a table and as JSON lines."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.measure import Run
from bench.scenarios import Scenario


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one scenario under one guarantee. Run i of ours and run i of the peer are a pair.

    One of the two is empty if only one side was run.
    """

    scenario: Scenario
    guarantee: str
    ours: Sequence[Run]
    peer: Sequence[Run]


_FIGURES: dict[str, Callable[[Run], float]] = {
    "throughput": lambda run: run.throughput,
    "cpu_s": lambda run: run.cpu_s,
    "steady_cpu_us_per_record": lambda run: run.cpu_us_per_record,
    "peak_pss_mb": lambda run: run.peak_pss_mb,
    "peak_anonymous_mb": lambda run: run.peak_anonymous_mb,
    "startup_s": lambda run: run.startup_s,
    "total_s": lambda run: run.total_s,
}


def json_line(measured: Measured) -> str:
    """One line with `scenario, ours, peer, ratio_throughput, ratio_cpu`.

    `ours` and `peer` have the guarantee, the number of runs, and median, min and max of every figure. A ratio
    above 1 is in our favour: throughput ours / peer, CPU seconds peer / ours; both per pair of runs.
    """
    line = {
        "scenario": measured.scenario.name,
        "ours": _side(measured.guarantee, measured.ours),
        "peer": _side(measured.guarantee, measured.peer),
        "ratio_throughput": _spread(throughput_ratios(measured)),
        "ratio_cpu": _spread(cpu_ratios(measured)),
    }
    return json.dumps(line)


def throughput_ratios(measured: Measured) -> list[float]:
    """Steady throughput, ours / peer, of each pair."""
    return [ours.throughput / peer.throughput for ours, peer in zip(measured.ours, measured.peer, strict=True)]


def cpu_ratios(measured: Measured) -> list[float]:
    """CPU seconds including start-up, peer / ours, of each pair: how many times less we need."""
    return [peer.cpu_s / ours.cpu_s for ours, peer in zip(measured.ours, measured.peer, strict=True)]


def steady_cpu_ratios(measured: Measured) -> list[float]:
    """CPU per record without start-up, peer / ours, of each pair."""
    return [
        peer.cpu_us_per_record / ours.cpu_us_per_record for ours, peer in zip(measured.ours, measured.peer, strict=True)
    ]


def show(measured: Measured, console: Console) -> None:
    """Print the figures of both sides and the ratios."""
    table = Table(title=f"{measured.scenario.name}, {measured.guarantee}: {measured.scenario.about}")
    table.add_column("median (min to max)")
    for heading in (
        "steady rec/s",
        "CPU s",
        "steady CPU µs/rec",
        "peak PSS MB",
        "anonymous MB",
        "start-up s",
        "total s",
    ):
        table.add_column(heading, justify="right")
    for name, runs in (("Hayase", measured.ours), ("Kafka Streams", measured.peer)):
        if runs:
            table.add_row(name, *(_cell([figure(run) for run in runs]) for figure in _FIGURES.values()))
    if measured.ours and measured.peer:
        ratios = (throughput_ratios(measured), cpu_ratios(measured), steady_cpu_ratios(measured))
        table.add_row("ratio, above 1: Hayase is better", *(_cell(values) for values in ratios))
    console.print(table)


def _side(guarantee: str, runs: Sequence[Run]) -> dict[str, object]:
    figures = {name: _spread([figure(run) for run in runs]) for name, figure in _FIGURES.items()}
    return {"guarantee": guarantee, "runs": len(runs), **figures}


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def _cell(values: Sequence[float]) -> str:
    digits = ",.0f" if max(values) >= 1_000 else ",.1f" if max(values) >= 10 else ",.2f"
    if len(values) == 1:
        return f"{values[0]:{digits}}"
    return f"{statistics.median(values):{digits}} ({min(values):{digits}} to {max(values):{digits}})"
