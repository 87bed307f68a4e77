"""The processing log: a JSON record, in ksqlDB's form, for each failure that did not stop its query.

Its records are outputs of the epoch like any other: they are written in its transaction, exactly once.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from hayase.core.records import SourceRecord
from hayase.serde.faults import shown, side_of, text_of
from hayase.task.compiled_subtopology import ProcessingLogPolicy
from hayase.task.outputs import Outputs

_DESERIALIZATION, _PROCESSING, _SERIALIZATION = 0, 1, 3
"""ksqlDB's numbers of the kinds; its 2, an error of the producer, fails the epoch here."""
_CAUSES_MAX = 20


@dataclass(frozen=True, slots=True)
class ProcessingLog:
    """Writes the processing log of one task in one epoch.

    Attributes:
        policy: where to, and what of the records.
        outputs: of the task.
        application_id: of the application, part of the logger's name.
        wall_clock_ms: of the epoch: an epoch that is run again writes the same.
    """

    policy: ProcessingLogPolicy
    outputs: Outputs
    application_id: str
    wall_clock_ms: int

    def failed(self, step: str, what: str, error: BaseException, row: object = None) -> None:
        """An expression or function failed for a row, and the row goes on without its result, or does not go on."""
        message = {
            "errorMessage": f"{what}: {_text(error)}",
            "record": None if row is None or not self.policy.rows_included else _row_text(row),
            "cause": _causes(error),
        }
        self._write(step, _PROCESSING, "recordProcessingError", message)

    def record_failed(
        self, stage: str, node: str, record: SourceRecord, error: Exception, sink_topic: str | None
    ) -> None:
        """A handler has said that a record which failed is dropped.

        Args:
            stage: deserialization, processing or production.
            node: at which it failed.
            record: as it was read.
            error: what was raised.
            sink_topic: where it was to be written.
        """
        if stage == "processing":
            self.failed(node, f"topic {record.topic}, offset {record.offset}", error, record.value)
            return
        message: dict[str, Any] = {"target": side_of(error), "errorMessage": _text(error)}
        if stage == "deserialization":
            data = record.key if side_of(error) == "key" else record.value
            encoded = None if data is None or not self.policy.rows_included else base64.b64encode(data).decode()
            message |= {"recordB64": encoded, "cause": _causes(error), "topic": record.topic}
            self._write(node, _DESERIALIZATION, "deserializationError", message)
            return
        row = _row_text(record.value) if self.policy.rows_included and record.value is not None else None
        message |= {"record": row, "cause": _causes(error), "topic": sink_topic}
        self._write(node, _SERIALIZATION, "serializationError", message)

    def _write(self, step: str, kind: int, name: str, message: dict[str, Any]) -> None:
        entry = {
            "level": "ERROR",
            "logger": f"processing.{self.application_id}.{step}",
            "time": self.wall_clock_ms,
            "message": {"type": kind, name: message},
        }
        self.outputs.topic(self.policy.topic).add(None, json.dumps(entry).encode(), self.wall_clock_ms, ())


def _text(error: BaseException) -> str:
    return text_of(error) or type(error).__name__


def _causes(error: BaseException) -> list[str]:
    causes: list[str] = []
    cause = error.__cause__
    while cause is not None and len(causes) < _CAUSES_MAX:
        causes.append(_text(cause))
        cause = cause.__cause__
    return causes


def _row_text(row: object) -> str:
    if isinstance(row, bytes):
        return row.decode(errors="backslashreplace")
    try:
        return json.dumps(row, default=str)
    except (TypeError, ValueError):
        return shown(row)
