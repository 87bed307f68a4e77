"""Tables are captured and written into others while worker, tasks, slots and database are killed at every step."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.audited_tables import KEYS, Writer, check, make_tables
from tests.postgres.worker_process import WorkerProcess

from hayase.core.failpoints import CAPTURE_NAMES, FENCE_NAMES, SINK_NAMES
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.testing.kafka_broker import KafkaBroker
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.crash]

PUBLISH_NAMES = ("before_publish", "inside_publish", "after_publish")
SNAPSHOT_BEGINS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("after_slot", "kill_worker"), ("after_chunk", "kill_worker"), ("after_last_chunk", "kill_worker")),
    (("after_slot", "raise"),),
    (("after_chunk", "raise"),),
    (("after_publish", "kill_worker"), ("after_last_chunk", "raise")),
)
"""What is killed first, while the snapshot is read; a worker that only raises comes to the end of the snapshot."""
STREAM_STEPS = tuple(
    step
    for step in (*FENCE_NAMES, *CAPTURE_NAMES, *PUBLISH_NAMES, *SINK_NAMES)
    if step not in ("after_slot", "after_chunk", "after_last_chunk")
)
STREAM_KINDS = (
    *((step, "kill_worker") for step in STREAM_STEPS),
    *((step, "raise") for step in STREAM_STEPS),
    *[("anywhere", "kill_worker")] * 4,
    *[("database", "kill")] * 3,
)
SLOW_SEEDS, SLOW_KILLS = range(1, 6), 15
LAST = 1_000_000
"""The key of the row that is written last: what committed before it was captured before it."""
_KEY_TYPES = {
    ("numbers", "id"): "int", ("texts", "id"): "text", ("pairs", "a"): "int", ("pairs", "b"): "text",
    ("days", "id"): "int",
}  # fmt: skip
_UNTIL_S = 300.0
_STEP_S = 120.0
"""How long a worker that runs has to come to a step."""
_FAILED_S = 3.0
"""How long a task takes to show that it has failed; errors of confirmations are only counted."""
_WRITER_PAUSE_S = 0.03
"""Between two transactions of a writer: what is tried is the kills, not the rate."""


@dataclass(frozen=True)
class CapturedEvent:
    """A record of a topic."""

    topic: str
    key: object
    value: object


class Pipeline:
    """Four tables, captured into topics; from there each row into a copy of its table, and each event into a history.

    Args:
        server: has the tables and their copies.
        database: of the server.
        log: of the topics.
        prefix: of the topics.
    """

    def __init__(self, server: PostgresServer, database: str, log: Log, prefix: str) -> None:
        self._server, self._database, self._log, self.prefix = server, database, log, prefix
        self.capture_task = f"{prefix}-capture-0"
        self._events: list[CapturedEvent] = []
        self._next_offsets: dict[str, int] = defaultdict(int)
        make_tables(server, database)
        with server.connect(database) as connection:
            connection.execute("CREATE SCHEMA copies")
            connection.execute("CREATE SCHEMA histories")
            for table, key in KEYS.items():
                # The number gives the order of inserts: rows of a write that was broken off leave room for later ones.
                columns = ", ".join(f"{column} {_KEY_TYPES[table, column]}" for column in key)
                number = "number bigint GENERATED ALWAYS AS IDENTITY"
                connection.execute(
                    f"CREATE TABLE histories.{prefix}_public_{table} ({columns}, v int, big text, {number})"
                )

    def connectors(self) -> dict[str, dict[str, str]]:
        """Their configurations."""
        plain = {f"{part}.converter": "JsonConverter" for part in ("key", "value")}
        plain |= {f"{part}.converter.schemas.enable": "false" for part in ("key", "value")}
        source = {
            **self._server.connector_config(self._database), **plain,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": self.prefix, "slot.name": f"slot_{self._database}",
            "table.include.list": "public[.](numbers|texts|pairs|days)", "exactly.once.support": "required",
            "incremental.snapshot.chunk.size": "7", "max.batch.size": "20", "poll.interval.ms": "20",
            "status.update.interval.ms": "200",
        }  # fmt: skip
        sink = {
            **plain, "connector.class": "PostgresSink", "topics": ",".join(self.topics()), "auto.create": "true",
            "connection.url": f"postgresql://{self._server.host}:{self._server.port}/{self._database}",
            "connection.username": USER, "connection.password": PASSWORD,
        }  # fmt: skip
        keyed = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
        return {
            f"{self.prefix}-capture": source,
            f"{self.prefix}-copy": {**sink, **keyed, "connection.schema": "copies"},
            f"{self.prefix}-history": {**sink, "connection.schema": "histories"},
        }

    def topics(self) -> list[str]:
        """Of the tables."""
        return [f"{self.prefix}.public.{table}" for table in KEYS]

    def events(self) -> list[CapturedEvent]:
        """All records of the topics; reads those that have come since the last look."""
        reader = self._log.reader()
        for topic in sorted(self._log.describe(self.topics())):
            where = TopicPartition(topic, 0)
            end = self._log.end_offsets([where])[where]
            for batch in reader.fetch(where, self._next_offsets[topic], end):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    self._events.append(CapturedEvent(topic, json.loads(key or b"null"), json.loads(value or b"null")))
            self._next_offsets[topic] = end
        reader.close()
        return self._events

    def rows(self, schema: str) -> dict[str, list[tuple[Any, ...]]]:
        """Rows of all copies or histories, in the order in which they were written."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        with self._server.connect(self._database) as connection:
            for table, key in KEYS.items():
                name = f"{schema}.{self.prefix}_public_{table}"
                if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() != (None,):
                    columns = ", ".join((*key, "v", "big"))
                    order = "number" if schema == "histories" else columns
                    found[table] = connection.execute(f"SELECT {columns} FROM {name} ORDER BY {order}").fetchall()
        return found

    def copies(self) -> dict[str, list[tuple[Any, ...]]]:
        """Rows of the copies, sorted."""
        return {table: sorted(rows) for table, rows in self.rows("copies").items()}

    def history_sizes(self) -> dict[str, int]:
        """How many rows each history has; those without rows are left out."""
        with self._server.connect(self._database) as connection:
            sizes = {
                table: connection.execute(f"SELECT count(*) FROM histories.{self.prefix}_public_{table}").fetchone()[0]
                for table in KEYS
            }
        return {table: size for table, size in sizes.items() if size}

    def finish(self) -> None:
        """Write the last row, and wait until it is captured, and the sinks have what they should, or time is over."""
        with self._server.connect(self._database) as connection:
            connection.execute("INSERT INTO numbers VALUES (%s, 1, 'the end')", (LAST,))
        until(lambda: any(event.key == {"id": LAST} for event in self.events()), "the last row is captured")
        copies, histories = sinks_of(self.events())
        sizes = {table: len(rows) for table, rows in histories.items()}
        deadline = time.monotonic() + _UNTIL_S
        while (self.history_sizes() != sizes or self.copies() != copies) and time.monotonic() < deadline:
            time.sleep(0.5)

    def check(self) -> int:
        """Whether what was captured is what was noted; how many events there are."""
        events = self.events()
        copies, histories = sinks_of(events)
        assert self.copies() == copies
        assert self.rows("histories") == histories
        return check(self._server, self._database, events)


def sinks_of(events: Sequence[CapturedEvent]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Rows of the copies, sorted, and of the histories, in order, that the events come to."""
    copies: dict[str, dict[object, object]] = defaultdict(dict)
    histories: dict[str, list[object]] = defaultdict(list)
    for event in events:
        table = event.topic.rpartition(".")[2]
        assert isinstance(event.key, dict)
        key = tuple(event.key.values())
        after = event.value["after"] if isinstance(event.value, dict) else None
        if after is not None:
            row = tuple(after[column] for column in (*KEYS[table], "v", "big"))
            copies[table][key] = row
            histories[table].append(row)
        elif event.value is None:
            copies[table].pop(key, None)
    return {table: sorted(rows.values()) for table, rows in copies.items()}, dict(histories)


def until(condition: Callable[[], bool], what: str, timeout_s: float = _UNTIL_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@contextmanager
def writing(server: PostgresServer, database: str, seed: int) -> Iterator[None]:
    stop = threading.Event()
    writers = [Writer(server, database, seed * 10 + number, stop, pause_s=_WRITER_PAUSE_S) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def kinds_of(seed: int, kills: int) -> list[tuple[str, str]]:
    """What is killed and where, `kills` times; seeds that follow each other go through all kinds."""
    kinds = list(STREAM_KINDS)
    random.Random(7).shuffle(kinds)
    first = seed * kills
    begin = SNAPSHOT_BEGINS[seed % len(SNAPSHOT_BEGINS)]
    return [*begin, *(kinds[(first + number) % len(kinds)] for number in range(kills - len(begin)))]


def kill(
    kind: tuple[str, str], pipeline: Pipeline, process: WorkerProcess, server: PostgresServer, chosen: random.Random
) -> None:
    """Let a worker run and kill it, a task of it, or its database, at the step."""
    step, action = kind
    bundle = pipeline.capture_task if step in PUBLISH_NAMES else None  # the worker itself publishes, too
    process.start(None if step in ("anywhere", "database") else step, action, bundle)
    if step == "anywhere":
        process.ended_within(chosen.uniform(0.5, 4.0))
    elif step == "database":
        assert process.wait_for_answer()
        time.sleep(chosen.uniform(0.0, 1.0))
        server.kill()
        server.start()
        time.sleep(chosen.uniform(0.0, 1.0))
    elif action == "kill_worker":
        assert process.ended_within(_STEP_S), (step, process.states())
    else:
        assert process.wait_for_answer()
        until(lambda: process.reached, f"{step} is reached", _STEP_S)
        restart_what_failed(process)
    process.kill()


def restart_what_failed(process: WorkerProcess) -> None:
    """Wait for the task that fails, restart it, and let it go on for a moment."""
    deadline = time.monotonic() + _FAILED_S
    while not (failed := process.failed()):
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)
    process.restart(failed[0])
    until(lambda: not process.failed(), "what had failed runs")


@pytest.fixture
def name() -> str:
    return f"s{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["embedded", "kafka"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LogConfig, list[str]]:
    """A log, and the options of a worker whose topics are there."""
    if request.param == "embedded":
        folder = str(tmp_path / "log")
        return LogConfig("embedded", folder, {"cleaner.interval.ms": "0"}), ["--log-dir", folder]
    broker: KafkaBroker = request.getfixturevalue("broker")
    return LogConfig("kafka", broker.bootstrap_servers), ["-b", broker.bootstrap_servers]


def on_both_logs(seed: int, kills: int, marks: Sequence[pytest.MarkDecorator] = ()) -> list[Any]:
    return [
        pytest.param("embedded", seed, kills, marks=list(marks)),
        pytest.param("kafka", seed, kills, marks=[pytest.mark.kafka, *marks]),
    ]


def test_the_slow_cases_kill_150_times_and_come_to_every_step() -> None:
    kinds = [kind for seed in SLOW_SEEDS for kind in kinds_of(seed, SLOW_KILLS)]
    assert 2 * len(kinds) >= 150  # on both logs
    assert {kind for begin in SNAPSHOT_BEGINS for kind in begin} | set(STREAM_KINDS) == set(kinds)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("place", "seed", "kills"),
    [
        *on_both_logs(0, 6),
        *(case for seed in SLOW_SEEDS for case in on_both_logs(seed, SLOW_KILLS, [pytest.mark.slow])),
    ],
    indirect=["place"],
)
def test_topics_and_sinks_are_exact_whenever_worker_task_or_database_are_killed(
    postgres_server: PostgresServer, database: str, tmp_path: Path, name: str, place: tuple[LogConfig, list[str]],
    seed: int, kills: int,
) -> None:  # fmt: skip
    config, options = place
    chosen, log = random.Random(seed), open_log(config)
    pipeline = Pipeline(postgres_server, database, log, name)
    storage = (f"-c{kind}.storage.topic={name}-{kind}" for kind in ("config", "offset", "status"))
    process = WorkerProcess(tmp_path, [*options, f"-cgroup.id={name}", *storage], pipeline.connectors())
    try:
        with writing(postgres_server, database, seed):
            for number, kind in enumerate(kinds_of(seed, kills), start=1):
                kill(kind, pipeline, process, postgres_server, chosen)
                print(f"killed {number} of {kills}: {kind[0]}, {kind[1]}")
        process.start()
        pipeline.finish()
        process.kill()
        assert pipeline.check() > 100
    finally:
        process.kill()
        log.close()
