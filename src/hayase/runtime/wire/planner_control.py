"""The planner's side of a run: what the driver requests of it, and what it says about itself.

Workers publish why they wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hayase.core.private_files import open_file
from hayase.runtime.wire.run_folder import (
    DUE,
    ENDED,
    FAILURE,
    READY,
    RELEASED,
    REPORTS,
    STATUS,
    SUSPENDED,
    WAITING,
    WHAT,
    YIELD,
    RunFolder,
)
from hayase.storage.disk_full import naming_full_disk
from hayase.task.epoch_record import EpochRecord


class PlannerControl(RunFolder):
    """Publishes that the planner is ready, suspended, and how far it is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._seen: list[str] = []
        self._known: list[str] = []
        self._status: bytes | None = None

    def yield_requested(self) -> bool:
        """Planner: whether there are others."""
        return self._exists(YIELD)

    def suspend_requested(self) -> bool:
        """Planner: whether to open no new epoch, for whatever reason."""
        self._seen = self._tokens()
        return bool(self._seen)

    def requests_changed(self) -> bool:
        """Planner: whether requests to open no new epoch have come or gone since the last call."""
        known, self._known = self._known, self._tokens()
        return known != self._known

    def publish_suspended(self) -> None:
        """Planner: no epoch is open, and none begins while a request that it has seen is in place."""
        said = "\n".join(self._seen).encode()
        if self._read(SUSPENDED) != said:
            self._write(SUSPENDED, said)

    def publish_ready(self) -> None:
        """Planner: up and asking the log for data."""
        if not self._exists(READY):
            self._write(READY, str(os.getpid()).encode())

    def publish_closed(self) -> None:
        """Planner: about to end in order."""
        if self._read(READY) == str(os.getpid()).encode():
            (self._folder / READY).unlink(missing_ok=True)

    def publish_failure(self, text: str) -> None:
        """Planner of a shared runtime: the topology has failed, and with what."""
        self._write(FAILURE, text.encode())

    def publish_released(self, start: int) -> None:
        """Planner of a shared runtime: nothing of that start of the topology is at work or kept any more."""
        self._write(RELEASED, str(start).encode())

    def publish_end(self) -> None:
        """Planner of a shared runtime: the topology is at the end of its input."""
        self._write(ENDED, b"")

    def publish_status(self, status: bytes) -> None:
        """Planner: how far the application is; nothing is written if that was published last."""
        if status != self._status:
            self._write(STATUS, status)
            self._status = status

    def publish_waiting(self, who: str, why: str) -> None:
        """Planner, or a worker on the same machine: it waits for something that is away; empty: it goes on."""
        try:
            if why:
                self._write(f"{WAITING}{who}", why.encode())
            else:
                (self._folder / f"{WAITING}{who}").unlink(missing_ok=True)
        except OSError:  # the run is over
            return

    def due(self) -> tuple[int, int] | None:
        """Planner: what the driver published last; `None` if nothing is due at any time that is known."""
        data = self._read(DUE)
        if data is None:
            return None
        epoch, due_ms = data.split()
        return int(epoch), int(due_ms)

    @contextmanager
    def reporting(self) -> Iterator[Callable[[bytes], object]]:
        """Planner: while a span goes on, one line, without line ends in it, for each completed epoch."""
        path = self._folder / f"{REPORTS}{time.time_ns():020d}"
        with os.fdopen(open_file(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:

            def report(line: bytes) -> None:
                rest = memoryview(line + b"\n")
                # A line that is cut short ends the span, and the next one has a file of its own.
                with naming_full_disk(WHAT, self._folder):
                    while rest:
                        rest = rest[file.write(rest) :]
                    os.utime(self._folder)  # so that a watch of the folder sees it

            yield report


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
        records: what the epoch covers, as long as it may not be done.
    """

    epoch: int
    lag_records: int
    waiting: str = ""
    lost_offsets: int = 0
    lost: LostOffsets = msgspec.field(default_factory=LostOffsets)
    records: int = 0

    def unprocessed(self, last_done: int) -> int:
        """Records that no epoch up to `last_done` covers: Kafka's lag, from the committed offset to the end."""
        return self.lag_records + (self.records if self.epoch > last_done else 0)
