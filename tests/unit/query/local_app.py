"""An application whose bundles run in this process, over an embedded log and a real checkpoint: without Spark.

Each epoch goes through what workers and the planner of epochs do: record, levels, deltas, outputs, mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from hayase import Consumed, JsonSerde, Materialized, Serdes, StreamsBuilder, TimeWindows, Topology, count, sum_
from hayase.app.app import StreamsApp
from hayase.app.checkpoint import checkpoint_id_of, fix_plan
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, configured, failure_policy
from hayase.core.config import StreamsConfig
from hayase.core.failpoints import FailpointError
from hayase.core.records import TopicPartition
from hayase.core.time import ManualClock
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import EpochWriter, LogReader, OutputBatch
from hayase.query.local_folders import state_folders
from hayase.state.changelog.changelog import Changelog
from hayase.state.changelog.snapshot_policy import SnapshotPolicy, maybe_snapshot
from hayase.state.delta.delta import Delta
from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.bundle import BundleState
from hayase.storage.open import open_blobs
from hayase.task.bundle import BundleRunner
from hayase.task.edges import ReceivedRows
from hayase.task.epoch_record import EpochRecord, Epochs, Program, done_name, record_name
from hayase.topology.earlier import differs

START_MS = 1_700_000_000_000
EPOCH_MS = 1_000


def orders() -> Topology:
    """Two stores in two sub-topologies, and a windowed one."""
    import polars as pl

    builder = StreamsBuilder()
    schema = JsonSerde(schema={"item": pl.String, "amount": pl.Int64})
    given = builder.stream("orders", Consumed.with_(Serdes.string(), schema))
    given.group_by_key().agg(Materialized.as_("users"), n=count(), total=sum_("amount"))
    by_item = given.select_key(pl.col("item")).group_by_key()
    by_item.agg(Materialized.as_("items"), n=count(), total=sum_("amount"))
    windows = TimeWindows.of_size_and_grace(timedelta(seconds=10), timedelta(minutes=1))
    given.group_by_key().windowed_by(windows).agg(Materialized.as_("hourly"), n=count())
    return builder.build()


class LocalApp:
    """One run of an application; several may follow each other on the same folder."""

    def __init__(self, folder: Path, topology: Topology | None = None, *, partitions: int = 3, **settings: Any) -> None:
        self.folder = folder
        self.topology = topology or orders()
        self.settings: dict[str, Any] = {
            "application.id": "app",
            "log.dir": folder / "log",
            "state.dir": folder / "state",
            "checkpoint.fsync": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        config = StreamsConfig(self.settings)
        topology = configured(self.topology, config)
        self.log = open_log(log_config(config))
        for topic in source_topics(topology):
            if topic not in self.log.describe([topic]):
                self.log.create_topic(topic, partitions)
        infos = self.log.describe(source_topics(topology))
        counts = {name: info.partitions for name, info in infos.items()}
        options = compile_options(config)
        plan = make_plan(
            topology,
            counts,
            compile_subtopologies(topology, options),
            threads=config.num_stream_threads or 2,
        )
        self.plan = plan
        self.blobs = open_blobs(config.checkpoint_dir, fsync=False)
        fix_plan(self.blobs, "app", plan.to_json(), new_names=differs(topology))
        self.checkpoint_id = checkpoint_id_of(self.blobs)
        self.application_id, self.exactly_once, self.policy = "app", True, failure_policy(config)
        self.epoch_memory_max_bytes = config.epoch_memory_max_bytes
        self.folders = state_folders(config)
        self.recording_level = config.metrics_recording_level
        self._config, self._ids = config, {name: info.topic_id for name, info in infos.items()}
        self.counts = counts
        self._log_reader, self._log_writer = self.log.reader(), self.log.writer()
        self.snapshots: SnapshotPolicy | None = None
        programs = compile_subtopologies(topology, options, plan.repartitions)
        globals_ = {
            subtopology.global_store: subtopology.id
            for subtopology in plan.subtopologies.values()
            if subtopology.global_store is not None
        }
        self._runners = {b.id: BundleRunner(programs[b.subtopology], b, self, globals_) for b in plan.bundles}
        self.clock = ManualClock(START_MS)

    # what bundles see

    def reader(self) -> LogReader:
        return self._log_reader

    def writer(self) -> EpochWriter:
        return self._log_writer

    def state_copies(self, bundle: str) -> list[Path]:
        return [folder / bundle for folder in (Path(self._config.state_dir) / "app" / "followers").glob("*")]

    def partitions_of(self, topic: str) -> int:
        return self.log.describe([topic])[topic].partitions

    def after_apply(self, state: BundleState, changelog: Changelog, delta: Delta) -> None:
        if self.snapshots is not None:
            maybe_snapshot(state, changelog, self.snapshots)

    # what tests do

    @property
    def app(self) -> StreamsApp:
        """The facade, as any process may have it."""
        return StreamsApp(self.topology, self.settings)

    def put(self, rows: Iterable[tuple[str, str, int]], topic: str = "orders", time_ms: int = START_MS) -> None:
        """Append orders: user, item, amount."""
        rows = list(rows)
        values: list[bytes | None] = [b'{"item":"%s","amount":%d}' % (item.encode(), n) for _, item, n in rows]
        keys: list[bytes | None] = [user.encode() for user, _, _ in rows]
        self._log_writer.append([OutputBatch(topic, keys, values, [time_ms] * len(rows))])

    def plan_epoch(self, upto: Mapping[TopicPartition, int] | None = None, *, after_ms: int = EPOCH_MS) -> EpochRecord:
        """Publish the record of the next epoch: everything that is there, but no more than up to these offsets.

        Its wall clock is that of the epoch before, and `after_ms`.
        """
        epochs = Epochs(self.blobs)
        last = epochs.last_done()
        previous = epochs.record(last) if last >= 0 else None
        places = [TopicPartition(topic, p) for topic, n in self.counts.items() for p in range(n)]
        ends = self.log.end_offsets(places)
        ranges: dict[str, dict[int, tuple[int, int]]] = {topic: {} for topic in self.counts}
        for place in places:
            start = previous.ranges[place.topic][place.partition][1] if previous else 0
            end = ends[place] if upto is None else max(start, min(ends[place], upto.get(place, ends[place])))
            ranges[place.topic][place.partition] = (start, end)
        self.clock.advance_ms(after_ms)
        now_ms = (previous.wall_clock_ms if previous else START_MS) + after_ms
        record = EpochRecord(
            last + 1, self.checkpoint_id, self.plan.digest, now_ms, ranges, self._ids,
            previous.digest if previous else "", Program.of(self.plan, 1),
        )  # fmt: skip
        self.blobs.put_if_absent(record_name(record.epoch), record.to_bytes())
        return record

    def run_bundle(self, bundle: str, record: EpochRecord, rows: list[EdgeRow]) -> list[EdgeRow]:
        """One bundle's epoch; the rows that it sends."""
        return list(self._runners[bundle].run(record, ReceivedRows(rows)).rows)

    def epoch(self, rows: Iterable[tuple[str, str, int]] = (), *, done: bool = True) -> int:
        """An epoch over these orders; its number.

        Without `done` its mark is missing, as right after the last bundle.
        """
        rows = list(rows)
        if rows:
            self.put(rows)
        record = self.plan_epoch()
        edges: list[EdgeRow] = []
        for bundle in sorted(self.plan.bundles, key=lambda each: each.level):
            edges += self.run_bundle(bundle.id, record, edges)
        if done:
            self.mark_done(record)
        return record.epoch

    def run_with_failures(self, record: EpochRecord) -> int:
        """Run every bundle, once more where a failpoint ends the first attempt, without rows between them.

        How many failed.
        """
        failures = 0
        for bundle in self.plan.bundles:
            try:
                self.run_bundle(bundle.id, record, [])
            except FailpointError:
                failures += 1
                self.run_bundle(bundle.id, record, [])
        self.mark_done(record)
        return failures

    def mark_done(self, record: EpochRecord) -> None:
        """Every bundle has completed it."""
        self.blobs.put_if_absent(done_name(record.epoch), record.digest.encode())

    def close(self) -> None:
        """Stop."""
        for runner in self._runners.values():
            runner.close()
        self._log_reader.close()
        self._log_writer.close()
        self.log.close()


def rows_of(epoch: int, users: int = 5) -> list[tuple[str, str, int]]:
    """The orders of an epoch: every user buys once; the sum over users equals the sum over items."""
    return [(f"u{number}", f"i{(number + epoch) % 3}", epoch + number) for number in range(users)]


def totals_after(epoch: int, users: int = 5) -> Mapping[str, dict[str, int]]:
    """What the store `users` holds after an epoch in which and before which `rows_of` was put."""
    return {
        f"u{number}": {"n": epoch + 1, "total": sum(each + number for each in range(epoch + 1))}
        for number in range(users)
    }
