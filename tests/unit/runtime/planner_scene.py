"""An application as the planner of its epochs sees it."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

import msgspec

from hayase import Consumed, Serdes, StreamsBuilder, Topology, count
from hayase.compiler.build import make_plan, source_topics
from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import compile_options, failure_policy
from hayase.core.config import StreamsConfig
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.core.time import ManualClock
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.runtime.epochs.log_watch import LogWatch
from hayase.runtime.epochs.planner import EpochPlanner
from hayase.runtime.epochs.record_retention import Floor
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.planner_control import LostOffsets, PlannerControl, PlannerStatus
from hayase.state.environment.folders import StateFolders
from hayase.storage.open import open_blobs
from hayase.task.plan import Plan


class Scene:
    """An application on an embedded log, as the planner of epochs sees it."""

    def __init__(self, folder: Path) -> None:
        self.log_config = LogConfig("embedded", str(folder / "log"), {"fsync": "false"})
        self.log = open_log(self.log_config)
        self.log.create_topic("in", 2)
        self.log.create_topic("other", 2)
        self.blobs = open_blobs(str(folder / "checkpoint"), fsync=False)
        Floor(self.blobs, "L").begin()
        self.clock = ManualClock(1_000)
        self.folder = folder
        (folder / "control").mkdir()
        self.endpoints = RunEndpoints(str(folder / "control"), tempfile.mkdtemp(prefix="hayase-"))
        self.control = DriverControl(folder / "control")
        self.app = self._app()
        self._open: list[EpochPlanner] = []

    def _app(self) -> AppSpec:
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).group_by_key().agg(n=count())
        topology, config = builder.build(), StreamsConfig({"application.id": "app"})
        plan, options = self.plan_of(topology), compile_options(config)
        return AppSpec(
            application_id="app", checkpoint_id="L", topology=topology, plan=plan, options=options,
            policy=failure_policy(config), log=self.log_config, checkpoint=str(self.folder / "checkpoint"),
            checkpoint_fsync=False, folders=StateFolders(self.folder, self.folder / "memory"), followers_dir="",
            endpoints=self.endpoints, exactly_once=True, slots=1, max_records_per_epoch=10, max_task_idle_ms=0,
            commit_interval_ms=0, span_max_ms=60_000, resets={"in": AutoOffsetReset.earliest()}, history_retention_ms=0,
            purge_interval_ms=0,
            epoch_memory_max_bytes=1 << 30,
        )  # fmt: skip

    def plan_of(self, topology: Topology) -> Plan:
        options = compile_options(StreamsConfig({"application.id": "app"}))
        counts = dict.fromkeys(source_topics(topology), 2)
        return make_plan(topology, counts, compile_subtopologies(topology, options), threads=1)

    def planner(self, watch: LogWatch | None = None, **changes: object) -> EpochPlanner:
        app = dataclasses.replace(self.app, **changes)  # type: ignore[arg-type]
        made = EpochPlanner(
            app, self.blobs, open_log(self.log_config), self.clock, PlannerControl(self.folder / "control"), watch
        )
        self._open.append(made)
        return made

    def put(self, *times: int) -> None:
        writer = self.log.writer()
        writer.append([OutputBatch("in", [b"k%d" % t for t in times], [b"v"] * len(times), list(times))])
        writer.close()

    def ends(self) -> dict[int, int]:
        found = self.log.end_offsets([TopicPartition("in", 0), TopicPartition("in", 1)])
        return {partition.partition: end for partition, end in found.items()}

    def status(self) -> PlannerStatus:
        """Without what is for the next planner only."""
        data = self.control.status()
        assert data is not None
        return msgspec.structs.replace(msgspec.json.decode(data, type=PlannerStatus), lost=LostOffsets())

    def close(self) -> None:
        for planner in self._open:
            planner.close()
        self.log.close()
        shutil.rmtree(self.endpoints.sockets_dir)
