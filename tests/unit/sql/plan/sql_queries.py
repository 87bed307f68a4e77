"""Runs the persistent queries of a script over records, and gives what they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hayase.sql.catalog.sources import DataSource
from hayase.sql.engine import SqlEngine
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.plan.context import windowed_serde
from hayase.testing import TopologyTestDriver
from hayase.testing.topics import RawRecord

Input = tuple[str, Any, Any, int]
"""Name of a source, key, value, timestamp."""
Output = tuple[Any, Any, int]
"""Key, value, timestamp."""
_CONFIG = {"statestore.cache.max.bytes": 0, "deserialization.exception.handler": "log_and_continue"}


def run_script(
    script: str, inputs: Sequence[Input], result: str = "RESULT", settings: Mapping[str, object] | None = None
) -> list[Output]:
    """What the queries of a script write to a result, for records that come in this order."""
    engine = SqlEngine(settings)
    engine.script(script)
    target = source_of(engine, result)
    written: list[RawRecord] = []
    records = [raw_record(engine, each) for each in inputs]
    for query in engine.queries.values():
        with TopologyTestDriver(query.topology, _CONFIG) as driver:
            for record in records:
                if record.topic in query.source_topics:
                    driver.pipe_batch([record])
            if query.sink_topic == target.topic:
                written += driver.output_queue(target.topic)
    keys, values = _serdes(target)
    return [(keys.deserialize(each.key), values.deserialize(each.value), each.timestamp_ms) for each in written]


def source_of(engine: SqlEngine, name: str) -> DataSource:
    """A source of an engine that must be there."""
    source = engine.catalog.find(name)
    assert source is not None, name
    return source


def raw_record(engine: SqlEngine, given: Input) -> RawRecord:
    """The bytes of a record."""
    name, key, value, timestamp_ms = given
    source = source_of(engine, name)
    keys, values = _serdes(source)
    return RawRecord(source.topic, keys.serialize(key), values.serialize(value), timestamp_ms)


def _serdes(source: DataSource) -> tuple[Any, Any]:
    keys = key_serde(source.key_format, source.key)
    return windowed_serde(keys, source.window), value_serde(source.value_format, source.value)
