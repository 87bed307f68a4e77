"""What the planner of epochs says about itself, for the driver and for the planner that may take its place."""

from __future__ import annotations

import msgspec

from hayase.task.epoch_record import EpochRecord


class LostOffsets(msgspec.Struct):
    """A count over the epochs of a run, passed from planner process to planner process in the run's control folder.

    What was skipped is read from epoch records, so it counts once, whenever a planner ends: where an epoch begins
    behind the end of the one before. What was gone of an epoch that an earlier run had left open shows in no record; it
    counts with the first planner that adopts that epoch.

    Attributes:
        offsets: the count.
        through: the last epoch that is counted.
        opened: the last epoch left open by an earlier run of which anything was gone.
    """

    offsets: int = 0
    through: int = -1
    opened: int = -1

    def begun(self, record: EpochRecord, previous: EpochRecord | None) -> None:
        """Count an epoch that was recorded."""
        if record.epoch <= self.through:
            return
        self.through = record.epoch
        before = previous.ranges if previous is not None else {}
        for topic, partitions in record.ranges.items():
            for partition, (start, _) in partitions.items():
                if partition in before.get(topic, {}):
                    self.offsets += max(0, start - before[topic][partition][1])

    def adopted(self, epoch: int, gone: int) -> None:
        """Count what was gone of an epoch that an earlier run left open."""
        if gone and epoch > self.opened:
            self.opened = epoch
            self.offsets += gone


class PlannerStatus(msgspec.Struct, frozen=True):
    """How far the planner is, for progress displays.

    Attributes:
        epoch: the last epoch planned.
        lag_records: what the log holds beyond it.
        waiting: why no epoch can be planned at the moment, e.g. that the brokers do not answer; empty if nothing is
            amiss.
        lost_offsets: how many offsets were skipped in this run, because records that were not read are gone.
        lost: what of that epoch records show: the planner that takes this one's place goes on from there.
    """

    epoch: int
    lag_records: int
    waiting: str = ""
    lost_offsets: int = 0
    lost: LostOffsets = msgspec.field(default_factory=LostOffsets)
