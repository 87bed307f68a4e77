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

    One of the two is empty if only one side was run, or there is only one.

    Attributes:
        rival: whom the peer's runs are of.
    """

    scenario: Scenario
    guarantee: str
    ours: Sequence[Run]
    peer: Sequence[Run]
    rival: str = "Kafka Streams"

    @property
    def name(self) -> str:
        """Of the scenario, for reports."""
        return self.scenario.name if self.rival == "Kafka Streams" else f"{self.scenario.name} / {self.rival}"


_FIGURES: dict[str, Callable[[Run], float]] = {
    "throughput": lambda run: run.throughput,
    "cpu_s": lambda run: run.cpu_s,
    "steady_cpu_us_per_record": lambda run: run.cpu_us_per_record,
    "peak_pss_mb": lambda run: run.peak_pss_mb,
    "peak_anonymous_mb": lambda run: run.peak_anonymous_mb,
    "startup_s": lambda run: run.startup_s,
    "total_s": lambda run: run.total_s,
}


def json_line(measured: Measured, error: str | None = None) -> str:
    """One line with `scenario, ours, peer, ratio_throughput, ratio_cpu`, and `error` where the scenario failed.

    `ours` and `peer` have the guarantee, the number of runs, and median, min and max of every figure. A ratio
    above 1 is in our favour: throughput ours / peer, CPU seconds peer / ours; both per pair of runs. What was not
    measured is null.
    """
    line = {
        "scenario": measured.name,
        "ours": _side(measured.guarantee, measured.ours),
        "peer": _side(measured.guarantee, measured.peer),
        "ratio_throughput": _spread(throughput_ratios(measured)),
        "ratio_cpu": _spread(cpu_ratios(measured)),
    }
    if error is not None:
        line["error"] = error
    return json.dumps(line)


def throughput_ratios(measured: Measured) -> list[float]:
    """Steady throughput, ours / peer, of each pair in which both sides have a steady part."""
    return [ours.throughput / peer.throughput for ours, peer in _steady_pairs(measured)]


def cpu_ratios(measured: Measured) -> list[float]:
    """CPU seconds including start-up, peer / ours, of each pair: how many times less we need."""
    return [peer.cpu_s / ours.cpu_s for ours, peer in _pairs(measured)]


def steady_cpu_ratios(measured: Measured) -> list[float]:
    """CPU per record without start-up, peer / ours, of each pair in which both sides have a steady part."""
    return [peer.cpu_us_per_record / ours.cpu_us_per_record for ours, peer in _steady_pairs(measured)]


def show(measured: Measured, console: Console) -> None:
    """Print the figures of both sides and the ratios."""
    table = Table(title=f"{measured.name}, {measured.guarantee}: {measured.scenario.about}")
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
    for name, runs in (("Hayase", measured.ours), (measured.rival, measured.peer)):
        if runs:
            table.add_row(name, *(_cell([figure(run) for run in runs]) for figure in _FIGURES.values()))
    if measured.ours and measured.peer:
        ratios = (throughput_ratios(measured), cpu_ratios(measured), steady_cpu_ratios(measured))
        table.add_row(
            "ratio, above 1: Hayase is better", *(_cell(values) if values else "not steady" for values in ratios)
        )
    console.print(table)


def show_all(everything: Sequence[Measured], console: Console) -> None:
    """One line a scenario and guarantee.

    What exactly-once costs where both were measured; memory where it is bounded.
    """
    table = Table(title="All scenarios, medians")
    table.add_column("scenario")
    for heading in (
        "guarantee",
        "ours rec/s",
        "peer rec/s",
        "throughput",
        "must",
        "steady CPU",
        "CPU",
        "ours peak MB",
        "peer peak MB",
    ):
        table.add_column(heading, justify="right")
    for one in everything:
        table.add_row(one.name, one.guarantee, *_summary(one))
    console.print(table)
    for name, overheads in exactly_once_overheads(everything).items():
        console.print(f"{name}: exactly-once costs {overheads} of at-least-once", highlight=False)
    for one in everything:
        if one.ours and one.scenario.memory_max_mb is not None:
            peak_mb = max(run.peak_pss_mb for run in one.ours)
            bound = f"at most {one.scenario.memory_max_mb:,} MB"
            console.print(f"{one.name} {one.guarantee}: peak PSS {peak_mb:,.0f} MB ({bound})", highlight=False)


def exactly_once_overheads(everything: Sequence[Measured]) -> dict[str, str]:
    """By scenario: throughput lost and CPU gained under exactly-once, of each side, in words."""
    by_guarantee = {(one.scenario.name, one.guarantee): one for one in everything}
    found: dict[str, str] = {}
    for (name, guarantee), exactly_once in by_guarantee.items():
        at_least_once = by_guarantee.get((name, "at_least_once"))
        if guarantee != "exactly_once_v2" or at_least_once is None:
            continue
        sides = (("ours", exactly_once.ours, at_least_once.ours), ("peer", exactly_once.peer, at_least_once.peer))
        words = [
            f"{side} {1 - _median_of(_FIGURES['throughput'], once) / _median_of(_FIGURES['throughput'], least):+.1%} "
            f"throughput, {_median_of(_CPU, once) / _median_of(_CPU, least) - 1:+.1%} CPU"
            for side, once, least in sides
            if once and least
        ]
        if words:
            found[name] = "; ".join(words)
    return found


_CPU = _FIGURES["steady_cpu_us_per_record"]


def _summary(one: Measured) -> list[str]:
    ratios = (throughput_ratios(one), steady_cpu_ratios(one), cpu_ratios(one))
    throughput, steady_cpu, cpu = (f"{_cell(values)} x" if values else "" for values in ratios)
    must = "" if one.scenario.must is None or one.rival != "Kafka Streams" else f"{one.scenario.must:g} x"
    rates = [f"{_median_of(_FIGURES['throughput'], runs):,.0f}" if runs else "" for runs in (one.ours, one.peer)]
    peaks = [f"{max(run.peak_pss_mb for run in runs):,.0f}" if runs else "" for runs in (one.ours, one.peer)]
    return [*rates, throughput, must, steady_cpu, cpu, *peaks]


def _median_of(figure: Callable[[Run], float], runs: Sequence[Run]) -> float:
    return statistics.median(figure(run) for run in runs)


def _pairs(measured: Measured) -> list[tuple[Run, Run]]:
    if not (measured.ours and measured.peer):
        return []
    return list(zip(measured.ours, measured.peer, strict=True))


def _steady_pairs(measured: Measured) -> list[tuple[Run, Run]]:
    """A run without a steady part is measured from its start.

    Against a steady one that would be no ratio of anything.
    """
    return [(ours, peer) for ours, peer in _pairs(measured) if not (ours.whole or peer.whole)]


def _side(guarantee: str, runs: Sequence[Run]) -> dict[str, object] | None:
    if not runs:
        return None
    figures = {name: _spread([figure(run) for run in runs]) for name, figure in _FIGURES.items()}
    return {"guarantee": guarantee, "runs": len(runs), "steady": not any(run.whole for run in runs), **figures}


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
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
