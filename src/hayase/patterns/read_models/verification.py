"""Comparing the rows of a read model with a fold of its topic."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from hayase.compiler.options import log_config
from hayase.core.config import StreamsConfig
from hayase.core.errors import UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.patterns.read_models import registry
from hayase.patterns.read_models.read_model import ReadModel

_DIFFERENCES_SHOWN = 20
Row = dict[str, object]


@dataclass(slots=True)
class RowVerification:
    """The result of a comparison.

    Attributes:
        rows: how many the table has.
        records: how many records of the topic were read.
        different: how many rows are not what the records say, are missing, or too many.
        differences: the first of these, in words.
    """

    rows: int = 0
    records: int = 0
    different: int = 0
    differences: list[str] = field(default_factory=list)


class RowFold:
    """The rows that records give, in memory."""

    def __init__(self, model: ReadModel) -> None:
        self._model = model
        self.rows: dict[tuple[str, ...], Row] = {}
        self.records = 0

    def read(self, log: Log, partition: TopicPartition, end: int) -> None:
        """Take the records of a partition, up to an offset."""
        start = log.start_offsets([partition])[partition]
        reader = log.reader()
        try:
            for batch in reader.fetch(partition, start, end) if start < end else ():
                for row in range(len(batch)):
                    self.records += 1
                    self.apply(self._model.changes(batch.record(row)))
        finally:
            reader.close()

    def apply(self, changes: list[tuple[Row, Row | None]]) -> None:
        """Take changes of rows."""
        for key, columns in changes:
            place = _place(key)
            if columns is None:
                self.rows.pop(place, None)
            else:
                row = self.rows.get(place) or dict.fromkeys(self._model.shape.columns)
                self.rows[place] = {**row, **key, **columns}


def verify(model: ReadModel, config: StreamsConfig) -> RowVerification:
    """Project the topic anew, up to the offsets that the table has, and compare every row.

    Raises:
        ConfigError: `READ_MODEL_TABLE_CHANGED`.
        ProcessingError: the projection cannot take a record; which one.
        RetriableError: the database is away.
    """
    with model.target.session() as session, session.snapshot():
        registry.check_columns(session, model.target, model.name, model.version)
        offsets = registry.offsets(session, model.name, model.version)
        columns = list(model.shape.columns)
        stored = session.execute(f"SELECT {', '.join(columns)} FROM {model.table}")
    fold = RowFold(model)
    if model.source.keys is not None:
        model.source.keys.bind(config)
    log = open_log(log_config(config))
    try:
        infos = log.describe(model.topics)
        for topic in model.topics:
            if topic not in infos:
                raise UnknownTopicError("UNKNOWN_TOPIC", f"topic {topic!r} does not exist", topic=topic)
            for number in range(infos[topic].partitions):
                fold.read(log, TopicPartition(topic, number), offsets.get((infos[topic].topic_id, number), 0))
    finally:
        log.close()
    result = RowVerification(len(stored), fold.records)
    rows = {
        _place({name: dict(zip(columns, row, strict=True))[name] for name in model.shape.key}): row for row in stored
    }
    for place, row in rows.items():
        expected = fold.rows.get(place)
        there = {name: comparable(value) for name, value in zip(columns, row, strict=True)}
        if expected is None or there != {name: comparable(value) for name, value in expected.items()}:
            _note(result, f"row {'/'.join(place)}: the table has {there!r:.300}, the records give {expected!r:.300}")
    for place in fold.rows.keys() - rows.keys():
        _note(result, f"row {'/'.join(place)} is missing in the table; the records give {fold.rows[place]!r:.300}")
    return result


def _note(result: RowVerification, difference: str) -> None:
    result.different += 1
    if len(result.differences) < _DIFFERENCES_SHOWN:
        result.differences.append(difference)


def _place(key: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(comparable(value)) for value in key.values())


def comparable(value: object) -> object:
    """A value as all databases give it back: for comparisons."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).astimezone(dt.UTC).isoformat()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=_in_json, ensure_ascii=False, sort_keys=True)
    if isinstance(value, str) and value[:1] in "[{":
        return _canonical(value)
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _canonical(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, sort_keys=True)
    except ValueError:
        return text


def _in_json(value: Any) -> object:
    return value.isoformat() if isinstance(value, (dt.date, dt.time)) else str(value)
