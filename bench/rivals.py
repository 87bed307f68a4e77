"""Other stream processors for Python beside us, on the first scenarios: `python -m bench peers`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.console import Console

from bench import sides
from bench.measure import Run
from bench.report import Measured, json_line, show, show_all
from bench.run import Benchmark, Options

GUARANTEE = "at_least_once"
"""What all of them have: Spark's Kafka sink knows no other."""
RIVALS = ("spark", "quix", "faust")
SCENARIOS = ("filter", "count_by_key")
_USUAL_S = {"ours": 30, "spark": 50, "quix": 150, "faust": 400}
"""One run with 1.5 M orders, checking included."""


def usual_s(options: Options) -> float:
    """About how long `run` takes on two cores, in seconds."""
    rounds = options.pairs * len(options.scenarios) * options.records / 1_500_000
    return rounds * sum(_USUAL_S[side] for side in options.sides)


def run(options: Options, write: Callable[[str], None], console: Console) -> int:
    """Each scenario, each of `options.sides` in turn; one that fails is reported, and the others go on.

    Args:
        options: sides are `ours` and rivals; guarantees do not matter.
        write: takes a JSON line for each scenario and rival.
        console: for the rest.

    Returns:
        0 if all went well.
    """
    everything: list[Measured] = []
    failures: list[str] = []
    with Benchmark(replace(options, sides=("ours",)), console) as benchmark:
        for scenario in options.scenarios:
            runs: dict[str, list[Run]] = {side: [] for side in options.sides}
            failed: dict[str, str] = {}
            for number in range(options.pairs):
                for side in _turns(options.sides, number):
                    if side in failed:
                        continue
                    try:
                        sides.prepare(side)
                        runs[side].append(benchmark.run_once(side, scenario, GUARANTEE, f"round {number + 1}"))
                    except Exception as error:  # one system must leave the others their turn
                        failed[side] = f"{type(error).__name__}: {error}"
                        failures.append(f"{scenario.name} {sides.NAMES[side]}: {failed[side]}")
                        console.print(failures[-1], markup=False, highlight=False, style="red")
            for rival in options.sides:
                if rival == "ours":
                    continue
                pairs = min(len(runs["ours"]), len(runs[rival]))
                ours, theirs = runs["ours"][:pairs], runs[rival][:pairs]
                measured = Measured(scenario, GUARANTEE, ours, theirs, sides.NAMES[rival])
                if pairs:
                    everything.append(measured)
                    show(measured, console)
                write(json_line(measured, failed.get(rival) or failed.get("ours")))
    show_all(everything, console)
    for line in failures:
        console.print(f"FAILED {line}", markup=False, highlight=False)
    return 1 if failures else 0


def _turns(order: Sequence[str], number: int) -> Sequence[str]:
    return order if number % 2 == 0 else list(reversed(order))
