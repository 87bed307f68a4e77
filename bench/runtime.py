"""A shared runtime of many topologies, measured from outside: cost while idle, latency, fairness, time of changes."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from rich.console import Console
from rich.table import Table

from bench import sides
from bench.check import difference, expected_result, produced_result
from bench.data import Orders, make_orders
from bench.fed_topics import FedTopics, source, target
from bench.feed import percentiles
from bench.kafka_topics import KafkaProgress
from bench.machine import Machine
from bench.measure import RunError, running
from bench.processes import ProcessGroup
from bench.runtime_changes import CHANGES, measure_changes
from bench.scenarios import SCENARIOS, Input
from bench.shared_runtime import SharedRuntime, shared_runtime, totals

ROWS = ("idle", "latency", "load", "lag", "changes")
_COMMIT = "commit.interval.ms"
_SETTLE_S = 10.0
_SEED = 42
_LOAD_WARM_UP_S = 20.0
"""The broker writes the first entry of a segment's index at 4 KiB. All outputs come to that in the same second, about
ten seconds after the start, and it takes a core for four seconds then, most of it in the kernel."""
_LAG_ROUNDS = 3
_LAG_NEIGHBOURS = 19
_LAG_POLL_S = 0.02
_LAG_S = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        rows: of `ROWS`.
        topologies: that run in one runtime.
        busy: those of them that are at work together, of `latency`.
        seconds: of each measured part.
        records: that the lagging topology is behind, of `lag`.
    """

    rows: Sequence[str]
    topologies: int
    busy: int
    seconds: float
    records: int


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, and what it must be.

    Attributes:
        row: of `ROWS`.
        must: the bound; `None`: there is none.
        at_least: the bound is the least value, else the largest one.
    """

    row: str
    name: str
    value: float
    must: float | None = None
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether it is within its bound."""
        if self.must is None:
            return True
        return self.value >= self.must if self.at_least else self.value <= self.must


@dataclass(slots=True)
class _Single:
    """One application, at the same input."""

    cpu_percent: float = 0.0
    broker_percent: float = 0.0
    pss_mb: float = 0.0
    ms: dict[float, Sequence[float]] = field(default_factory=dict)


def run(options: Options, console: Console) -> str:
    """Measure the rows and show what came out, also as a JSON line.

    Raises:
        RunError: an application ended by itself, sent nothing, or its result is wrong.
    """
    figures: list[Figure] = []
    with Machine() as machine:
        bench = _Bench(machine, options, figures)
        rows = set(options.rows)
        if rows & {"idle", "latency"}:
            bench.single()
        if rows & {"idle", "latency", "changes"}:
            bench.commits_often()
        if "load" in rows:
            bench.load()
        if "lag" in rows:
            bench.lag()
    _show(options, figures, console)
    return json.dumps({"benchmark": "runtime", **asdict(options), "figures": [asdict(each) for each in figures]})


class _Bench:
    """The rows, one after the other."""

    def __init__(self, machine: Machine, options: Options, figures: list[Figure]) -> None:
        self._machine = machine
        self._options = options
        self._figures = figures
        self._single = _Single()

    def single(self) -> None:
        """One application, by which `idle` and `latency` are judged."""
        options, single = self._options, self._single
        topics = FedTopics(self._machine, ["single"])
        with self._application("single") as group:
            topics.watch(group)
            topics.start()
            if "idle" in options.rows:
                single.cpu_percent, single.broker_percent = self._idle_percent(group, topics)
                single.pss_mb = group.sample_memory()
                self._add("idle", "one application: CPU, % of a core", single.cpu_percent)
                self._add("idle", "one application: broker, % of a core", single.broker_percent)
                self._add("idle", "one application: PSS, MB", single.pss_mb)
            if "latency" in options.rows:
                for rate in (10.0, 1.0):
                    single.ms[rate] = topics.latencies(["single"], rate, options.seconds)
                    self._add_latency("latency", f"one application, {rate:g} records/s", single.ms[rate])

    def commits_often(self) -> None:
        """`idle`, `latency` and `changes`: topologies with a commit interval of 100 ms."""
        options = self._options
        names = [f"often{number}" for number in range(options.topologies)]
        topics = FedTopics(self._machine, names)
        with shared_runtime(self._machine, "often") as runtime:
            topics.watch(runtime.group)
            runtime.add_all([(name, totals(source(name), target(name))) for name in names], {_COMMIT: 100})
            topics.start()
            if "idle" in options.rows:
                self._idle(runtime, topics)
            if "latency" in options.rows:
                self._latency(topics)
            if "changes" in options.rows:
                self._changes(runtime)

    def _idle(self, runtime: SharedRuntime, topics: FedTopics) -> None:
        cpu_percent, broker_percent = self._idle_percent(runtime.group, topics)
        many = f"{self._options.topologies} topologies"
        self._add("idle", f"{many}: CPU, % of a core", cpu_percent, must=12)
        self._add("idle", f"{many}: broker, % of a core", broker_percent, must=10)
        pss_mb = runtime.group.sample_memory()
        self._add("idle", f"{many}: PSS, MB", pss_mb, must=self._single.pss_mb + 300)

    def _latency(self, topics: FedTopics) -> None:
        options, single = self._options, self._single
        one = topics.latencies(topics.names[:1], 10.0, options.seconds)
        what = f"one at work of {options.topologies}, 10 records/s"
        self._add_latency("latency", what, one, self._bounds(single.ms[10.0], 1.4, 2.0))
        busy = topics.latencies(topics.names[: options.busy], float(options.busy), options.seconds)
        self._add_latency(
            "latency", f"{options.busy} with one record/s each", busy, self._bounds(single.ms[1.0], 2.0, 3.0)
        )

    def _changes(self, runtime: SharedRuntime) -> None:
        for what, seconds in measure_changes(self._machine, runtime).items():
            self._add("changes", f"{what}, median, s", statistics.median(seconds))
            must = 2.0 if what.startswith("add") else 1.0
            self._add("changes", f"{what}, slowest of {CHANGES}, s", max(seconds), must=must)

    def load(self) -> None:
        """All topologies at work, with a commit interval of one second."""
        options = self._options
        names = [f"load{number}" for number in range(options.topologies)]
        topics = FedTopics(self._machine, names)
        with shared_runtime(self._machine, "load") as runtime:
            topics.watch(runtime.group)
            runtime.add_all([(name, totals(source(name), target(name))) for name in names], {_COMMIT: 1000})
            topics.start()
            began, before_s = time.monotonic(), runtime.group.cpu_s()
            broker_s = self._machine.broker_cpu_s()
            ms = topics.latencies(names, 10.0 * len(names), options.seconds, warm_up_s=_LOAD_WARM_UP_S)
            wall_s = time.monotonic() - began
            what = f"{options.topologies} with 10 records/s each"
            self._add("load", f"{what}: cores", (runtime.group.cpu_s() - before_s) / wall_s, must=0.6)
            self._add("load", f"{what}: broker, cores", (self._machine.broker_cpu_s() - broker_s) / wall_s)
            self._add_latency("load", what, ms, {"p99": 2500.0})

    def lag(self) -> None:
        """One topology that lags, alone and beside others that have little to do."""
        options, kafka = self._options, self._machine.kafka
        backlog = Input("backlog", partitions=2)
        behind = make_orders(options.records, users=backlog.users, seed=_SEED)
        kafka.create(backlog.name, backlog.partitions)
        kafka.load(backlog.name, behind.records())
        names = [f"beside{number}" for number in range(_LAG_NEIGHBOURS)]
        topics = FedTopics(self._machine, names)
        with shared_runtime(self._machine, "lag") as runtime:
            lagging = _Lagging(self._machine, runtime, backlog, behind)
            alone = [lagging.throughput(f"alone{number}") for number in range(_LAG_ROUNDS)]
            runtime.add_all([(name, totals(source(name), target(name))) for name in names], {_COMMIT: 100})
            topics.watch(runtime.group)
            topics.start()
            with topics.feeding(names, len(names) / 10), topics.watching() as ms:
                beside = [lagging.throughput(f"among{number}") for number in range(_LAG_ROUNDS)]
            topics.check()
            self._add("lag", "alone, records/s", statistics.median(alone))
            self._add("lag", f"beside {_LAG_NEIGHBOURS}, records/s", statistics.median(beside))
            share = statistics.median(beside) / statistics.median(alone)
            self._add("lag", "share of alone", share, must=0.75, at_least=True)
            if not ms:
                raise RunError("no output of the others: give more records")
            self._add_latency("lag", f"the {_LAG_NEIGHBOURS} others", ms, {"p99": 1000.0})

    @contextmanager
    def _application(self, name: str) -> Iterator[ProcessGroup]:
        """A StreamsApp of its own, with the topology of the others."""
        state_dir = self._machine.folder / name
        state_dir.mkdir()
        command = sides.command(
            "ours",
            replace(SCENARIOS["count_by_key"], input=Input(source(name), partitions=1)),
            self._machine.java,
            log_arguments=self._machine.kafka.arguments,
            output_topic=target(name),
            application_id=name,
            guarantee="exactly_once_v2",
            state_dir=state_dir,
        )
        command += ["--commit-interval-ms", "100"]
        with running(command, self._machine.folder / f"{name}.log", sides.ROOT) as group:
            yield group

    def _idle_percent(self, group: ProcessGroup, topics: FedTopics) -> tuple[float, float]:
        """What a system and the broker take of a core while nothing comes, and the benchmark asks for nothing."""
        with topics.resting():
            time.sleep(_SETTLE_S)
            began, before_s, broker_s = time.monotonic(), group.cpu_s(), self._machine.broker_cpu_s()
            time.sleep(self._options.seconds)
            wall_s = time.monotonic() - began
            return (
                100 * (group.cpu_s() - before_s) / wall_s,
                100 * (self._machine.broker_cpu_s() - broker_s) / wall_s,
            )

    @staticmethod
    def _bounds(single: Sequence[float], p50: float, p99: float) -> dict[str, float]:
        known = percentiles(single)
        return {"p50": p50 * known["p50"], "p99": p99 * known["p99"]}

    def _add(self, row: str, name: str, value: float, *, must: float | None = None, at_least: bool = False) -> None:
        self._figures.append(Figure(row, name, value, must, at_least))

    def _add_latency(self, row: str, what: str, ms: Sequence[float], bounds: dict[str, float] | None = None) -> None:
        for name, value in percentiles(ms).items():
            self._add(row, f"{what}: {name}, ms", value, must=(bounds or {}).get(name))


@dataclass(slots=True)
class _Lagging:
    """Topologies that begin with a topic full of orders, one after the other."""

    machine: Machine
    runtime: SharedRuntime
    backlog: Input
    orders: Orders

    def throughput(self, name: str) -> float:
        """Records per second from the first output to the last one; the topology is gone on return.

        Raises:
            RunError: its result is wrong, or it is not through in time.
        """
        scenario = replace(SCENARIOS["count_by_key"], input=self.backlog)
        kafka, application_id = self.machine.kafka, f"lag-{name}"
        kafka.create(target(name), self.backlog.partitions)
        progress = kafka.progress(application_id, self.backlog.name, target(name))
        self.runtime.add(name, totals(self.backlog.name, target(name)), {"max.records.per.epoch": 500_000})
        first_s, first = self._reached(progress, 1)
        last_s, last = self._reached(progress, progress.input_end)
        different = difference(
            expected_result(scenario, self.orders), produced_result(scenario, kafka.read(target(name)))
        )
        if different is not None:
            raise RunError(f"{name} produced a wrong result: {different}")
        self.runtime.remove(name)
        return (last - first) / (last_s - first_s)

    def _reached(self, progress: KafkaProgress, records: int) -> tuple[float, int]:
        """When so many records were processed, and how many were by then."""
        deadline = time.monotonic() + _LAG_S
        while (processed := progress.processed()) < records:
            if time.monotonic() > deadline or self.runtime.group.root_has_ended():
                raise RunError(f"{processed} of {records} records were processed within {_LAG_S:g} s")
            time.sleep(_LAG_POLL_S)
        return time.monotonic(), processed


def _show(options: Options, figures: Sequence[Figure], console: Console) -> None:
    table = Table(title=f"A shared runtime of {options.topologies} topologies, exactly-once on Kafka")
    for heading in ("row", "figure", "value", "must be"):
        table.add_column(heading, justify="right" if heading in ("value", "must be") else "left")
    for figure in figures:
        bound = "" if figure.must is None else f"{'≥' if figure.at_least else '≤'} {_number(figure.must)}"
        style = None if figure.reached else "red"
        table.add_row(figure.row, figure.name, _number(figure.value), bound, style=style)
    console.print(table)


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
