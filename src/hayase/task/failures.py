"""Asking the exception handlers, writing dead letters, counting what is dropped."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from hayase.core.errors import ConfigError, HayaseError, ProcessingError, ProductionError, SerializationError
from hayase.core.metrics import DEAD_LETTERS, DROPPED_RECORDS, Metrics
from hayase.core.record_failures import collecting_failures
from hayase.core.records import SourceRecord
from hayase.processor.handlers import ErrorContext, HandlerAnswer, log_and_continue, log_and_fail
from hayase.serde.faults import said, text_of
from hayase.task.compiled_subtopology import FailurePolicy
from hayase.task.outputs import Outputs
from hayase.task.processing_log import ProcessingLog

_LOG = logging.getLogger("hayase.task")

_HEADER = "__streams.errors."


@dataclass(slots=True)
class Failures:
    """The failure policy of one task during one epoch."""

    policy: FailurePolicy
    task: str
    metrics: Metrics
    outputs: Outputs
    topics: Mapping[str, str] = field(default_factory=dict)
    """The names that users see of repartition topics that are shuffles.

    With the application's id, as in Kafka Streams.
    """
    log: ProcessingLog | None = None
    stages: dict[str, type[HayaseError]] = field(
        default_factory=lambda: {
            "deserialization": SerializationError,
            "processing": ProcessingError,
            "production": ProductionError,
        }
    )

    def handle(
        self, stage: str, node: str, record: SourceRecord, error: Exception, sink_topic: str | None = None
    ) -> None:
        """Ask the stage's handler. Returns if the record is to be dropped; it has been counted then.

        Args:
            stage: deserialization, processing or production.
            node: at which it failed.
            record: as it was read.
            error: what was raised.
            sink_topic: where it was to be written, for errors and logs.

        Raises:
            SerializationError, ProcessingError, ProductionError: the handler says fail, or failed itself.
        """
        inside = record.topic in self.topics
        if inside:
            record = replace(record, topic=self.topics[record.topic])
        context = ErrorContext(
            stage, node, self.task, record.topic, record.partition, record.offset, record.timestamp_ms,
            record.key, record.value, record.headers,
        )  # fmt: skip
        handler = getattr(self.policy, stage)
        try:
            answer = handler(context, error)
        except Exception as failed:
            raise self._error(
                stage, context, failed, "its exception handler failed", sink_topic, inside=inside
            ) from failed
        if answer is HandlerAnswer.FAIL:
            if handler is log_and_fail and self.policy.dead_letter_topic is not None:
                self._write_dead_letter(self.policy.dead_letter_topic, record, error)
            raise self._error(stage, context, error, "failed", sink_topic, inside=inside) from error
        self.metrics.add(DROPPED_RECORDS, node)
        if self.log is not None:
            self.log.record_failed(stage, node, record, error, sink_topic)
        wanted = answer is HandlerAnswer.DEAD_LETTER or handler is log_and_continue
        if answer is HandlerAnswer.DEAD_LETTER and self.policy.dead_letter_topic is None:
            raise ConfigError(
                "NO_DEAD_LETTER_TOPIC",
                f"the {stage} handler answered dead_letter, but errors.dead.letter.queue.topic.name is not set; set it",
                node=node,
            )
        end = "record dropped"
        if wanted and self.policy.dead_letter_topic is not None:
            self._write_dead_letter(self.policy.dead_letter_topic, record, error)
            self.metrics.add(DEAD_LETTERS, node)
            end = f"record sent to the dead letter topic {self.policy.dead_letter_topic}"
        where: dict[str, object] = {"node": node, **({} if record.partition < 0 else _read_at(context))}
        if sink_topic is not None:
            where["sink_topic"] = sink_topic
        _LOG.warning("%s failed, %s: %s", stage, end, said(error), extra=where)

    def collecting(self) -> AbstractContextManager[None]:
        """Have what code of the topology reports while the task runs go to the processing log, if there is one."""
        return collecting_failures(None if self.log is None else self.log.failed)

    def _error(
        self, stage: str, context: ErrorContext, error: Exception, what: str, sink_topic: str | None, *, inside: bool
    ) -> HayaseError:
        punctuating = context.partition < 0  # a punctuation has no record
        if punctuating:
            what = f"of a punctuation {what}"
        fix = (
            f"fix {'the code' if punctuating else 'the record or the code'}, or set {stage}.exception.handler to "
            "log_and_continue or dead_letter"
        )
        if inside and stage == "deserialization":  # to drop it would lose what the sender has committed
            fix = (
                "another part of this application has sent the record, so the serde does not read what it writes, or "
                "an earlier program had another one: fix the serde, or start over with `hayase app reset`"
            )
        return self.stages[stage](
            f"{stage.upper()}_FAILED",
            f"{stage} {what}: {said(error)}; {fix}",
            node=context.node,
            task=context.task,
            sink_topic=sink_topic,
            **({} if punctuating else _read_at(context)),
        )

    def _write_dead_letter(self, topic: str, record: SourceRecord, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        details: list[tuple[str, object]] = [
            ("exception", f"{type(error).__module__}.{type(error).__qualname__}"),
            ("message", text_of(error)),
            ("stacktrace", trace),
            ("topic", record.topic),
            ("partition", record.partition),
            ("offset", record.offset),
        ]
        headers = record.headers + tuple(
            (_HEADER + name, str(value).encode(errors="backslashreplace")) for name, value in details
        )
        self.outputs.topic(topic).add(record.key, record.value, record.timestamp_ms, headers)


def _read_at(context: ErrorContext) -> dict[str, object]:
    """Where the record was read."""
    return {"topic": context.topic, "partition": context.partition, "offset": context.offset}
