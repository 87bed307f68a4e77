"""Comparing the rows of a read model with a fold of its topic."""

from __future__ import annotations

from dataclasses import dataclass, field

from hayase.core.config import StreamsConfig
from hayase.core.errors import UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.patterns.read_models import registry
from hayase.patterns.read_models.read_model import ReadModel
from hayase.patterns.read_models.rows import Row, RowFold, comparable, place_of

_DIFFERENCES_SHOWN = 20


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


class _TopicFold:
    """The rows that the records of topics give, in memory."""

    def __init__(self, model: ReadModel) -> None:
        self._model = model
        self._fold = RowFold(model.shape)
        self.records = 0

    @property
    def rows(self) -> dict[tuple[str, ...], Row]:
        """By key."""
        return self._fold.rows

    def read(self, log: Log, partition: TopicPartition, end: int) -> None:
        """Take the records of a partition, up to an offset."""
        start = log.start_offsets([partition])[partition]
        reader = log.reader()
        try:
            for batch in reader.fetch(partition, start, end):
                for row in range(len(batch)):
                    self.records += 1
                    self._fold.apply(self._model.changes(batch.record(row)))
        finally:
            reader.close()


def verify(model: ReadModel, config: StreamsConfig) -> RowVerification:
    """Project the topic again, up to the offsets that the table has, and compare every row.

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
    fold = _TopicFold(model)
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
        place_of({name: dict(zip(columns, row, strict=True))[name] for name in model.shape.key}): row for row in stored
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
