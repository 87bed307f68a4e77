"""A worker's reader and writer, which wait for brokers that are away instead of failing their task.

Spark tries a task four times in all, within seconds; an outage of minutes is not for it to bridge. Both wait only where
asking again is safe, and count from the last answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from hayase.core.errors import LogError
from hayase.core.patience import Patience, Wait
from hayase.core.records import TopicPartition
from hayase.core.steps import asking
from hayase.log.protocol import EpochWriter, LogReader, Marker, OutgoingBatch, RecordBatch
from hayase.runtime.wire.planner_control import PlannerControl

T = TypeVar("T")

_AWAY = "BROKER_UNAVAILABLE"


class PatientReader:
    """A reader that goes on where it was when brokers are back."""

    def __init__(self, reader: LogReader, patience: Patience) -> None:
        self._reader = reader
        self._patience = patience

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        """See `LogReader.fetch`."""
        wait = self._patience.begin()
        at = start
        while True:
            batches = self._reader.fetch(partition, at, end)
            try:
                while True:
                    wait.ask()
                    with asking():
                        batch = next(batches, None)
                    if batch is None:
                        return
                    wait.over()
                    if len(batch.offsets):
                        at = int(batch.offsets[-1]) + 1
                    yield batch
            except LogError as error:
                _wait_or_raise(wait, error)

    def close(self) -> None:
        """See `LogReader.close`."""
        self._reader.close()


class PatientWriter:
    """A writer that tries again when brokers are back. What is appended may then be there twice, as `append` says."""

    def __init__(self, writer: EpochWriter, patience: Patience) -> None:
        self._writer = writer
        self._patience = patience

    def append(self, batches: Sequence[OutgoingBatch]) -> None:
        """See `EpochWriter.append`."""
        patiently(self._patience, lambda: self._writer.append(batches))

    def publish_epoch(
        self,
        application_id: str,
        bundle: str,
        marker: Marker,
        batches: Sequence[OutgoingBatch],
        *,
        plan_position: int | None = None,
        is_closed: Callable[[], bool] | None = None,
    ) -> bool:
        """See `EpochWriter.publish_epoch`."""
        return patiently(
            self._patience,
            lambda: self._writer.publish_epoch(
                application_id, bundle, marker, batches, plan_position=plan_position, is_closed=is_closed
            ),
        )

    def close(self) -> None:
        """See `EpochWriter.close`."""
        self._writer.close()


def patience_of(options: Mapping[str, str], who: str) -> Patience:
    """How long a process of a run waits for what is away. It tells the run so, if that is on this machine.

    Args:
        options: by which the process finds the application.
        who: the process.
    """
    folder = Path(options.get("control", ""))
    control = PlannerControl(folder) if options.get("control") and folder.is_dir() else None
    limit_s = int(options.get("patience_ms", "0")) / 1000
    return Patience(limit_s, partial(control.publish_waiting, who) if control is not None else lambda _: None)


def patiently(patience: Patience, ask: Callable[[], T]) -> T:
    """Ask a log, again and again while its brokers are away.

    Raises:
        LogError: `BROKER_UNAVAILABLE` after the time that `patience` gives; any other at once.
    """
    wait = patience.begin()
    while True:
        try:
            with asking():
                answer = ask()
        except LogError as error:
            _wait_or_raise(wait, error)
        else:
            wait.over()
            return answer


def _wait_or_raise(wait: Wait, error: LogError) -> None:
    if error.condition != _AWAY:
        wait.over()  # an answer, if no good one
        raise error
    if not wait.again(error):
        raise error
