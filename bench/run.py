"""One benchmark: a broker, the input, and both sides in turn."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench import sides
from bench.check import Result, difference, expected_result, produced_result
from bench.data import Orders, load, make_orders
from bench.measure import Run, RunError, measure
from bench.processes import become_subreaper
from bench.progress import Progress, create_topic, delete_topics
from bench.report import Measured
from bench.scenarios import Scenario
from hayase.core.java import JavaHome, find_java
from hayase.testing.kafka_broker import KafkaBroker

BROKER_HEAP_MB = 1024
INPUT_TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class Options:
    """What to run.

    Attributes:
        scenarios: in this order.
        guarantees: each scenario under each of them.
        sides: `ours`, `peer` or both.
        pairs: runs of each side.
        records: orders in the input topic.
        quiet_s: how long the output must stay unchanged to count as complete.
        timeout_s: limit of one run.
        seed: of the orders.
    """

    scenarios: Sequence[Scenario]
    guarantees: Sequence[str]
    sides: Sequence[str]
    pairs: int
    records: int
    quiet_s: float
    timeout_s: float
    seed: int


class Benchmark:
    """A running broker with the input loaded. Use as a context manager."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._folder = Path(tempfile.mkdtemp(prefix="hayase-bench-"))
        self._java: JavaHome = find_java()
        self._broker = KafkaBroker(self._folder / "kafka", heap_mb=BROKER_HEAP_MB, java=self._java)
        self._orders: Orders | None = None
        self._run_number = 0

    def __enter__(self) -> Benchmark:
        try:
            become_subreaper()
            if "peer" in self._options.sides:
                sides.build_peer()
            self._broker.start()
            self._console.print(f"Loading {self._options.records:,} orders (seed {self._options.seed}) …")
            self._orders = make_orders(self._options.records, seed=self._options.seed)
            create_topic(self._broker.bootstrap_servers, INPUT_TOPIC)
            load(self._orders, self._broker.bootstrap_servers, INPUT_TOPIC)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, scenario: Scenario, guarantee: str) -> Measured:
        """Run all pairs of one scenario, the sides in turn, each pair in the other order.

        Raises:
            RunError: a run failed or produced another result than the batch computation.
        """
        assert self._orders is not None
        expected = expected_result(scenario, self._orders)
        runs: dict[str, list[Run]] = {side: [] for side in sides.SIDES}
        for pair in range(self._options.pairs):
            order = self._options.sides if pair % 2 == 0 else list(reversed(self._options.sides))
            for side in order:
                run = self._run_once(side, scenario, guarantee, expected)
                runs[side].append(run)
                self._console.print(
                    f"{scenario.name} {guarantee} pair {pair + 1} {side}: "
                    f"{run.throughput:,.0f} rec/s steady, {run.cpu_s:.1f} CPU s, "
                    f"start-up {run.startup_s:.1f} s, total {run.total_s:.1f} s; the result is right"
                )
        return Measured(scenario, guarantee, runs["ours"], runs["peer"])

    def _run_once(self, side: str, scenario: Scenario, guarantee: str, expected: Result) -> Run:
        """One run of one side on fresh topics, group and state; its result is checked."""
        self._run_number += 1
        application_id = f"bench-{self._run_number}-{side}"
        output_topic = f"{application_id}-output"
        bootstrap = self._broker.bootstrap_servers
        state_dir = self._folder / application_id
        state_dir.mkdir()
        create_topic(bootstrap, output_topic)
        command = sides.command(
            side,
            scenario,
            self._java,
            bootstrap=bootstrap,
            input_topic=INPUT_TOPIC,
            output_topic=output_topic,
            application_id=application_id,
            guarantee=guarantee,
            state_dir=state_dir,
        )
        try:
            run = measure(
                command,
                Progress(bootstrap, application_id, INPUT_TOPIC, output_topic),
                self._folder / f"{application_id}.log",
                quiet_s=self._options.quiet_s,
                timeout_s=self._options.timeout_s,
                cwd=sides.ROOT,
            )
            different = difference(expected, produced_result(scenario, bootstrap, output_topic))
        finally:
            shutil.rmtree(state_dir, ignore_errors=True)
            delete_topics(bootstrap, application_id)
        if different is not None:
            raise RunError(f"{side} produced a wrong result in {scenario.name} ({guarantee}): {different}")
        return run
