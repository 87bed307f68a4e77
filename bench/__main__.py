"""Command line of the benchmark: `python -m bench run [SCENARIO ...]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import epoch, restore
from bench.measure import RunError
from bench.report import json_line, show
from bench.run import Benchmark, Options
from bench.scenarios import GUARANTEES, SCENARIOS, Scenario
from bench.sides import SIDES

_WIDTH_OF_FILES = 180


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; 0 if every run succeeded and every result was right."""
    parsed = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)
    if parsed.command == "epoch":
        epoch.run(parsed.epochs, console)
        return 0
    if parsed.command == "restore":
        restore.run(parsed.records, parsed.keys, parsed.deltas, console)
        return 0
    options = Options(
        scenarios=parsed.scenarios or list(SCENARIOS.values()),
        guarantees=GUARANTEES if parsed.guarantee == "both" else (parsed.guarantee,),
        sides=SIDES if parsed.side == "both" else (parsed.side,),
        pairs=parsed.pairs,
        records=parsed.records,
        quiet_s=parsed.quiet,
        timeout_s=parsed.timeout,
        seed=parsed.seed,
    )
    if parsed.json is not None:
        parsed.json.parent.mkdir(parents=True, exist_ok=True)
        parsed.json.write_text("")
    try:
        with Benchmark(options, console) as benchmark:
            for scenario in options.scenarios:
                for guarantee in options.guarantees:
                    measured = benchmark.run(scenario, guarantee)
                    show(measured, console)
                    if len(options.sides) == len(SIDES):
                        _write(json_line(measured), parsed.json)
    except RunError as failure:
        Console(stderr=True).print(str(failure), markup=False)
        return 1
    return 0


def _write(line: str, path: Path | None) -> None:
    """To the file if there is one, so that a later failure leaves what was measured; else to the terminal."""
    if path is None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    else:
        with path.open("a") as file:
            file.write(line + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Hayase and Kafka Streams side by side.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    run = commands.add_parser("run", help="run scenarios on a real broker and compare")
    run.add_argument(
        "scenarios",
        nargs="*",
        type=_scenario,
        metavar="SCENARIO",
        help=f"of {', '.join(SCENARIOS)}; default: all",
    )
    run.add_argument("--pairs", type=_positive, default=3, help="runs of each side (default 3)")
    run.add_argument("--records", type=_positive, default=3_000_000, help="orders in the input (default 3,000,000)")
    run.add_argument("--guarantee", choices=(*GUARANTEES, "both"), default="both", help="default: both")
    run.add_argument("--side", choices=(*SIDES, "both"), default="both", help="run only one side; no ratios then")
    run.add_argument("--json", type=Path, metavar="FILE", help="write a JSON line per scenario and guarantee there")
    run.add_argument("--quiet", type=float, default=4.0, help="seconds without new output that mean complete")
    run.add_argument("--timeout", type=float, default=600.0, help="limit of one run in seconds (default 600)")
    run.add_argument("--seed", type=int, default=42, help="seed of the orders (default 42)")
    small = commands.add_parser("epoch", help="the time of a nearly empty epoch and its split")
    small.add_argument("--epochs", type=_positive, default=100, help="how many (default 100)")
    lost = commands.add_parser("restore", help="how fast lost state comes back: from deltas, a snapshot, a follower")
    lost.add_argument("--records", type=_positive, default=4_000_000, help="changes in all (default 4,000,000)")
    lost.add_argument("--keys", type=_positive, default=1_000_000, help="different keys (default 1,000,000)")
    lost.add_argument("--deltas", type=_positive, default=40, help="epochs (default 40)")
    return parser


def _scenario(text: str) -> Scenario:
    if text not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"there is no scenario {text}; there are {', '.join(SCENARIOS)}")
    return SCENARIOS[text]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


if __name__ == "__main__":
    sys.exit(main())
