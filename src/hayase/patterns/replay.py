"""Replaying the log's prefix: states and read models as of a time or an epoch, in a folder of their own."""

from __future__ import annotations

import contextlib
import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hayase.compiler.build import sink_topics, source_topics
from hayase.connect.sql.sqlite_sink import stored
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError
from hayase.core.records import SourceRecord, TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.patterns.event_log import check_kept
from hayase.patterns.read_models.read_model import ReadModel
from hayase.patterns.read_models.sources import TableSource
from hayase.patterns.recorded_events import evolved, read_recorded
from hayase.patterns.relations import aggregates_of
from hayase.patterns.replay_end import ReplayEnd, replay_end
from hayase.patterns.state_rows import AggregateState
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.patterns.event_sourced import EventSourced
    from hayase.testing.driver import TopologyTestDriver

DATABASE, MANIFEST = "replay.sqlite", "manifest.json"


@dataclass(slots=True)
class Replay:
    """The result of a replay.

    Attributes:
        events: how many were read.
        states: how many aggregates have a state.
        rows: how many rows each read model has, by name.
        ends: how far each partition was read, by `topic-partition`.
    """

    events: int = 0
    states: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)


def replay(
    topology: Topology,
    models: Iterable[ReadModel],
    config: StreamsConfig,
    folder: Path,
    *,
    until_ms: int | None = None,
    until_epoch: int | None = None,
) -> Replay:
    """Run states and read models over the events up to a time or an epoch, into `replay.sqlite` of a new folder.

    Events are taken in the order of time, topic, partition and offset, so that two replays are equal byte by byte. The
    log is only read, and nothing is sent: no command, no deadline. Read models of tables run the topology in this
    process, with everything that it reads up to that time.

    Args:
        topology: with aggregates; need not be the program that recorded them.
        models: read models; their own databases are left alone.
        config: settings that say where the log is, and, for an epoch, the checkpoint.
        folder: where the result goes; must be empty or not there.
        until_ms: the last time, by the clock that events are recorded with; default: all.
        until_epoch: the last epoch of the application, instead of a time.

    Raises:
        ConfigError, StateError: as `replay_end`.
        ConfigError: `FOLDER_NOT_EMPTY`; `EVENTS_WOULD_BE_LOST`: a topic of events does not keep them.
        ProcessingError: an event cannot be read, folded or projected; which one.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("FOLDER_NOT_EMPTY", f"{folder} is not empty; a replay goes into a folder of its own")
    aggregates = {each.events_topic: each for each in aggregates_of(topology).values()}
    end = replay_end(config, aggregates, until_ms=until_ms, until_epoch=until_epoch)
    folder.mkdir(parents=True, exist_ok=True)
    models = list(models)
    for each in aggregates.values():
        if each.keys is not None:
            each.keys.bind(config)
    runs_tables = any(isinstance(each.source, TableSource) for each in models)
    log = open_log(log_config(config))
    try:
        for topic in aggregates:
            check_kept(log, topic)
        read = {*aggregates, *(each.source.topic for each in models if not isinstance(each.source, TableSource))}
        if runs_tables:
            read |= _inputs(topology, aggregates)
        with _Target(folder, models, aggregates.values()) as target, _driver(topology, config, runs_tables) as driver:
            result = Replay()
            for record in _records(log, sorted(read), end, result.ends):
                result.events += 1
                target.take(record)
                if driver is not None:
                    _drive(driver, record)
                    target.take_tables(driver)
            target.finish(result)
    finally:
        log.close()
    manifest = {
        "until_ms": until_ms,
        "until_epoch": until_epoch,
        "events": result.events,
        "states": result.states,
        "rows": result.rows,
        "ends": result.ends,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return result


def _inputs(topology: Topology, aggregates: Mapping[str, EventSourced[Any, Any, Any]]) -> set[str]:
    """What a topology reads, without commands and what it writes itself, but with events."""
    commands = {each.commands_topic for each in aggregates.values()}
    return ({*source_topics(topology)} - commands - {*sink_topics(topology)}) | {*aggregates}


@contextlib.contextmanager
def _driver(topology: Topology, config: StreamsConfig, wanted: bool) -> Iterator[TopologyTestDriver | None]:
    if not wanted:
        yield None
        return
    from hayase.testing.driver import TopologyTestDriver

    with TopologyTestDriver(topology, {"application.id": config.application_id}) as driver:
        yield driver


def _drive(driver: TopologyTestDriver, record: SourceRecord) -> None:
    later_ms = record.timestamp_ms - driver.wall_clock_ms
    if later_ms > 0:
        driver.advance_wall_clock_time(timedelta(milliseconds=later_ms))
    driver.pipe(record.topic, record.key, record.value, record.timestamp_ms, record.headers)


def _records(log: Log, topics: list[str], until: ReplayEnd, ends: dict[str, int]) -> Iterator[SourceRecord]:
    """The records of topics up to an end, in one order."""
    infos = log.describe(topics)
    places = [TopicPartition(topic, number) for topic in topics for number in range(infos[topic].partitions)]
    starts, last = log.start_offsets(places), log.end_offsets(places)
    merged = heapq.merge(
        *(_of_partition(log, place, starts[place], last[place], until, ends) for place in places),
        key=lambda record: (record.timestamp_ms, record.topic, record.partition, record.offset),
    )
    yield from merged


def _of_partition(
    log: Log, place: TopicPartition, start: int, end: int, until: ReplayEnd, ends: dict[str, int]
) -> Iterator[SourceRecord]:
    name = f"{place.topic}-{place.partition}"
    until_ms = until.time_ms
    if place in until.offsets:
        end, until_ms = min(end, until.offsets[place]), None
    ends[name] = end
    if start >= end:
        return
    reader = log.reader()
    try:
        for batch in reader.fetch(place, start, end):
            for row in range(len(batch)):
                record = batch.record(row)
                if until_ms is not None and record.timestamp_ms > until_ms:
                    ends[name] = record.offset
                    return
                yield record
    finally:
        reader.close()


class _Target:
    """The database of a replay: a table for each read model, and one for the states of each aggregate."""

    def __init__(
        self, folder: Path, models: list[ReadModel], aggregates: Iterable[EventSourced[Any, Any, Any]]
    ) -> None:
        self._models = models
        self._aggregates = {each.events_topic: each for each in aggregates}
        self._states: dict[str, dict[str, AggregateState[Any]]] = {topic: {} for topic in self._aggregates}
        self._database = sqlite3.connect(folder / DATABASE, isolation_level=None)

    def __enter__(self) -> _Target:
        # No journal: of a replay that stops half way nothing counts, and it would be no part of the result.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("BEGIN")
        for model in self._models:
            shape = model.shape
            columns = ", ".join(f"{name} {declared}" for name, declared in shape.columns.items())
            self._database.execute(f"CREATE TABLE {model.name} ({columns}, PRIMARY KEY ({', '.join(shape.key)}))")
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")
        self._database.close()

    def take(self, record: SourceRecord) -> None:
        """Take a record of the log."""
        aggregate = self._aggregates.get(record.topic)
        if aggregate is not None:
            recorded = read_recorded(aggregate, record)
            if recorded is None:  # a record of others
                return
            states, key = self._states[record.topic], recorded.aggregate_id
            before = states.get(key) or AggregateState(key, 0, aggregate.initial_state())
            states[key] = evolved(aggregate, before, recorded)
        for model in self._models:
            if model.source.topic == record.topic and not isinstance(model.source, TableSource):
                self._write(model, record)

    def take_tables(self, driver: TopologyTestDriver) -> None:
        """Take what the topology has written for tables."""
        for model in self._models:
            if not isinstance(model.source, TableSource):
                continue
            queue = driver.output_queue(model.source.topic)
            while queue:
                raw = queue.popleft()
                self._write(model, SourceRecord(raw.topic, 0, 0, raw.timestamp_ms, raw.key, raw.value, raw.headers))

    def _write(self, model: ReadModel, record: SourceRecord) -> None:
        for key, columns in model.changes(record):
            if columns is None:
                where = " AND ".join(f"{name} = ?" for name in key)
                self._database.execute(
                    f"DELETE FROM {model.name} WHERE {where}", [stored(each) for each in key.values()]
                )
                continue
            names = [*key, *columns]
            changed = ", ".join(f"{name} = excluded.{name}" for name in columns)
            self._database.execute(
                f"INSERT INTO {model.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
                f"ON CONFLICT ({', '.join(key)}) DO {f'UPDATE SET {changed}' if changed else 'NOTHING'}",
                [stored(each) for each in (*key.values(), *columns.values())],
            )

    def finish(self, result: Replay) -> None:
        """Write the states, and count."""
        for topic, aggregate in self._aggregates.items():
            table = '"' + f"{aggregate.name}-state".replace('"', '""') + '"'
            self._database.execute(
                f"CREATE TABLE {table} (id text PRIMARY KEY, version integer, type text, state text)"
            )
            rows = []
            for key, state in sorted(self._states[topic].items()):
                name = aggregate.state_types.name_of(state.state)
                rows.append((key, state.version, name, aggregate.state_types.encode(name, state.state).decode()))
            self._database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)
            result.states += len(rows)
        for model in self._models:
            (result.rows[model.name],) = self._database.execute(f"SELECT count(*) FROM {model.name}").fetchone()
