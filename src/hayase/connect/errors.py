"""What happens to a record that fails: retries, tolerance, log, dead-letter topic (`errors.*`)."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from hayase.connect.config.config_def import TypedConfig
from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import ConnectRecord
from hayase.core.records import Headers
from hayase.log.protocol import EpochWriter, OutputBatch, RecordBatch

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_RETRY_FIRST_MS = 300
HEADER_PREFIX = "__connect.errors."


class Stage(StrEnum):
    """The step at which a record failed."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as it is in its topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of(cls, batch: RecordBatch, row: int) -> RawRecord:
        """A row of a batch."""
        return cls(
            batch.topic,
            batch.partition,
            int(batch.offsets[row]),
            int(batch.timestamps_ms[row]),
            batch.keys[row],
            batch.values[row],
            batch.headers[row] if batch.headers is not None else (),
        )


@dataclass(slots=True)
class ErrorMetrics:
    """Counters of a task, under Kafka Connect's names."""

    record_errors: int = 0
    record_failures: int = 0
    records_skipped: int = 0
    retries: int = 0
    errors_logged: int = 0
    dlq_requests: int = 0
    dlq_failures: int = 0
    last_error_ms: int = 0

    def by_name(self) -> dict[str, float]:
        """Values by the name of the metric."""
        return {
            "total-record-errors": self.record_errors,
            "total-record-failures": self.record_failures,
            "total-records-skipped": self.records_skipped,
            "total-retries": self.retries,
            "total-errors-logged": self.errors_logged,
            "deadletterqueue-produce-requests": self.dlq_requests,
            "deadletterqueue-produce-failures": self.dlq_failures,
            "last-error-timestamp": self.last_error_ms,
        }


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What an operation gave, or that its record is left out."""

    value: T | None
    skipped: bool = False


@dataclass(slots=True)
class DeadLetters:
    """The dead-letter topic of a sink connector.

    Attributes:
        topic: its name.
        writer: writes to it, at least once: a record may be there twice after a failure, and is never missing.
        headers: whether the reason is in headers (`errors.deadletterqueue.context.headers.enable`).
    """

    topic: str
    writer: EpochWriter
    headers: bool


@dataclass(slots=True)
class ErrorPolicy:
    """Runs the steps of a task on records, by the settings `errors.*`.

    Attributes:
        connector: whose task.
        task: its id.
        tolerates: whether a record that fails is left out instead of failing the task.
        retry_timeout_ms: how long `RetriableError` is tried again; -1: forever.
        retry_delay_max_ms: the longest pause between two attempts.
        log_errors: whether failures are logged that are tolerated.
        log_records: whether the log shows the record as well.
        dead_letters: where sinks send them.
        metrics: what happened.
        sleep: waits that many seconds; raises to give up.
        now_ms: the wall clock.
    """

    connector: str
    task: int
    tolerates: bool = False
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    log_errors: bool = False
    log_records: bool = False
    dead_letters: DeadLetters | None = None
    metrics: ErrorMetrics = field(default_factory=ErrorMetrics)
    sleep: Callable[[float], None] = time.sleep
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    @classmethod
    def from_config(
        cls, config: TypedConfig, connector: str, task: int, *, sleep: Callable[[float], None] = time.sleep
    ) -> ErrorPolicy:
        """The policy of a connector's configuration, still without a dead-letter topic."""
        return cls(
            connector,
            task,
            tolerates=config.string("errors.tolerance").lower() == "all",
            retry_timeout_ms=config.int("errors.retry.timeout"),
            retry_delay_max_ms=config.int("errors.retry.delay.max.ms"),
            log_errors=config.bool("errors.log.enable"),
            log_records=config.bool("errors.log.include.messages"),
            sleep=sleep,
        )

    def run(
        self, stage: Stage, record: RawRecord | ConnectRecord, by: object, step: Callable[..., T], *args: object
    ) -> Outcome[T]:
        """Run a step on a record; where it fails finally, leave the record out or raise.

        Args:
            stage: which step.
            record: on what, for the log and the dead-letter topic.
            by: the transform or converter.
            step: what is called.
            args: with what.

        Raises:
            ConnectError: `TOLERANCE_EXCEEDED`: it failed and nothing is tolerated.
        """
        try:
            return Outcome(self._with_retries(step, args))
        except Exception as error:
            self.fail(stage, error, record, by)
            return Outcome(None, skipped=True)

    def _with_retries(self, step: Callable[..., T], args: tuple[object, ...]) -> T:
        waited_ms, pause_ms = 0, _RETRY_FIRST_MS
        while True:
            try:
                return step(*args)
            except RetriableError:
                self.metrics.record_errors += 1
                left_ms = self.retry_timeout_ms - waited_ms
                if self.retry_timeout_ms >= 0 and left_ms <= 0:
                    raise
                pause_ms = min(pause_ms, self.retry_delay_max_ms, *([left_ms] if self.retry_timeout_ms >= 0 else ()))
                self.metrics.retries += 1
                self.sleep(pause_ms / 1000)
                waited_ms += pause_ms
                pause_ms *= 2

    def fail(self, stage: Stage, error: Exception, record: RawRecord | ConnectRecord, by: object = None) -> None:
        """A record failed finally: count, log, send to the dead-letter topic.

        Raises:
            ConnectError: `TOLERANCE_EXCEEDED`: nothing is tolerated.
        """
        metrics = self.metrics
        metrics.record_errors += not isinstance(error, RetriableError)
        metrics.record_failures += 1
        metrics.last_error_ms = self.now_ms()
        if self.log_errors or not self.tolerates:
            metrics.errors_logged += 1
            _LOG.error(
                "Error encountered in task %s-%d. Executing stage '%s' with class '%s'%s: %s",
                self.connector, self.task, stage, _class_name(by),
                f", where record is {record!r}" if self.log_records else "", error,
                exc_info=error,
            )  # fmt: skip
        if isinstance(record, RawRecord) and self.dead_letters is not None:
            self._send(self.dead_letters, stage, error, record, by)
        if not self.tolerates:
            raise ConnectError(
                "TOLERANCE_EXCEEDED",
                f"Tolerance exceeded in error handler: {error}",
                connector=self.connector,
                task=self.task,
                stage=stage,
                topic=record.topic,
                **_position(record),
            ) from error
        metrics.records_skipped += 1

    def _send(self, target: DeadLetters, stage: Stage, error: Exception, record: RawRecord, by: object) -> None:
        headers = record.headers + (self._reason(stage, error, record, by) if target.headers else ())
        batch = OutputBatch(
            target.topic, [record.key], [record.value], [record.timestamp_ms], headers=[headers] if headers else None
        )
        self.metrics.dlq_requests += 1
        try:
            target.writer.append([batch])
        except Exception:
            self.metrics.dlq_failures += 1
            raise  # a record that is in neither place would be lost

    def _reason(self, stage: Stage, error: Exception, record: RawRecord, by: object) -> Headers:
        texts = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "connector.name": self.connector,
            "task.id": str(self.task),
            "stage": str(stage),
            "class.name": _class_name(by),
            "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
            "exception.message": str(error),
            "exception.stacktrace": "".join(traceback.format_exception(error)),
        }
        return tuple((HEADER_PREFIX + name, text.encode()) for name, text in texts.items())


def _class_name(by: object) -> str:
    cls = by if isinstance(by, type) else type(by)
    return f"{cls.__module__}.{cls.__qualname__}"


def _position(record: RawRecord | ConnectRecord) -> dict[str, object]:
    if isinstance(record, RawRecord):
        return {"partition": record.partition, "offset": record.offset}
    return {}
