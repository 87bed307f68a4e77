"""Command line of the benchmark: `python -m bench run [SCENARIO ...]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import (
    cdc,
    cdc_memory,
    chart,
    connect_sides,
    epoch,
    latency,
    moves,
    patterns,
    restore,
    rivals,
    runtime,
    server,
    sink,
    statements,
)
from bench.estimate import Estimate, minutes
from bench.report import Measured, json_line, show, show_all
from bench.run import Benchmark, FailedError, Options
from bench.scenarios import GUARANTEES, SCENARIOS, Scenario
from bench.sides import SIDES
from hayase.core.errors import HayaseError

_WIDTH_OF_FILES = 180


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; 0 if every run succeeded and every result was right."""
    parsed = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)
    if parsed.command == "chart":
        chart.write()
        return 0
    if parsed.command == "epoch":
        epoch.run(parsed.epochs, console)
        return 0
    if parsed.command == "restore":
        restore.run(parsed.records, parsed.keys, parsed.deltas, console)
        return 0
    if parsed.command == "moves":
        moves.run(parsed.keys, parsed.moves, console)
        return 0
    if parsed.command == "statements":
        statements.run(parsed.statements, console)
        return 0
    if parsed.command == "patterns":
        return _patterns(parsed, console)
    if parsed.command == "runtime":
        return _runtime(parsed, console)
    if parsed.command == "server":
        return _server(parsed, console)
    if parsed.command == "cdc":
        return _cdc(parsed, console)
    if parsed.command == "cdc-memory":
        return _cdc_memory(parsed, console)
    if parsed.command == "sink":
        return _sink(parsed, console)
    if parsed.command == "peers":
        return _peers(parsed, console)
    if parsed.command == "latency":
        return _latency(parsed, console)
    scenarios = sorted(parsed.scenarios, key=list(SCENARIOS.values()).index) or list(SCENARIOS.values())
    options = Options(
        scenarios=scenarios,
        guarantees=GUARANTEES if parsed.guarantee == "both" else (parsed.guarantee,),
        sides=SIDES if parsed.side == "both" else (parsed.side,),
        pairs=parsed.pairs,
        records=parsed.records,
        quiet_s=parsed.quiet,
        timeout_s=parsed.timeout,
        seed=parsed.seed,
    )
    return _run(options, parsed.json, console)


def _run(options: Options, path: Path | None, console: Console) -> int:
    """Everything in turn; a scenario that fails is reported, and the others go on."""
    _make_folder(path)
    estimate = Estimate(options)
    console.print(f"About {minutes(estimate.left_s)} on two cores.", highlight=False)
    everything: list[Measured] = []
    failures: list[str] = []
    try:
        with Benchmark(options, console) as benchmark:
            for scenario in options.scenarios:
                for guarantee in options.guarantees:
                    error: str | None = None
                    try:
                        measured = benchmark.run(scenario, guarantee)
                    except FailedError as failure:
                        measured, error = failure.measured, str(failure)
                        failures.append(f"{scenario.name} {guarantee}: {error}")
                        console.print(failures[-1], markup=False, highlight=False, style="red")
                    estimate.done(scenario, guarantee)
                    if measured.ours or measured.peer:
                        everything.append(measured)
                        show(measured, console)
                    _write(json_line(measured, error), path, console)
                    console.print(f"About {minutes(estimate.left_s)} left.", highlight=False)
    except (RuntimeError, HayaseError) as failure:  # the Java side was not built, no broker: nothing can be run
        Console(stderr=True).print(str(failure), markup=False)
        return 1
    show_all(everything, console)
    for line in failures:
        console.print(f"FAILED {line}", markup=False, highlight=False)
    return 1 if failures else 0


def _latency(parsed: argparse.Namespace, console: Console) -> int:
    options = latency.Options(
        scenario=parsed.scenario,
        sides=SIDES if parsed.side == "both" else (parsed.side,),
        guarantee=parsed.guarantee,
        rate=parsed.rate,
        seconds=parsed.seconds,
        warm_up_s=parsed.warm_up,
        commit_interval_ms=parsed.commit_interval_ms,
        seed=parsed.seed,
    )
    console.print(f"About {minutes(len(options.sides) * (parsed.seconds + parsed.warm_up + 40))}.", highlight=False)
    return _measured(lambda: latency.run(options, console), parsed.json, console)


def _runtime(parsed: argparse.Namespace, console: Console) -> int:
    options = runtime.Options(
        rows=[row for row in runtime.ROWS if row in parsed.rows] or runtime.ROWS,
        topologies=parsed.topologies,
        busy=min(parsed.busy, parsed.topologies),
        seconds=parsed.seconds,
        records=parsed.records,
    )
    return _measured(lambda: runtime.run(options, console), parsed.json, console)


def _server(parsed: argparse.Namespace, console: Console) -> int:
    options = server.Options(
        log=parsed.log,
        in_process=parsed.in_process,
        queries=parsed.queries,
        keys=parsed.keys,
        lookups=parsed.lookups,
        rate=parsed.rate,
        seconds=parsed.seconds,
        clients=parsed.clients,
        listeners=parsed.listeners,
    )
    return _measured(lambda: server.run(options, console), parsed.json, console)


def _cdc(parsed: argparse.Namespace, console: Console) -> int:
    sides = connect_sides.SIDES if parsed.side == "both" else (parsed.side,)
    options = cdc.Options(sides, parsed.rows, parsed.rate, parsed.seconds)
    return _measured(lambda: cdc.run(options, console), parsed.json, console)


def _cdc_memory(parsed: argparse.Namespace, console: Console) -> int:
    places = tuple(parsed.place or cdc_memory.PLACES)
    options = cdc_memory.Options(places, parsed.rows, parsed.changes, parsed.connectors)
    return _measured(lambda: cdc_memory.run(options, console), parsed.json, console)


def _sink(parsed: argparse.Namespace, console: Console) -> int:
    sides = connect_sides.SIDES if parsed.side == "both" else (parsed.side,)
    options = sink.Options(sides, parsed.rows, schemas=not parsed.plain)
    return _measured(lambda: sink.run(options, console), parsed.json, console)


def _peers(parsed: argparse.Namespace, console: Console) -> int:
    options = Options(
        scenarios=[SCENARIOS[name] for name in rivals.SCENARIOS],
        guarantees=(rivals.GUARANTEE,),
        sides=("ours", *(parsed.systems or rivals.RIVALS)),
        pairs=parsed.pairs,
        records=parsed.records,
        quiet_s=parsed.quiet,
        timeout_s=parsed.timeout,
        seed=parsed.seed,
    )
    console.print(f"About {minutes(rivals.usual_s(options))} on two cores.", highlight=False)
    _make_folder(parsed.json)
    try:
        return rivals.run(options, lambda line: _write(line, parsed.json, console), console)
    except (RuntimeError, HayaseError) as failure:
        Console(stderr=True).print(str(failure), markup=False)
        return 1


def _patterns(parsed: argparse.Namespace, console: Console) -> int:
    options = patterns.Options(
        commands=parsed.commands,
        aggregates=parsed.aggregates,
        sagas=parsed.sagas,
        rate=parsed.rate,
        seconds=parsed.seconds,
        kafka=not parsed.no_kafka,
        postgres=not parsed.no_postgres,
        parts=tuple(parsed.parts) or patterns.PARTS,
    )
    try:
        patterns.run(options, console)
    except (RuntimeError, HayaseError) as failure:
        Console(stderr=True).print(str(failure), markup=False)
        return 1
    return 0


def _measured(measure: Callable[[], str], path: Path | None, console: Console) -> int:
    """Measure, and write the line that came out."""
    _make_folder(path)
    try:
        _write(measure(), path, console)
    except (RuntimeError, HayaseError) as failure:
        Console(stderr=True).print(str(failure), markup=False)
        return 1
    return 0


def _make_folder(path: Path | None) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)


def _write(line: str, path: Path | None, console: Console) -> None:
    """At once, so that a later failure leaves what was measured."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
    if path is not None:
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
    run.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line per scenario and guarantee there")
    run.add_argument("--quiet", type=float, default=4.0, help="seconds without new output that mean complete")
    run.add_argument("--timeout", type=float, default=1200.0, help="limit of one run in seconds (default 1200)")
    run.add_argument("--seed", type=int, default=42, help="seed of the orders (default 42)")
    slow = commands.add_parser("latency", help="milliseconds from a record's timestamp to its committed output")
    slow.add_argument(
        "scenario", nargs="?", type=_scenario, default=SCENARIOS["count_by_key"], help="default count_by_key"
    )
    slow.add_argument("--rate", type=_positive, default=1_000, help="orders per second (default 1,000)")
    slow.add_argument("--seconds", type=float, default=60.0, help="of the measured part (default 60)")
    slow.add_argument("--warm-up", type=float, default=30.0, help="seconds from the first output on (default 30)")
    slow.add_argument("--commit-interval-ms", type=int, default=100, help="of both sides (default 100)")
    slow.add_argument("--guarantee", choices=GUARANTEES, default=GUARANTEES[0], help="default exactly_once_v2")
    slow.add_argument("--side", choices=(*SIDES, "both"), default="both", help="run only one side")
    slow.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line there")
    slow.add_argument("--seed", type=int, default=42, help="seed of the orders (default 42)")
    _add_cdc(commands)
    _add_sink(commands)
    others = commands.add_parser("peers", help="other stream processors for Python beside us, at least once")
    others.add_argument(
        "systems",
        nargs="*",
        type=_rival,
        metavar="SYSTEM",
        help=f"of {', '.join(rivals.RIVALS)}; default: all",
    )
    others.add_argument("--pairs", type=_positive, default=1, help="runs of each system (default 1)")
    others.add_argument("--records", type=_positive, default=1_500_000, help="orders in the input (default 1,500,000)")
    others.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line per scenario and system there")
    others.add_argument("--quiet", type=float, default=4.0, help="seconds without new output that mean complete")
    others.add_argument("--timeout", type=float, default=1200.0, help="limit of one run in seconds (default 1200)")
    others.add_argument("--seed", type=int, default=42, help="seed of the orders (default 42)")
    _add_runtime(commands)
    _add_server(commands)
    commands.add_parser("chart", help="draw the chart of the README again, from bench/results")
    small = commands.add_parser("epoch", help="the time of a nearly empty epoch and its split")
    small.add_argument("--epochs", type=_positive, default=100, help="how many (default 100)")
    lost = commands.add_parser("restore", help="how fast lost state comes back: from deltas, a snapshot, a follower")
    lost.add_argument("--records", type=_positive, default=4_000_000, help="changes in all (default 4,000,000)")
    lost.add_argument("--keys", type=_positive, default=1_000_000, help="different keys (default 1,000,000)")
    lost.add_argument("--deltas", type=_positive, default=40, help="epochs (default 40)")
    _add_patterns(commands)
    sql = commands.add_parser("statements", help="SQL before it runs: parsing, planning, memory; and decoding of JSON")
    sql.add_argument("--statements", type=_positive, default=1_000, help="of the script (default 1,000)")
    moved = commands.add_parser("moves", help="what it costs that a bundle moves to another machine")
    moved.add_argument("--keys", type=_positive, default=100_000, help="keys of the bundle (default 100,000)")
    moved.add_argument("--moves", type=_positive, default=20, help="moves of each kind (default 20)")
    return parser


def _add_cdc(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    capture = commands.add_parser("cdc", help="capture of PostgreSQL, beside Kafka Connect with Debezium's connector")
    capture.add_argument("--rows", type=_positive, default=1_000_000, help="of the table (default 1,000,000)")
    capture.add_argument("--rate", type=_positive, default=1_000, help="commits a second (default 1,000)")
    capture.add_argument("--seconds", type=float, default=30.0, help="of the latency's part (default 30)")
    capture.add_argument("--side", choices=(*connect_sides.SIDES, "both"), default="both", help="run only one side")
    capture.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line there")
    memory = commands.add_parser("cdc-memory", help="memory of a worker: large snapshot and transaction, 30 connectors")
    memory.add_argument("--rows", type=_positive, default=5_000_000, help="of the snapshot (default 5,000,000)")
    memory.add_argument("--changes", type=_positive, default=1_000_000, help="of the transaction (default 1,000,000)")
    memory.add_argument("--connectors", type=_positive, default=30, help="together at the end (default 30)")
    memory.add_argument("--place", action="append", choices=cdc_memory.PLACES, help="where tasks run; default: both")
    memory.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line there")


def _add_sink(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    writes = commands.add_parser("sink", help="a topic into PostgreSQL, beside Kafka Connect with Debezium's JDBC sink")
    writes.add_argument("--rows", type=_positive, default=1_000_000, help="records of each topic (default 1,000,000)")
    writes.add_argument("--plain", action="store_true", help="JSON without schemas, which only Hayase's sink can write")
    writes.add_argument("--side", choices=(*connect_sides.SIDES, "both"), default="both", help="run only one side")
    writes.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line there")


def _add_runtime(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    shared = commands.add_parser("runtime", help="a shared runtime: cost while idle, latency, fairness, changes")
    rows = ", ".join(runtime.ROWS)
    shared.add_argument("rows", nargs="*", type=_row, metavar="ROW", help=f"of {rows}; default: all")
    shared.add_argument("--topologies", type=_positive, default=50, help="in one runtime (default 50)")
    shared.add_argument("--busy", type=_positive, default=20, help="of these, at work together (default 20)")
    shared.add_argument("--seconds", type=float, default=30.0, help="of each measured part (default 30)")
    shared.add_argument(
        "--records", type=_positive, default=3_000_000, help="that one is behind in `lag` (default 3,000,000)"
    )
    shared.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line there")


def _add_server(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sql = commands.add_parser("server", help="the SQL server: start, pull queries, scans, push queries, memory")
    sql.add_argument("--log", choices=("kafka", "embedded"), default="kafka", help="default kafka")
    sql.add_argument("--in-process", action="store_true", help="queries run in the server's process, without Spark")
    sql.add_argument("--queries", type=_positive, default=50, help="persistent queries beside (default 50)")
    sql.add_argument("--keys", type=_positive, default=100_000, help="rows of the table (default 100,000)")
    sql.add_argument("--lookups", type=_positive, default=1_000, help="look-ups per second (default 1,000)")
    sql.add_argument("--rate", type=_positive, default=1_000, help="orders per second that are pushed (default 1,000)")
    sql.add_argument("--seconds", type=float, default=30.0, help="of look-ups, and of push queries (default 30)")
    sql.add_argument("--clients", type=_positive, default=8, help="connections of look-ups (default 8)")
    sql.add_argument("--listeners", type=_positive, default=50, help="push queries at a time (default 50)")
    sql.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line there")


def _add_patterns(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sourced = commands.add_parser(
        "patterns", help="event sourcing, sagas and read models, on both logs; beside a library"
    )
    parts = ", ".join(patterns.PARTS)
    sourced.add_argument("parts", nargs="*", type=_part, metavar="PART", help=f"of {parts}; default: all")
    sourced.add_argument("--commands", type=_positive, default=1_000_000, help="commands (default 1,000,000)")
    sourced.add_argument("--aggregates", type=_positive, default=100_000, help="aggregates (default 100,000)")
    sourced.add_argument("--sagas", type=_positive, default=50_000, help="sagas of four steps (default 50,000)")
    sourced.add_argument("--rate", type=_positive, default=200, help="commands a second with a reply (default 200)")
    sourced.add_argument("--seconds", type=float, default=30.0, help="of these (default 30)")
    sourced.add_argument("--no-kafka", action="store_true", help="on the embedded log alone")
    sourced.add_argument("--no-postgres", action="store_true", help="the read model is in SQLite")


def _scenario(text: str) -> Scenario:
    if text not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"there is no scenario {text}; there are {', '.join(SCENARIOS)}")
    return SCENARIOS[text]


def _part(text: str) -> str:
    if text not in patterns.PARTS:
        raise argparse.ArgumentTypeError(f"there is no part {text}; there are {', '.join(patterns.PARTS)}")
    return text


def _row(text: str) -> str:
    if text not in runtime.ROWS:
        raise argparse.ArgumentTypeError(f"there is no row {text}; there are {', '.join(runtime.ROWS)}")
    return text


def _rival(text: str) -> str:
    if text not in rivals.RIVALS:
        raise argparse.ArgumentTypeError(f"there is no system {text}; there are {', '.join(rivals.RIVALS)}")
    return text


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


if __name__ == "__main__":
    sys.exit(main())
