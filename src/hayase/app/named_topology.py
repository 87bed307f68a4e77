"""A named topology of a shared runtime: what `StreamsApp` offers, without a Spark query of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hayase.app.app import StreamsApp
from hayase.app.failure_recovery import FailureRecord
from hayase.app.topics import create_topics_of_processors
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, HayaseError, StreamsStoppedError
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.runtime.driver.run import Run
    from hayase.runtime.driver.shared_query import SharedQuery
    from hayase.runtime.driver.slot_loads import SlotLoads
    from hayase.runtime.driver.topology_runner import TopologyRunner
    from hayase.runtime.wire.app_spec import AppSpec
    from hayase.runtime.wire.topology_list import InputEnds
    from hayase.task.plan import Plan


class NamedTopology(StreamsApp):
    """One start of a topology in a `StreamsRuntime`, which makes, starts and closes it (KIP-813's named topology).

    State, error, progress, metrics, stores and queries are those of a StreamsApp. `StreamsRuntime.restart` makes a new
    object: get it by `StreamsRuntime.topology`.

    Attributes:
        name: its name in the runtime.
    """

    def __init__(self, name: str, topology: Topology, config: StreamsConfig, lost: HayaseError | None = None) -> None:
        if topology.spark_sources or topology.spark_sinks:
            raise ConfigError(
                "NOT_IN_SHARED_RUNTIME",
                f"topology {name!r} uses from_spark or to_spark, whose Spark jobs would wait for the cores that a "
                "shared runtime keeps: run it as a StreamsApp of its own",
            )
        super().__init__(topology, config)
        self.name = name
        self._lost = lost
        self._shared: SharedQuery | None = None
        self._loads: SlotLoads | None = None
        self._ends: InputEnds | None = None

    @property
    def errors(self) -> list[FailureRecord]:
        """The last ten failures since its start, oldest first."""
        return list(self._recovery.errors)

    @property
    def replaced(self) -> int:
        """How often it was started again after a failure."""
        return self._recovery.replaced

    @property
    def is_preceded(self) -> bool:
        """Whether the program that ran before goes first: it finishes an open epoch, or empties internal topics."""
        return self._preceded

    def run_in(self, shared: SharedQuery, loads: SlotLoads) -> None:
        """For the runtime: the query that runs it, and the loads of its slots, once there is one."""
        self._shared = shared
        self._loads = loads

    def end_at(self, ends: InputEnds) -> None:
        """For the runtime: a run to the end reads to these ends, and no further."""
        self._ends = ends

    def _start(self, *, bounded: bool) -> None:
        if self._shared is None:
            raise StreamsStoppedError(
                "STARTED_BY_RUNTIME",
                f"topology {self.name!r} is started by its runtime: call start, run or run_to_end of the "
                "StreamsRuntime; a topology that is added to a running one is started at once",
            )
        super()._start(bounded=bounded)

    def _take_folders(self) -> None:
        if self._lost is not None:
            raise self._lost
        super()._take_folders()

    def _settle_producers(self) -> None:
        """Its bundles are published by slots; the planner sees to that."""

    def _create_topics(self) -> None:  # a PatternsApp does so for itself
        create_topics_of_processors(self.topology, self.config)

    def _new_run(self, folder: Path, spark_settings: Mapping[str, str]) -> Run:
        from hayase.runtime.driver.run import Run

        assert self._shared is not None  # _start has looked
        return Run.within(folder, self._shared.endpoints)

    def _first_slot(self, plan: Plan) -> int:
        assert self._loads is not None  # as above
        return self._loads.first_slot(self.config.application_id, plan)

    def _new_runner(self, run: Run, shipped: AppSpec, *, bounded: bool) -> TopologyRunner:
        from hayase.runtime.driver.topology_runner import TopologyRunner

        assert self._shared is not None
        return TopologyRunner(run, shipped, self._blobs, self._shared, bounded=bounded, ends=self._ends)
