"""A topology that follows its topics in this process: records in, outputs to a function, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from hayase.core.errors import HayaseError, UnknownTopicError
from hayase.core.logs import log_context
from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch, RecordBatch
from hayase.server.local_run.epoch_size import EpochSize, parts_of, size_of
from hayase.server.local_run.run import STATE_BYTES_MAX, LocalRun
from hayase.server.local_run.tails import LogTails, Offsets
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.server.local_run")
READ_RECORDS_MAX = 20_000
"""How many records are read from the log before they are processed."""
INPUT_BYTES_MAX = 1 << 20
_RECORD_BYTES = 100
_IDLE_S = 1.0
"""How often a topology with processors of its own is called without input."""
OnOutput = Callable[[list[OutputBatch]], None]


class LocalQuery:
    """Runs a topology over what is in its topics, and what comes, until it is closed or fails.

    It begins at the ends of the topics or at their beginnings, and hands over the outputs of each epoch in its own
    thread; a function that waits there makes the query wait. What is waiting as input is bounded: beyond that the query
    leaves the common tail and reads the log by itself, until it has caught up.

    Args:
        topology: what runs.
        settings: of Hayase.
        tails: of the log that it reads.
        on_output: gets what is written; what it raises ends the query.
        reset: where it begins: `earliest` or `latest`.
        start: where it begins in partitions for which that is known.
        rebuild_to: records before these offsets only rebuild the state: what they write is written already.
        state_bytes_max: see LocalRun.
        paused: it rebuilds its state, and processes nothing more until `resume`.
        name: for logs.

    Attributes:
        run: the tasks.
        consumed: how many records it has processed, those that only rebuilt its state included.
        is_rebuilding: it processes what was processed before, to have its state again.
        error: why it has ended by itself.

    Raises:
        HayaseError: as LocalRun.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Mapping[str, object],
        tails: LogTails,
        on_output: OnOutput,
        reset: Literal["earliest", "latest"] = "latest",
        start: Mapping[TopicPartition, int] | None = None,
        *,
        rebuild_to: Mapping[TopicPartition, int] | None = None,
        state_bytes_max: int = STATE_BYTES_MAX,
        on_end: Callable[[BaseException], None] | None = None,
        paused: bool = False,
        name: str = "local",
    ) -> None:
        self.run = LocalRun(topology, settings, _partitions_of(tails), state_bytes_max=state_bytes_max)
        self.error: BaseException | None = None
        self._tails = tails
        self._on_output = on_output
        self._on_end = on_end
        self._name = name
        self._waiting: deque[RecordBatch] = deque()
        self._waiting_bytes = 0
        self._overrun: Offsets = {}
        self._catches_up = False
        self._changed = threading.Condition()
        self._closed = False
        self._busy = True
        self.consumed = 0
        self.is_rebuilding = True
        self._size = EpochSize()
        self._may_run = threading.Event()
        if not paused:
            self._may_run.set()
        self._rebuild_to = dict(rebuild_to or {})
        topics = self.run.source_topics
        self._gone: UnknownTopicError | None = None
        self._listening = tails.listen(topics, self._take, self._lose)
        self._read_to: Offsets = dict(self._listening.start)
        """How far each partition was read, processed or not."""
        self._done_to: Offsets = {}
        self._from = self._start_offsets(reset, start or {})
        self._thread = threading.Thread(target=self._follow, name=f"hayase-{name}", daemon=True)
        self._thread.start()

    def positions(self) -> Offsets:
        """The offset behind the last record processed, of each partition."""
        with self._changed:
            return dict(self._done_to)

    def has_processed(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all records before these offsets are processed."""
        if not self._tails.has_handed_over(ends):
            return False
        with self._changed:
            return not (self._waiting or self._overrun or self._busy)

    @property
    def is_behind(self) -> bool:
        """Whether more has come than waits in memory, so that it reads the log by itself."""
        return self._catches_up or bool(self._overrun)

    def pause(self) -> None:
        """Process nothing more from the next epoch on, until `resume`; a state that is being rebuilt is completed."""
        self._may_run.clear()

    def resume(self) -> None:
        """Go on."""
        self._may_run.set()

    def close(self) -> None:
        """End the query and let go of its state; calling it again does nothing."""
        self._listening.close()
        with self._changed:
            self._closed = True
            self._may_run.set()
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self.run.close()

    def _start_offsets(self, reset: str, start: Mapping[TopicPartition, int]) -> Offsets:
        ends = self._listening.start
        first = dict(ends) if reset == "latest" else dict(self._tails.log.start_offsets(list(ends)))
        return {partition: start.get(partition, first[partition]) for partition in ends}

    def _take(self, batch: RecordBatch) -> None:
        """A batch of the tail, in the tail's thread."""
        partition = TopicPartition(batch.topic, batch.partition)
        with self._changed:
            if self._closed:
                return
            if partition not in self._overrun:
                size = _size(batch)
                if self._waiting and self._waiting_bytes + size > INPUT_BYTES_MAX:
                    self._overrun[partition] = int(batch.offsets[0])
                else:
                    self._waiting.append(batch)
                    self._waiting_bytes += size
            self._read_to[partition] = int(batch.offsets[-1]) + 1
            self._changed.notify_all()

    def _lose(self, error: UnknownTopicError) -> None:
        """A topic was deleted: the query ends when it has processed what it has, in the tail's thread."""
        with self._changed:
            self._gone = error
            self._changed.notify_all()

    def _follow(self) -> None:
        with log_context(application_id=self._name):
            self._follow_until_end()

    def _follow_until_end(self) -> None:
        try:
            self._begin()
            while not self._closed:
                self._next_epoch()
        except BaseException as error:
            if isinstance(error, UnknownTopicError):  # its positions mean nothing for another topic of that name
                with self._changed:
                    gone = error.context.get("topic")
                    self._done_to = {place: end for place, end in self._done_to.items() if place.topic != gone}
            self.error = error
            if not isinstance(error, HayaseError):
                _LOG.exception("query %s has failed", self._name)
            self._listening.close()
            if self._on_end is not None:
                self._on_end(error)

    def _begin(self) -> None:
        """Rebuild the state, then process what is in the topics already."""
        ends = dict(self._listening.start)
        known = {
            partition: min(end, max(self._rebuild_to.get(partition, 0), self._from[partition]))
            for partition, end in ends.items()
        }
        self._catch_up(self._from, known)
        self.is_rebuilding = False
        self._catch_up(known, ends)

    def _next_epoch(self) -> None:
        with self._changed:
            self._busy = False
            if not self._waiting and not self._overrun and not self._closed and self._gone is None:
                self._changed.wait(_IDLE_S)
            self._busy = True
            batches, self._waiting = list(self._waiting), deque()
            self._waiting_bytes = 0
            missed, self._overrun = self._overrun, {}
            self._catches_up = bool(missed)
            ends = {partition: self._read_to[partition] for partition in missed}
        if self._closed:
            return
        if self._gone is not None and not batches:
            raise self._gone
        self._process(batches)
        if missed:
            self._catch_up(missed, ends)
            self._catches_up = False

    def _catch_up(self, start: Offsets, ends: Offsets) -> None:
        """Read the log from these offsets on, a part of each partition for each epoch."""
        reader = self._tails.log.reader()
        try:
            fetches = {
                partition: reader.fetch(partition, start[partition], end)
                for partition, end in ends.items()
                if end > start[partition]
            }
            share = max(1, READ_RECORDS_MAX // max(1, len(fetches)))
            while fetches and not self._closed:
                batches = []
                for partition, fetch in list(fetches.items()):
                    taken = _next(fetch, share)
                    batches += taken
                    if not taken:
                        del fetches[partition]
                self._process(batches)
        finally:
            reader.close()
        with self._changed:
            for partition, end in ends.items() if not self._closed else ():
                self._done_to[partition] = max(end, self._done_to.get(partition, 0))

    def _process(self, batches: list[RecordBatch]) -> None:
        """Process records, or, without any, only what is due by the clock."""
        if not batches:
            self._run_epoch([])
        for part in parts_of(batches, self._size):
            self._run_epoch(part)
            if self._closed:
                return

    def _run_epoch(self, batches: list[RecordBatch]) -> None:
        if not self.is_rebuilding:
            self._may_run.wait()
        if self._closed:
            return
        self._size.begin()
        written = self.run.run(batches)
        self._size.note(size_of(batches), written)
        self.consumed += size_of(batches)
        if written and not self.is_rebuilding:
            self._on_output(written)
        with self._changed:
            for batch in batches:
                self._done_to[TopicPartition(batch.topic, batch.partition)] = int(batch.offsets[-1]) + 1
            self._changed.notify_all()


def _next(fetch: Iterator[RecordBatch], count: int) -> list[RecordBatch]:
    """Batches with at least so many records, fewer at the end."""
    taken: list[RecordBatch] = []
    for batch in fetch:
        if len(batch):
            taken.append(batch)
            count -= len(batch)
        if count <= 0:
            break
    return taken


def _size(batch: RecordBatch) -> int:
    sizes = sum(map(len, filter(None, batch.keys))) + sum(map(len, filter(None, batch.values)))
    return sizes + _RECORD_BYTES * len(batch)


def _partitions_of(tails: LogTails) -> Callable[[str], int]:
    def count(topic: str) -> int:
        return len(tails.partitions([topic]))

    return count
