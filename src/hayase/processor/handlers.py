"""Exception handlers: what happens to a record that fails.

Continue, fail or dead-letter (Kafka Streams' exception handlers, KIP-1033, KIP-1034).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hayase.core.records import Headers


class HandlerAnswer(Enum):
    """The answer of an exception handler: what happens to a record that failed."""

    FAIL = "fail"
    """Stop the application with the error; nothing of the epoch is published."""
    CONTINUE = "continue"
    """Drop the record (a processing error: only what the failing node would have passed on) and count it."""
    DEAD_LETTER = "dead_letter"
    """As CONTINUE, and write the source record to the topic of `errors.dead.letter.queue.topic.name`."""


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """The context of a failed record: its node and task, and the record as read from its source topic."""

    stage: str
    """`deserialization`, `processing` or `production`."""
    node: str
    task: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    raw_key: bytes | None
    raw_value: bytes | None
    headers: Headers


ExceptionHandler = Callable[[ErrorContext, Exception], HandlerAnswer]
"""Called once for each failing record, in the process that runs the task.

May be called again when an epoch is replayed.
"""


def log_and_fail(context: ErrorContext, error: Exception) -> HandlerAnswer:
    """Stop. The default everywhere."""
    return HandlerAnswer.FAIL


def log_and_continue(context: ErrorContext, error: Exception) -> HandlerAnswer:
    """Drop the record and count it; with a dead-letter topic configured it goes there as well."""
    return HandlerAnswer.CONTINUE


def dead_letter(context: ErrorContext, error: Exception) -> HandlerAnswer:
    """Send the source record to the dead-letter topic and go on."""
    return HandlerAnswer.DEAD_LETTER
