"""The transactions of a source task: records, offsets and marker become visible together, once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from hayase.connect.exceptions import ConnectError
from hayase.connect.generations import SupersededError, bundle_name, identity, marker_number
from hayase.connect.model import SourceOffset
from hayase.connect.offsets import offset_batch
from hayase.core.errors import CheckpointError, LogError, UnknownTopicError
from hayase.core.failpoints import reach
from hayase.core.time import Clock
from hayase.log.protocol import EpochWriter, Marker, OutgoingBatch, is_superseded

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_LASTING = ("AUTHENTICATION_FAILED", "TLS_FAILED", "TRANSACTION_TIMEOUT")
"""Failures of the log that do not pass by themselves."""


class TaskPublisher:
    """Publishes what one task of one generation polls. It belongs to the task's thread.

    Args:
        writer: of this task alone: a writer that tasks share would hold one back while another commits.
        group: the worker's `group.id`.
        connector: whose task.
        task: its id.
        generation: which `Generations.begin` gave.
        offsets_topic: where offsets go.
        clock: the time that offset records carry.
        sleep: waits that many seconds while the log is away; raises to give up.
    """

    def __init__(
        self,
        writer: EpochWriter,
        *,
        group: str,
        connector: str,
        task: int,
        generation: int,
        offsets_topic: str,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._writer = writer
        self._group = group
        self._connector = connector
        self._task = task
        self._generation = generation
        self._offsets_topic = offsets_topic
        self._clock = clock
        self._sleep = sleep
        self._n = 0

    def publish(self, batches: Sequence[OutgoingBatch], offsets: Mapping[bytes, SourceOffset | None]) -> None:
        """Write one transaction; when it returns, all of it is durable.

        While the log is away it tries again: the same transaction under the same marker, so that one whose answer was
        lost is recognized and not written twice.

        Args:
            batches: the records.
            offsets: by key of the offset record; not empty: an offset proves which transaction was the last.

        Raises:
            SupersededError: another generation has begun; nothing was written, or it is known to those who began it.
            ProductionError: a record was refused permanently; nothing was written, and the next call may go on.
            UnknownTopicError: a topic does not exist; as above.
            LogError: a failure that does not pass.
        """
        number = marker_number(self._generation, self._n + 1)
        marker = Marker(identity(self._group, self._connector), number, uuid.uuid4().hex)
        bundle = bundle_name(self._connector, self._task)
        written = [
            *batches,
            offset_batch(self._offsets_topic, offsets.items(), self._task, number, self._clock.now_ms()),
        ]
        pause_s = _FIRST_PAUSE_S
        while True:
            reach("before_publish", bundle=bundle, epoch=number)
            try:
                # `False`: the marker with this nonce is there, so an attempt whose answer was lost has succeeded.
                self._writer.publish_epoch(self._group, bundle, marker, written)
            except UnknownTopicError:
                raise
            except (CheckpointError, LogError) as error:
                if is_superseded(error):
                    raise self._superseded() from error
                if isinstance(error, CheckpointError) or error.condition in _LASTING:
                    raise
                self._sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            reach("after_publish", bundle=bundle, epoch=number)
            self._n += 1
            return

    def _superseded(self) -> ConnectError:
        return SupersededError(
            "SUPERSEDED",
            f"generation {self._generation} of the connector was replaced by a later one, so this task ends; what it "
            "had polled and not published is polled again by the task that took its place. If the connector was "
            "neither restarted nor changed, look for a second worker with the same group.id",
            connector=self._connector,
            task=self._task,
        )

    def close(self) -> None:
        """Let go of the writer."""
        self._writer.close()
