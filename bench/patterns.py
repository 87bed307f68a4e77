"""Event sourcing and sagas: `python -m bench patterns`.

Commands per second, the time from a command to its reply, sagas, events per second into a read model and into a fold,
and the time of a state as of a version; each on the embedded log, and on a real broker. Beside that the commands per
second of the library `eventsourcing` on PostgreSQL, and the memory of the shop and of one application.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.ours import accounts as program
from bench.ours.accounts import AccountRow, Deposit, Transfer, account_row, accounts, transfers
from bench.pattern_peers import library_rate
from bench.processes import ProcessGroup
from hayase import StreamsBuilder
from hayase.core.config import StreamsConfig
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch
from hayase.patterns import CommandTarget, PatternsApp, PostgresTable, ReadModel, Saga, SqliteTable
from hayase.patterns.command_reading import command_headers
from hayase.patterns.read_models.runner import ReadModelRunner
from hayase.patterns.recorded_events import folded
from hayase.patterns.verification import verify
from hayase.runtime.wire.pickling import by_value
from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

PARTITIONS = 2
_BATCH = 20_000
_LOOK_S = 0.05
_TIMEOUT_S = 1_200.0
_STATES = 200
_SAGAS_A_SECOND = 100
_SAGA_LOOK_S = 0.005
_MEMORY_LOOK_S, _GRACE_S = 0.2, 30.0
PARTS = ("aggregates", "sagas", "library", "memory")


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured.

    Attributes:
        commands: to aggregates.
        aggregates: that they are for.
        sagas: of four steps.
        rate: commands a second whose replies are waited for.
        seconds: for how long.
        kafka: also on a broker.
        postgres: the read model is in PostgreSQL, else in SQLite.
        parts: of `PARTS`.
    """

    commands: int
    aggregates: int
    sagas: int
    rate: int
    seconds: float
    kafka: bool = True
    postgres: bool = True
    parts: tuple[str, ...] = PARTS


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured: of what, on which log, and in which unit."""

    name: str
    log: str
    value: float
    unit: str
    must: str = ""


def run(options: Options, console: Console) -> list[Figure]:
    """Measure everything, and show it."""
    by_value(program)
    figures: list[Figure] = []
    for figure in _measured(options):
        figures.append(figure)
        console.print(f"{figure.log}: {figure.name}: {figure.value:,.1f} {figure.unit}", highlight=False)
    table = Table(title=f"{options.commands:,} commands for {options.aggregates:,} aggregates, exactly-once")
    for column in ("what", "log", "measured", "must be"):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for each in figures:
        table.add_row(each.name, each.log, f"{each.value:,.1f} {each.unit}", each.must)
    console.print(table)
    return figures


def _measured(options: Options) -> Iterator[Figure]:
    commands: dict[str, float] = {}
    measures = {"aggregates": _aggregates, "sagas": _sagas}
    kinds = ("embedded", "kafka") if options.kafka else ("embedded",)
    for kind in kinds:
        chosen = [measure for part, measure in measures.items() if part in options.parts]
        if chosen:
            with _place(kind) as place:
                for figure in itertools.chain.from_iterable(measure(place, options) for measure in chosen):
                    if figure.name == "commands":
                        commands[kind] = figure.value
                    yield figure
    if "library" in options.parts:
        theirs = library_rate(options.aggregates, options.seconds)
        yield Figure("commands, library eventsourcing", "postgres", theirs, "commands/s")
        for kind, ours in commands.items():
            yield Figure("commands, ours : library", kind, ours / theirs, "times", "40")
    for kind in kinds if "memory" in options.parts else ():
        with _place(kind) as place:
            yield from _memory_of_application(place, options)


class _Place:
    """Topics and state of one kind of log."""

    def __init__(self, kind: str, folder: Path, bootstrap: str) -> None:
        self.kind = kind
        self.folder = folder
        self._where: dict[str, object] = (
            {"log.dir": folder / "log"} if not bootstrap else {"bootstrap.servers": bootstrap}
        )
        self.log: Log = open_log(
            LogConfig("kafka", bootstrap) if bootstrap else LogConfig("embedded", str(folder / "log"))
        )
        self._writer = self.log.writer()  # one, as a client has it: making one on Kafka costs more than a write

    def close(self) -> None:
        """Close the log."""
        self._writer.close()
        self.log.close()

    def settings(self, application_id: str, **more: object) -> dict[str, object]:
        """Of an application."""
        given = {name.replace("_", "."): value for name, value in more.items()}
        return {"application.id": application_id, "state.dir": self.folder / "state", **self._where, **given}

    def write(self, target: CommandTarget[Any], commands: Iterator[tuple[str, object]]) -> None:
        """Commands of clients that wait for no reply."""
        number, now_ms = 0, time.time_ns() // 1_000_000
        made = []
        for key, command in commands:
            made.append(target.command(key, command))
            if len(made) == _BATCH:
                number = self._append(made, number, now_ms)
                made = []
        self._append(made, number, now_ms)

    def _append(self, made: list[Any], number: int, now_ms: int) -> int:
        if made:
            headers = [command_headers(each, f"c{number + n}", "/bench", now_ms, {}) for n, each in enumerate(made)]
            keys = [each.aggregate_id.encode() for each in made]
            values = [each.data for each in made]
            self._writer.append([OutputBatch(made[0].topic, keys, values, [now_ms] * len(made), None, headers)])
        return number + len(made)


@contextmanager
def _place(kind: str) -> Iterator[_Place]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hayase-bench-")))
        bootstrap = stack.enter_context(KafkaBroker(jvm_options=())).bootstrap_servers if kind == "kafka" else ""
        place = _Place(kind, folder, bootstrap)
        stack.callback(place.close)
        yield place


def _aggregates(place: _Place, options: Options) -> Iterator[Figure]:
    account = accounts()
    builder = StreamsBuilder()
    account.add_to(builder)
    app = PatternsApp(builder, place.settings("accounts"), partitions=PARTITIONS)
    app.create_topics()
    place.write(account, ((f"a{n % options.aggregates}", Deposit(n % 100)) for n in range(options.commands)))
    app.start()
    try:
        rate = _rate(lambda: _decided(place, account), options.commands)
    finally:
        app.close()
    yield Figure("commands", place.kind, rate, "commands/s", "25,000" if place.kind == "embedded" else "20,000")

    yield from _replies(place, options)
    yield from _history(place, options)
    yield _read_model(place, options)


def _decided(place: _Place, account: CommandTarget[Any]) -> int:
    """How many commands the application has behind it."""
    offsets = place.log.group_offsets("accounts")
    return sum(offsets.get(TopicPartition(account.commands_topic, number), 0) for number in range(PARTITIONS))


def _replies(place: _Place, options: Options) -> Iterator[Figure]:
    """From `send` to the reply, at a rate that is no load."""
    builder, account = StreamsBuilder(), accounts()
    account.add_to(builder)
    app = PatternsApp(builder, place.settings("accounts", commit_interval_ms=0), partitions=PARTITIONS)
    app.start()
    took_ms: list[float] = []
    try:
        with app.commands(account) as client:

            async def one(number: int) -> None:
                begun = time.perf_counter()
                await client.send_async(f"a{number % options.aggregates}", Deposit(1), timeout=timedelta(minutes=2))
                took_ms.append((time.perf_counter() - begun) * 1000)

            async def all_of_them() -> None:
                await one(0)  # the application has started
                took_ms.clear()
                begun, tasks = time.perf_counter(), []
                for number in range(int(options.rate * options.seconds)):
                    tasks.append(asyncio.create_task(one(number)))
                    await asyncio.sleep(max(0.0, begun + number / options.rate - time.perf_counter()))
                await asyncio.gather(*tasks)

            asyncio.run(all_of_them())
    finally:
        app.close()
    name = f"reply at {options.rate}/s"
    yield Figure(f"{name}, p50", place.kind, statistics.median(took_ms), "ms", "120")
    yield Figure(f"{name}, p99", place.kind, statistics.quantiles(took_ms, n=100)[98], "ms", "300")


def _history(place: _Place, options: Options) -> Iterator[Figure]:
    """Of the application while it is stopped."""
    builder, account = StreamsBuilder(), accounts()
    account.add_to(builder)
    app = PatternsApp(builder, place.settings("accounts"))
    begun = time.perf_counter()
    verified = verify(account, app)
    assert verified.different == 0, verified
    yield Figure("verify: read, decode, fold, compare", place.kind, verified.events / _since(begun), "events/s")

    history = app.events(account).history("a0")
    repeats = max(1, options.commands // max(1, len(history)))
    begun = time.perf_counter()
    for _ in range(repeats):
        folded(account, "a0", history)
    yield Figure("fold alone", place.kind, repeats * len(history) / _since(begun), "events/s", "300,000")

    chosen, took_ms, events = random.Random(1), [], app.events(account)
    for _ in range(_STATES):
        key = f"a{chosen.randrange(min(options.aggregates, options.commands))}"
        begun = time.perf_counter()
        events.state(key, version=1)
        took_ms.append(_since(begun) * 1000)
    yield Figure("state as of a version, median", place.kind, statistics.median(took_ms), "ms", "5")


def _read_model(place: _Place, options: Options) -> Figure:
    with ExitStack() as stack:
        if options.postgres:
            server = stack.enter_context(PostgresServer())
            url = f"postgresql://{USER}:{PASSWORD}@{server.host}:{server.port}/postgres"
            target: Any = PostgresTable(AccountRow, "account", url)
        else:
            target = SqliteTable(AccountRow, "account", place.folder / "rows.db")
        model = ReadModel("accounts", accounts(), account_row, target)
        runner = stack.enter_context(closing(ReadModelRunner(model, StreamsConfig(place.settings("accounts")))))
        runner.start()
        rate = _rate(lambda: runner.status.position, options.commands)
    name = "PostgreSQL" if options.postgres else "SQLite"
    return Figure(f"read model in {name}", place.kind, rate, "events/s", "25,000" if options.postgres else "")


def _sagas(place: _Place, options: Options) -> Iterator[Figure]:
    builder, saga = transfers()
    app = PatternsApp(builder, place.settings("transfers", commit_interval_ms=0), partitions=PARTITIONS)
    there = place.log.describe(accounts().topics)
    for topic in there:  # of the other application: one aggregate has one owner
        place.log.delete_topic(topic)
    app.create_topics()
    place.write(saga, ((f"t{number}", Transfer(5)) for number in range(options.sagas)))
    ended = _Ended(place.log, saga.events_topic)
    app.start()
    try:
        while not ended.started:
            ended.look()
            time.sleep(_LOOK_S)
        begun = time.perf_counter()
        while len(ended.completed) < options.sagas:
            ended.look()
            time.sleep(_LOOK_S)
        took_s = _since(begun) + app.epoch_timings()[0].total_ms / 1000  # the first epoch has started them
        yield Figure("sagas of four steps", place.kind, options.sagas / took_s, "sagas/s", "2,000")
        took_ms = _saga_times(place, saga, ended, options)
    finally:
        ended.close()
        app.close()
    name = f"saga at {_SAGAS_A_SECOND}/s"
    yield Figure(f"{name}, p50", place.kind, statistics.median(took_ms), "ms")
    yield Figure(f"{name}, p99", place.kind, statistics.quantiles(took_ms, n=100)[98], "ms", "1,000")


def _saga_times(place: _Place, saga: Saga[Transfer], ended: _Ended, options: Options) -> list[float]:
    """Milliseconds from the moment at which a saga is due to be sent to that at which its completion can be read."""
    sent_at: dict[str, float] = {}
    took_ms: list[float] = []
    wanted = int(_SAGAS_A_SECOND * options.seconds)
    ended.completed.clear()
    begun = time.perf_counter()
    while len(took_ms) < wanted:
        due = min(wanted, int((time.perf_counter() - begun) * _SAGAS_A_SECOND))
        keys = [f"timed{number}" for number in range(len(sent_at), due)]
        sent_at |= {key: begun + (len(sent_at) + n) / _SAGAS_A_SECOND for n, key in enumerate(keys)}
        place.write(saga, ((key, Transfer(5)) for key in keys))
        ended.look()
        now = time.perf_counter()
        took_ms += [(now - sent_at[key]) * 1000 for key in ended.completed]
        ended.completed.clear()
        if now - begun > _TIMEOUT_S:
            raise RuntimeError(f"{len(took_ms)} of {wanted} sagas were completed after {_TIMEOUT_S:g} s")
        time.sleep(_SAGA_LOOK_S)
    return took_ms


class _Ended:
    """The sagas that are completed, as their events come.

    Attributes:
        started: how many have started so far.
        completed: ids of those that are completed; may be cleared.
    """

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._reader = log.reader()
        self._positions = {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}
        self.started = 0
        self.completed: list[str] = []

    def look(self) -> None:
        """Read what has come since."""
        for partition, end in self._log.end_offsets(list(self._positions)).items():
            start, self._positions[partition] = self._positions[partition], end
            for batch in self._reader.fetch(partition, start, end) if end > start else ():
                for key, headers in zip(batch.keys, batch.headers or (), strict=True):
                    kind = dict(headers)["ce_type"]
                    self.started += kind == b"Started"
                    if kind == b"Completed":
                        self.completed.append((key or b"").decode())

    def close(self) -> None:
        """Close what reads."""
        self._reader.close()


def _memory_of_application(place: _Place, options: Options) -> Iterator[Figure]:
    """Peaks of the proportional memory of one application, with all its processes, while it takes the commands.

    What is mapped of an embedded log, as far as it is in memory, is part of it, and not of what is anonymous.
    """
    account = accounts()
    app = PatternsApp(account, place.settings("accounts"), partitions=PARTITIONS)
    app.create_topics()
    place.write(account, ((f"a{n % options.aggregates}", Deposit(n % 100)) for n in range(options.commands)))
    settings = {name: str(value) for name, value in place.settings("accounts").items()}
    argv = [sys.executable, "-m", "bench.ours.accounts_app", json.dumps(settings), str(PARTITIONS)]
    with subprocess.Popen(argv, start_new_session=True) as process:
        group = ProcessGroup(process.pid)
        try:
            while _decided(place, account) < options.commands:
                group.sample_memory()
                if group.root_has_ended():
                    raise RuntimeError("the application has ended")
                time.sleep(_MEMORY_LOOK_S)
        finally:
            group.end(_GRACE_S)
    name = "PSS of one application"
    yield Figure(f"peak {name}", place.kind, group.peak_pss_mb, "MB", "that of python_callables")
    yield Figure(f"peak anonymous {name}", place.kind, group.peak_pss_anonymous_mb, "MB")


def _rate(count: Callable[[], int], wanted: int) -> float:
    """What is done a second, from the first look at which something is done to the end; start-up is left out."""
    deadline = time.perf_counter() + _TIMEOUT_S
    first = 0
    begun = time.perf_counter()
    while (done := count()) < wanted:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"{done} of {wanted} were done after {_TIMEOUT_S:g} s")
        if done and not first:
            first, begun = done, time.perf_counter()
        time.sleep(_LOOK_S)
    return (wanted - first) / _since(begun) if first else wanted / _since(begun)


def _since(begun: float) -> float:
    return max(time.perf_counter() - begun, 1e-9)
