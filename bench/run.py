"""One benchmark: the logs, the input, and both sides in turn."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from bench import sides
from bench.avro import avro_records
from bench.check import Result, difference, expected_result, produced_result
from bench.data import PRODUCTS, make_orders, make_products, make_users
from bench.machine import Machine
from bench.measure import Run, RunError, measure
from bench.report import Measured
from bench.scenarios import Input, Scenario
from bench.topics import Topics


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
        seed: of the input.
    """

    scenarios: Sequence[Scenario]
    guarantees: Sequence[str]
    sides: Sequence[str]
    pairs: int
    records: int
    quiet_s: float
    timeout_s: float
    seed: int

    def sides_of(self, scenario: Scenario) -> Sequence[str]:
        """The systems that run the scenario: only ours has an embedded log."""
        return [side for side in self.sides if side == "ours" or scenario.log == "kafka"]


class FailedError(RuntimeError):
    """A run failed or its result was wrong; carries what was measured before.

    Attributes:
        measured: the complete pairs.
    """

    def __init__(self, message: str, measured: Measured) -> None:
        super().__init__(message)
        self.measured = measured


class Benchmark:
    """Runs scenarios one after the other. Use as a context manager."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._machine = Machine()
        self._loaded: dict[str, Input] = {}
        self._expected: tuple[str, Result] | None = None
        self._run_number = 0

    def __enter__(self) -> Benchmark:
        self._machine.__enter__()
        try:
            if any("peer" in self._options.sides_of(scenario) for scenario in self._options.scenarios):
                sides.prepare("peer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._machine.__exit__()

    def run(self, scenario: Scenario, guarantee: str) -> Measured:
        """Run all pairs of one scenario, the sides in turn, each pair in the other order.

        Raises:
            FailedError: a run failed or produced another result than the batch computation.
        """
        runs: dict[str, list[Run]] = {side: [] for side in sides.SIDES}
        order = list(self._options.sides_of(scenario))
        try:
            if not order:
                raise RunError(f"{scenario.name} has no such side")
            for pair in range(self._options.pairs):
                for side in order if pair % 2 == 0 else reversed(order):
                    runs[side].append(self.run_once(side, scenario, guarantee, f"pair {pair + 1}"))
        except Exception as error:  # any failure of one scenario must leave the others their turn
            complete = min((len(runs[side]) for side in order), default=0)
            measured = Measured(scenario, guarantee, runs["ours"][:complete], runs["peer"][:complete])
            raise FailedError(f"{type(error).__name__}: {error}", measured) from error
        return Measured(scenario, guarantee, runs["ours"], runs["peer"])

    def run_once(self, side: str, scenario: Scenario, guarantee: str, label: str) -> Run:
        """One run of one side, its result checked.

        Raises:
            RunError: the application failed, or its result is wrong.
        """
        run = self._run_once(side, scenario, guarantee, self._prepare(scenario))
        self._say(f"{scenario.name} {guarantee} {label} {side}: {_in_words(run)}")
        return run

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)

    def _topics(self, scenario: Scenario) -> Topics:
        return self._machine.kafka if scenario.log == "kafka" else self._machine.embedded

    def _prepare(self, scenario: Scenario) -> Result:
        """Load the scenario's input, unless it is there, in place of the last one's; the result it must give."""
        topics, records, source = self._topics(scenario), self._options.records, scenario.input
        if self._expected is not None and self._expected[0] == scenario.name:
            return self._expected[1]
        self._expected = None
        orders = make_orders(records, users=source.users, seed=self._options.seed)
        users = make_users(source.users, seed=self._options.seed) if source.table is not None else None
        products = make_products(PRODUCTS, records, seed=self._options.seed) if source.products is not None else None
        if self._loaded.get(scenario.log) != source:
            for prefix in ("orders", "users", "products"):
                topics.delete(prefix)
            self._loaded.pop(scenario.log, None)
            self._say(f"Loading {source.name}: {records:,} orders (seed {self._options.seed}) …")
            topics.create(source.name, source.partitions)
            topics.load(source.name, avro_records(orders) if source.value_format == "avro" else orders.records())
            if source.table is not None and users is not None:
                topics.create(source.table, source.partitions)
                topics.load(source.table, users.records())
            if source.products is not None and products is not None:
                topics.create(source.products, source.partitions)
                topics.load(source.products, products.records())
            self._loaded[scenario.log] = source
        self._expected = (scenario.name, expected_result(scenario, orders, users, products))
        return self._expected[1]

    def _run_once(self, side: str, scenario: Scenario, guarantee: str, expected: Result) -> Run:
        """One run of one side on fresh topics, group and state; its result is checked."""
        self._run_number += 1
        application_id = f"bench-{self._run_number}-{side}"
        output_topic = f"{application_id}-output"
        topics = self._topics(scenario)
        state_dir = self._machine.folder / application_id
        state_dir.mkdir()
        topics.create(output_topic, scenario.input.partitions)
        command = sides.command(
            side,
            scenario,
            self._machine.java,
            log_arguments=topics.arguments,
            output_topic=output_topic,
            application_id=application_id,
            guarantee=guarantee,
            state_dir=state_dir,
        )
        try:
            run = measure(
                command,
                topics.progress(application_id, scenario.input.name, output_topic),
                self._machine.folder / f"{application_id}.log",
                quiet_s=max(self._options.quiet_s, scenario.quiet_s),
                timeout_s=self._options.timeout_s,
                cwd=sides.ROOT,
            )
            different = difference(expected, produced_result(scenario, topics.read(output_topic)))
        finally:
            shutil.rmtree(state_dir, ignore_errors=True)
            for prefix in (application_id, f"changelog__{application_id}"):
                topics.delete(prefix)
        if different is not None:
            raise RunError(f"{side} produced a wrong result in {scenario.name} ({guarantee}): {different}")
        return run


def _in_words(run: Run) -> str:
    part = "the whole run, too few records for a steady part" if run.whole else "steady"
    return (
        f"{run.throughput:,.0f} rec/s ({part}), {run.cpu_s:.1f} CPU s, peak {run.peak_pss_mb:,.0f} MB, "
        f"start-up {run.startup_s:.1f} s, total {run.total_s:.1f} s; the result is right"
    )
