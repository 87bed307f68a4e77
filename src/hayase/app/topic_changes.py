"""Has a running application read topics that its patterns match and that were made after it had started."""

from __future__ import annotations

import logging
import re
import time
from typing import Protocol

from hayase.app.connected_runner import ConnectedRunner
from hayase.app.topic_watch import TopicWatch
from hayase.app.topics import resets_of
from hayase.app.unread_records import DRAIN_TIMEOUT_S, not_drained
from hayase.core.config import StreamsConfig
from hayase.core.errors import CheckpointError, HayaseError, ProcessingError, ProductionError, SerializationError
from hayase.core.time import SystemClock
from hayase.log.config import log_config
from hayase.log.protocol import Log
from hayase.runtime.driver.query_runner import QueryRunner
from hayase.runtime.driver.topology_runner import TopologyRunner
from hayase.runtime.epochs.start_offsets import record_positions
from hayase.runtime.wire.app_spec import AppSpec
from hayase.storage.blobs import BlobStore
from hayase.topology.resolve import has_patterns, with_pattern_topics
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.app")

_NOT_OF_A_PROGRAM = frozenset({"EXECUTOR_LOST", "PLANNER_LOST", "PROCESS_NOT_STARTED", "SPARK_DIED"})
"""Conditions that say nothing about whether a program can finish an epoch."""
_EXPLAINED = frozenset({"OPEN_EPOCH_OF_ANOTHER_PLAN", "UNREAD_INTERNAL_RECORDS"})


class Prepare(Protocol):
    """Prepares an application: see `hayase.app.prepare.prepare`."""

    def __call__(self, *, unfinished: int | None = None) -> AppSpec:
        """The application; `unfinished`: an epoch that the program of before could not finish."""
        ...


class TopicChanges:
    """Where the log has new topics, holds the query between epochs and goes on with one that reads them too.

    Kafka Streams does the same by a rebalance. Likewise where a run began with the program of before, to which an open
    epoch or records of internal topics are left: then the one that was started goes on. New topics are begun as topics
    are at a first start.

    Args:
        topology: with its patterns; without any, nothing is ever done.
        config: the settings.
        blobs: the checkpoint.
        runner: the run.
        plan: plans the application for the topics that are there; see `hayase.app.prepare`.
        shipped: what the run was begun with.
        watch: whether to look for new topics.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        blobs: BlobStore,
        runner: QueryRunner | TopologyRunner | ConnectedRunner,
        plan: Prepare,
        shipped: AppSpec,
        *,
        watch: bool,
    ) -> None:
        self._blobs = blobs
        self._runner = runner
        self._plan = plan
        self._asked = False
        self._watch: TopicWatch | None = None
        if watch and has_patterns(topology):
            interval_ms = config.metadata_max_age_ms
            self._watch = TopicWatch(topology, log_config(config), interval_ms, shipped.plan.matched, self._record)
        self._topology = topology
        self._reset = config.auto_offset_reset
        self._shipped = shipped
        self._drains_until: float | None = None

    def due(self) -> bool:
        """Whether another program is to go on, and no epoch is open. While there is one, none is begun.

        It reads new topics; or it is the one that was started, and the one before it has done what was left to it.

        Raises:
            CheckpointError: `UNREAD_INTERNAL_RECORDS`: that one takes too long to empty internal topics.
        """
        if self._shipped.hands_over:
            return self._has_handed_over()
        new = self._watch.new() if self._watch is not None else ()
        if not new:
            return False
        if not self._asked:
            self._asked = True
            _LOG.info("new topics match a pattern and are read from now on: %s", ", ".join(sorted(new)))
            self._runner.run.control.request_change(True)
        return self._runner.run.control.suspended()

    def take(self) -> None:
        """Go on with the new topics, or with the program that was started.

        Raises:
            TopologyError, CheckpointError, UnknownTopicError: it cannot, as a start with them could not.
        """
        self._go_on_with(self._plan())

    def may_redo(self, error: HayaseError) -> bool:
        """Whether it is the program before that failed with an error, at the epoch that was left to it."""
        of_a_program = isinstance(error, ProcessingError | ProductionError | SerializationError)
        return self._shipped.finishes is not None and of_a_program and error.condition not in _NOT_OF_A_PROGRAM

    def redo(self, error: HayaseError) -> None:
        """Have the program that was started do that epoch again.

        Raises:
            CheckpointError: `OPEN_EPOCH_OF_ANOTHER_PLAN`: a bundle has completed it under the program before.
            HayaseError: as `take`.
        """
        _LOG.warning("the program before cannot finish epoch %d, which it began: %s", self._shipped.finishes, error)
        try:
            shipped = self._plan(unfinished=self._shipped.finishes)
        except CheckpointError as refused:
            if refused.condition == "OPEN_EPOCH_OF_ANOTHER_PLAN":
                refused.message += f". The program before failed with: {error.message}"
            raise
        self._go_on_with(shipped)

    def _go_on_with(self, shipped: AppSpec) -> None:
        self._shipped = shipped
        self._drains_until = None
        self._runner.replace(shipped, self._blobs)
        if self._watch is not None:
            self._watch.take(shipped.plan.matched)
        self._asked = False

    def explain(self, error: HayaseError) -> None:
        """Say of an error that ends the application that it is the program before that failed, if it is."""
        app = self._shipped
        if not app.hands_over or error.condition in _EXPLAINED:
            return
        left = f"finish epoch {app.finishes}" if app.finishes is not None else f"empty {', '.join(sorted(app.drains))}"
        error.message += (
            f". It is the program before that failed: it has to {left} before the one that was started goes on. If a "
            "function of it is wrong, start the old topology with the corrected function first, then the changed one"
        )

    def _has_handed_over(self) -> bool:
        control, now = self._runner.run.control, time.monotonic()
        paused = control.pause_requested()
        if control.suspended() and not paused:
            return True
        if paused or not control.ready() or self._drains_until is None:
            self._drains_until = now + DRAIN_TIMEOUT_S
        if self._shipped.drains and now > self._drains_until:
            raise not_drained(self._shipped.drains)
        return False

    def _record(self, log: Log, topics: frozenset[str]) -> None:
        """Keep where new topics begin: the first epoch that reads them is a while away."""
        resets = resets_of(
            with_pattern_topics(self._topology, lambda _, pattern: _matched(pattern, topics)), self._reset
        )
        record_positions(self._blobs, log, log.describe(sorted(topics)).values(), resets, SystemClock().now_ms())

    def close(self) -> None:
        """Look for no more topics."""
        if self._watch is not None:
            self._watch.close()


def _matched(pattern: re.Pattern[str], topics: frozenset[str]) -> tuple[str, ...]:
    return tuple(topic for topic in sorted(topics) if pattern.fullmatch(topic))
