"""Filling a read model: a thread that drives the sink of its database."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from hayase.connect.columns import RecordColumns
from hayase.connect.contracts import SinkPartition, TransactionalSinkTask
from hayase.connect.errors import ErrorPolicy
from hayase.connect.exceptions import TARGET_REFUSES, ConnectError, RetriableError
from hayase.connect.generations import Generations
from hayase.connect.group_offsets import GroupOffsets
from hayase.connect.model import SinkRecord
from hayase.connect.sink_loop import SinkContext
from hayase.connect.transactional_sink import TransactionalSinkLoop
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError, LogError, UnknownTopicError
from hayase.core.metrics_registry import MetricsRegistry
from hayase.core.offset_reset import AutoOffsetReset
from hayase.core.records import TopicPartition
from hayase.core.time import SystemClock
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log, RecordBatch, TopicInfo
from hayase.patterns.read_models import registry
from hayase.patterns.read_models.read_model import ReadModel
from hayase.patterns.read_models.sources import TableSource

_LOG = logging.getLogger("hayase.patterns")
GROUP = "hayase-read-models"
_IDLE_S, _PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.2, 5.0
_COMMIT_MS = 10_000
_REFUSALS = (TARGET_REFUSES, "ROW_REFUSED", "UNKNOWN_TABLE", "UNKNOWN_COLUMN")


class ReadModelState(StrEnum):
    """What a read model is doing."""

    STARTING = "starting"
    FILLING = "filling"
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ReadModelStatus:
    """How a read model is.

    Attributes:
        name: of the model.
        version: that is filled.
        state: `filling` until it has had no lag once, then `running`; `waiting` for a database or a log that is away.
        lag: how many offsets are not in the database yet; -1: not known.
        position: how many offsets are.
        reason: what it waits for, or why it failed.
    """

    name: str
    version: int
    state: ReadModelState
    lag: int = -1
    position: int = 0
    reason: str = ""


class _Stopped(BaseException):
    """The thread was asked to stop, while it waited."""


class ReadModelRunner:
    """Runs one read model in a thread of this process, until it is closed.

    Two of one model, in any processes, do no harm: the later one goes on, the earlier one fails (`SUPERSEDED`).

    Args:
        model: which.
        config: settings that say where the log is.
    """

    def __init__(self, model: ReadModel, config: StreamsConfig) -> None:
        self.model = model
        self._log_config = log_config(config)
        if model.source.keys is not None:
            model.source.keys.bind(config)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"read-model-{model.name}", daemon=True)
        self._status = ReadModelStatus(model.name, model.version, ReadModelState.STARTING)
        self._caught_up = False
        self._loop: TransactionalSinkLoop | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after the write that it is at."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def status(self) -> ReadModelStatus:
        """How it is now."""
        return self._status

    def _set(
        self, state: ReadModelState, *, lag: int | None = None, position: int | None = None, reason: str = ""
    ) -> None:
        before = self._status
        self._status = ReadModelStatus(
            before.name,
            before.version,
            state,
            before.lag if lag is None else lag,
            before.position if position is None else position,
            reason,
        )

    def _run(self) -> None:
        pause_s = _PAUSE_S
        while not self._stop.is_set():
            try:
                self._fill()
            except _Stopped:
                break
            except (RetriableError, LogError) as error:
                if isinstance(error, UnknownTopicError) and error.condition != "UNKNOWN_TOPIC":
                    self._failed(error)
                    return
                self._set(ReadModelState.WAITING, reason=str(error))
                _LOG.warning("read model %s waits: %s", self.model.name, error.message)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except Exception as error:  # a projection or a driver may raise anything
                self._failed(error)
                return
        self._set(ReadModelState.STOPPED)

    def _failed(self, error: Exception) -> None:
        reason = str(self._explained(error))
        self._set(ReadModelState.FAILED, reason=reason)
        _LOG.error("read model %s has failed: %s", self.model.name, reason, exc_info=error)

    def _explained(self, error: Exception) -> Exception:
        """A write that the database refuses, explained by a table that was changed if that is why."""
        if isinstance(error, ConnectError) and error.condition in _REFUSALS:
            try:
                with self.model.target.session() as session:
                    registry.check_columns(session, self.model.target, self.model.name, self.model.version)
            except HayaseError as changed:
                return changed
        return error

    def _sleep(self, seconds: float) -> None:
        error = sys.exception()
        if error is not None:
            self._set(ReadModelState.WAITING, lag=self._lag(), reason=str(error))
        if self._stop.wait(seconds):
            raise _Stopped

    def _lag(self) -> int:
        """How many offsets the database does not have; -1: that cannot be found out."""
        try:
            return -1 if self._loop is None else self._loop.waiting()
        except LogError:
            return -1

    def _fill(self) -> None:
        model = self.model
        with model.target.session() as session:
            registry.prepare(session, model.target, model.name, model.version)
        log = open_log(self._log_config)
        task = model.target.sink_task()
        try:
            loop = begun(model, log, self._sleep, task)
            self._loop = loop
            try:
                while not self._stop.is_set():
                    busy = loop.step()
                    self._show(loop)
                    if not busy:
                        self._stop.wait(_IDLE_S)
                loop.drain()
            except Exception:
                self._set(self._status.state, lag=self._lag())
                raise
            finally:
                self._loop = None
                loop.close()
        finally:
            task.stop()
            log.close()

    def _show(self, loop: TransactionalSinkLoop) -> None:
        lag = loop.waiting()
        self._caught_up = self._caught_up or not lag
        state = ReadModelState.RUNNING if self._caught_up else ReadModelState.FILLING
        self._set(state, lag=lag, position=sum(loop.positions.values()))


def begun(
    model: ReadModel, log: Log, sleep: Callable[[float], None], task: TransactionalSinkTask
) -> TransactionalSinkLoop:
    """The loop that fills a read model, at the offsets that its database has.

    Raises:
        UnknownTopicError: the topic does not exist.
        ConfigError: `READ_MODEL_OF_ANOTHER_TOPIC`: the offsets in the database are none of the topic.
        RetriableError: the database is away.
    """
    if model.source.keys is not None and len(model.topics) > 1:
        model.source.keys.create_topic(log)
    infos = log.describe(model.topics)
    for topic in model.topics:
        if topic not in infos:
            raise UnknownTopicError("UNKNOWN_TOPIC", f"topic {topic!r} does not exist yet", topic=topic)
    partitions = [
        SinkPartition(topic, info.topic_id, number)
        for topic, info in infos.items()
        for number in range(info.partitions)
    ]
    generation = Generations(log, GROUP).begin(model.table, [0])
    group = f"{GROUP}-{model.table}"
    props = {**model.target.sink_config(), "name": model.table}
    assigned = frozenset(TopicPartition(each.topic, each.partition) for each in partitions)
    context = SinkContext(group, model.table, 0, generation, props, assigned)
    task.initialize(context)
    task.start(props)
    loop = TransactionalSinkLoop(
        task,
        context,
        log,
        partitions,
        ProjectionConversion(model),
        reset=AutoOffsetReset.earliest(),
        group_offsets=GroupOffsets(log, group, SystemClock(), _COMMIT_MS),
        sleep=sleep,
    )
    try:
        loop.begin()
        _check_topic(model, log, infos[model.source.topic])
    except BaseException:
        loop.close()
        raise
    return loop


def _check_topic(model: ReadModel, log: Log, info: TopicInfo) -> None:
    places = [TopicPartition(info.name, number) for number in range(info.partitions)]
    ends = {place.partition: end for place, end in log.end_offsets(places).items()}
    with model.target.session() as session:
        registry.check_topic(session, model.name, model.version, info.name, info.topic_id, ends)


class ProjectionConversion:
    """Makes the rows of a read model of records, none, one or several of each (`SinkConversion`)."""

    def __init__(self, model: ReadModel) -> None:
        self.policy = ErrorPolicy(model.name, 0)
        self._model = model

    def columns_of(self, batch: RecordBatch) -> RecordColumns | None:
        """See `SinkConversion.columns_of`: a projection takes events one by one."""
        return None

    def close(self) -> None:
        """See `SinkConversion.close`."""

    def from_batch(self, batch: RecordBatch, timestamp_type: str) -> list[SinkRecord]:
        """See `SinkConversion.from_batch`."""
        model, table = self._model, self._model.table
        if model.source.keys is not None:
            model.source.keys.refresh()  # an erasure that this read has seen is one of which no field is read any more
        found: list[SinkRecord] = []
        for row in range(len(batch)):
            record = batch.record(row)
            for key, columns in model.changes(record):
                found.append(
                    SinkRecord(
                        topic=table,
                        kafka_partition=record.partition,
                        kafka_offset=record.offset,
                        key=key,
                        value=columns,
                        timestamp_ms=record.timestamp_ms,
                        timestamp_type=timestamp_type,
                        original_topic=record.topic,
                        original_kafka_partition=record.partition,
                        original_kafka_offset=record.offset,
                    )
                )
        return found


def make_topic(log: Log, model: ReadModel, partitions: int) -> None:
    """Make the topic of a table that a read model reads, unless it is there."""
    topic = model.source.topic
    if isinstance(model.source, TableSource) and topic not in log.describe([topic]):
        try:
            log.create_topic(topic, partitions, {"cleanup.policy": "compact"})
        except LogError as error:
            if error.condition != "TOPIC_EXISTS":  # another process has just made it
                raise


def gauge_lag(registry: MetricsRegistry, application_id: str, name: str, runner: ReadModelRunner) -> None:
    """Have the metrics show the lag of a read model."""
    tags = (("client-id", application_id), ("read-model-id", name))
    registry.gauge(
        "stream-read-model-metrics", "records-lag", tags, lambda: runner.status.lag,
        "Offsets that are not in the database of the read model yet; -1: unknown",
    )  # fmt: skip
    registry.gauge(
        "stream-read-model-metrics", "state", tags, lambda: runner.status.state.value, "What the read model is doing"
    )
