"""The Spark source: its offset is only the number of an epoch; what the epoch reads is in our own epoch record.

Spark starts half a dozen short-lived Python processes before the first epoch, each of which imports this module to
learn what the source is called and what its schema is. So what the work needs is imported where the work is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from hayase.runtime.wire.shuffle_schema import SPARK_SCHEMA
from hayase.runtime.worker.plain_daemon import hide_errors_after_jvm_exit

if TYPE_CHECKING:
    import pyarrow as pa

    from hayase.runtime.epochs.planner import EpochPlanner
    from hayase.runtime.epochs.shared_planner import SharedPlanner
    from hayase.runtime.epochs.slot_jobs import SlotOrder
    from hayase.runtime.epochs.span_scheduler import SpanScheduler

SOURCE_NAME = "hayase"

hide_errors_after_jvm_exit()  # importing this module is all that the short-lived processes have in common


class SlotWork(InputPartition):
    """The work order of one slot.

    Its bundles of level 0 for one epoch, and where the next ones come from if the job is a span.
    """

    def __init__(self, slot: int, record: bytes, span: str | None) -> None:
        super().__init__(slot)
        self.slot = slot
        self.record = record
        self.span = span


class EpochReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans epochs in one long-lived process beside the driver, and runs level 0 in the workers."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._epoch_planner: EpochPlanner | None = None
        self._span_scheduler: SpanScheduler | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_epoch_planner": None, "_span_scheduler": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The last completed epoch."""
        return {"epoch": self._planner().last_done()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Epochs bound themselves."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read to the ends as they are now, then stop."""
        self._planner().freeze()

    def latestOffset(self, start: dict[str, int] | None, limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The next epoch, or `start` if there is nothing to do."""
        planner, spans = self._planner(), self._spans()
        spans.finish()
        before = start if start is not None else {"epoch": planner.last_done()}
        after = spans.last_completed(before["epoch"])
        epoch = planner.next_epoch(after)
        if epoch <= after:
            return before
        if epoch > before["epoch"]:
            return {"epoch": epoch}
        # A span left its first epoch open; to Spark, the same offset would be nothing new.
        return {"epoch": epoch, "again": before.get("again", 0) + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One work order a slot; none where nothing is new: Spark runs a first batch all the same."""
        if end == start:
            return []
        planner = self._planner()
        record = planner.record(end["epoch"])
        span, data = self._spans().begin(record), record.to_bytes()
        return [SlotWork(slot, data, span) for slot in range(planner.slots)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the slot's bundles of level 0; in a span, all of the slot's bundles, for one epoch after the other."""
        from hayase.runtime.worker.span_client import run_slot

        assert isinstance(partition, SlotWork)
        return run_slot(self._options, partition.slot, partition.record, partition.span)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing: the end of an epoch is marked when the next one is asked for."""

    def stop(self) -> None:
        """Let go of connections."""
        if self._span_scheduler is not None:
            self._span_scheduler.close()
        if self._epoch_planner is not None:
            self._epoch_planner.close()

    def _spans(self) -> SpanScheduler:
        if self._span_scheduler is None:
            from hayase.runtime.epochs.span_scheduler import SpanScheduler

            self._span_scheduler = SpanScheduler(self._planner())
        return self._span_scheduler

    def _planner(self) -> EpochPlanner:
        if self._epoch_planner is None:
            from hayase.runtime.epochs.planner import EpochPlanner
            from hayase.runtime.worker.parent_death import watch_parent

            watch_parent()  # while it waits, for brokers perhaps, it does not see that the JVM is gone
            self._epoch_planner = EpochPlanner.open(self._options)
        return self._epoch_planner


class PoolWork(InputPartition):
    """The work order of one slot of a shared runtime: where the requests come from, or the requests themselves."""

    def __init__(self, job: int, order: SlotOrder) -> None:
        super().__init__(order.slot)
        self.slot = order.slot
        self.job = job
        self.address = order.address
        self.round = order.round


class PoolReader(DataSourceStreamReader):
    """Plans the epochs of all topologies of a shared runtime, and runs them in the workers.

    To Spark, a micro-batch is a number: while it goes on, its tasks are the slots, or it is one round.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._shared_planner: SharedPlanner | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_shared_planner": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first job."""
        return {"job": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Epochs bound themselves."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int] | None, limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The next job, or `start` if there is nothing to do."""
        after = start["job"] if start is not None else 0
        return {"job": self._planner().begin_job(after)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """A work order for each slot that has something to do."""
        if end == start:
            return []
        return [PoolWork(end["job"], order) for order in self._planner().jobs.orders(end["job"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Work on requests until the job ends, or on those of a round."""
        from hayase.runtime.wire.shared_options import shared_options
        from hayase.runtime.worker.slot_client import run_pool_slot, run_round_slot

        options = shared_options(self._options)
        assert isinstance(partition, PoolWork) and options is not None
        if partition.round is not None:
            return run_round_slot(options, partition.slot, partition.round)
        return run_pool_slot(options, partition.slot, partition.job, partition.address)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing: epochs are marked by the loops of their topologies."""

    def stop(self) -> None:
        """Let go of connections."""
        if self._shared_planner is not None:
            self._shared_planner.close()

    def _planner(self) -> SharedPlanner:
        if self._shared_planner is None:
            from hayase.runtime.epochs.shared_planner import SharedPlanner
            from hayase.runtime.wire.shared_options import shared_options
            from hayase.runtime.worker.parent_death import watch_parent

            watch_parent()
            options = shared_options(self._options)
            assert options is not None
            self._shared_planner = SharedPlanner(options)
        return self._shared_planner


class EpochSource(DataSource):
    """`spark.readStream.format("hayase")`, with the options that `query.start_query` gives it."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return SOURCE_NAME

    def schema(self) -> StructType | str:
        """The one schema of all rows."""
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader: of one application, or of a shared runtime."""
        return PoolReader(self.options) if "shared" in self.options else EpochReader(self.options)
