"""One case run through the engine and test drivers: each persistent query by itself, as ksqlDB's own tests do."""

from __future__ import annotations

import base64
import random
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, Literal

from tests.ksqldb.cases import Case, Record
from tests.ksqldb.codecs import SideCodec
from tests.ksqldb.compare import Actual, difference
from tests.ksqldb.epoch_driver import EpochDriver
from tests.ksqldb.errors import unexpected
from tests.ksqldb.functions import registry_with_test_functions
from tests.ksqldb.post_conditions import broken_post_condition
from tests.ksqldb.topics import prepare_topics

from hayase.core.metrics import ROW_BY_ROW
from hayase.sql.ast.queries import WindowKind
from hayase.sql.ast.statements import (
    AlterSource,
    CreateAsSelect,
    CreateSource,
    CreateType,
    DropSource,
    DropType,
    InsertInto,
    InsertValues,
    SetProperty,
    Statement,
    UnsetProperty,
)
from hayase.sql.catalog.sources import DataSource, WindowedKey
from hayase.sql.engine import SqlEngine
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.registry.embedded import EmbeddedSchemaRegistry
from hayase.sql.statements.results import PersistentQuery, ProducedRecord
from hayase.sql.statements.topics import MemoryTopics
from hayase.testing.sql.script import SqlScript
from hayase.testing.topics import RawRecord
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ForeignKeySubscribe

SETTINGS: Mapping[str, object] = {
    "auto.offset.reset": "earliest",
    "cache.max.bytes.buffering": 0,
    "ksql.service.id": "some.ksql.service.id",
    "ksql.persistence.default.format.key": "KAFKA",
}
_DRIVER = {"statestore.cache.max.bytes": 0, "deserialization.exception.handler": "log_and_continue"}
_FORMS = {"rows": "rows", "columns": "auto"}
LEFT_TO_ROWS = "records of batches left to rows"
Cut = Literal["each", "runs", "random"]
"""Inputs become epochs one by one, all consecutive ones of a topic at once, or cut somewhere between these two."""
_PLANNED = (CreateAsSelect, CreateSource, InsertInto, InsertValues, DropSource, AlterSource, CreateType, DropType)
_SESSION = (SetProperty, UnsetProperty)


@dataclass
class Session:
    """The engine of a case, with what its statements left behind.

    Attributes:
        engine: with the catalog.
        registry: the schema registry.
        topics: what topics there are.
        form: rows or columns.
        cut: how inputs become epochs.
        forms: counts sub-topologies by their form, and records of batches that were left to the row form.
        queries: the persistent queries in order; one that is replaced keeps its place.
        log: records by topic.
    """

    engine: SqlEngine
    registry: EmbeddedSchemaRegistry
    topics: MemoryTopics
    form: str
    cut: Cut = "each"
    forms: Counter[str] = field(default_factory=Counter)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    log: dict[str, list[RawRecord]] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, form: str = "rows", cut: Cut = "each", forms: Counter[str] | None = None) -> Session:
        registry = EmbeddedSchemaRegistry()
        topics = MemoryTopics(partitions_by_default=None)
        engine = SqlEngine(
            {**SETTINGS, **case.properties},
            functions=registry_with_test_functions(),
            schema_registry=registry,
            topics=topics,
        )
        return cls(engine, registry, topics, form, cut, Counter() if forms is None else forms)

    def execute(self, parsed: ParsedStatement) -> None:
        """One statement, with its records and queries kept."""
        result = self.engine.execute(parsed)
        for record in result.records:
            self.log.setdefault(record.topic, []).append(_raw(record))
        for query_id in result.stopped:
            self.queries.pop(query_id, None)
        for query in result.started:
            self.queries[query.id] = query


def _raw(record: ProducedRecord) -> RawRecord:
    return RawRecord(record.topic, record.key, record.value, record.timestamp_ms or 0)


def failure_of(case: Case, form: str = "rows", cut: Cut = "each", forms: Counter[str] | None = None) -> str | None:
    """Why a case fails whose queries run in rows or in columns; `None` if it passes.

    Args:
        case: the case.
        form: `rows`, or `columns` where there are any.
        cut: how inputs become epochs.
        forms: counts sub-topologies, and records that were left to the row form.
    """
    reached: list[int] = []
    try:
        session = Session.of(case, form, cut, forms)
        problem = _run_script(case, reached) if case.kind == "sql" else _run(case, session, reached)
    except Exception as error:
        return _judged(case, error, reached)
    if case.error is not None:
        return f"no error; expected {case.error.type}: {case.error.message}"
    return problem


def _judged(case: Case, error: Exception, reached: list[int]) -> str | None:
    if case.error is None:
        return f"{type(error).__name__}: {error}"
    problem = unexpected(error, case.error)
    parsing = isinstance(error, ParseFailedError)
    if problem is None and not parsing and case.kind != "sql" and len(reached) < len(case.statements):
        return f"statement {len(reached)} failed, expected was the last: {error}"
    return problem


def _run(case: Case, session: Session, reached: list[int]) -> str | None:
    statements = parse_script("\n".join(case.statements))
    prepare_topics(case, statements, session)
    for parsed in statements:
        reached.append(1)
        if takes_effect(parsed.statement):
            session.execute(parsed)
    if not session.queries and case.error is None and case.kind == "query":
        return "no persistent query"
    codecs = Codecs(session)
    _process(case, session, codecs)
    if case.error is not None:
        return None
    return wrong_output(case, session, codecs) or broken_post_condition(
        case, session.engine, session.registry, session.topics, session.queries.values()
    )


def _run_script(case: Case, reached: list[int]) -> str | None:
    """The statements of a script one by one, online; its ASSERTs are the checks."""
    with SqlScript(SETTINGS, registry_with_test_functions()) as script:
        for text in case.statements:
            reached.append(1)
            script.run(text)
    return None


def takes_effect(statement: Statement) -> bool:
    """Whether the reference executes a statement of a case."""
    return isinstance(statement, (*_PLANNED, *_SESSION))


def _process(case: Case, session: Session, codecs: Codecs) -> None:
    inputs = [codecs.encode(record) for record in case.inputs]
    for record in inputs:
        session.log.setdefault(record.topic, []).append(record)
    given = {record.topic for record in inputs}
    for query in session.queries.values():
        with EpochDriver(query.topology, {**_DRIVER, "processing.form": _FORMS[session.form]}) as driver:
            read = [record for record in inputs if record.topic in query.source_topics]
            for topic in query.source_topics:
                if topic not in given:
                    read += session.log.get(topic, ())
            for epoch in epochs(read, "each" if _is_answered_later(query) else session.cut):
                _feed(driver, query, epoch, session)
            session.forms.update(driver.forms)
            session.forms[LEFT_TO_ROWS] += driver.metrics.total(ROW_BY_ROW)


def _is_answered_later(query: PersistentQuery) -> bool:
    """Whether a row of the epoch may be replaced before its answer comes: foreign-key joins answer an epoch later."""
    nodes = [node for node in query.topology.nodes if isinstance(node, ProcessorNode)]
    return any(isinstance(node.operator, ForeignKeySubscribe) for node in nodes)


def epochs(records: Sequence[RawRecord], cut: Cut) -> list[list[RawRecord]]:
    """The records of each epoch, which are consecutive ones of one topic: those of several are merged by their time."""
    if cut == "each":
        return [[record] for record in records]
    runs = [list(run) for _, run in groupby(records, key=lambda record: record.topic)]
    if cut == "runs":
        return runs
    chance = random.Random(len(records))
    return [part for run in runs for part in _cut(run, chance)]


def _cut(run: list[RawRecord], chance: random.Random) -> list[list[RawRecord]]:
    places = [0, *(place for place in range(1, len(run)) if chance.random() < 0.3), len(run)]
    return [run[begin:end] for begin, end in pairwise(places)]


def _feed(driver: EpochDriver, query: PersistentQuery, epoch: list[RawRecord], session: Session) -> None:
    if len(epoch) == 1:
        driver.pipe_batch(epoch)
    else:
        driver.pipe_epoch(epoch)
    if query.sink_topic is not None:
        written = driver.output_queue(query.sink_topic)
        session.log.setdefault(query.sink_topic, []).extend(written)
        written.clear()


def wrong_output(case: Case, session: Session, codecs: Codecs, *, any_zero_time: bool = False) -> str | None:
    """What is wrong with the records that the queries of a case wrote; `None` if they are as expected.

    Args:
        case: with what is expected.
        session: with the records.
        codecs: of the topics.
        any_zero_time: a time of 0 stands for any; it always does where a case has no inputs.
    """
    for topic in dict.fromkeys(record.topic for record in case.outputs):
        expected = [record for record in case.outputs if record.topic == topic]
        actual = [codecs.decode(record) for record in session.log.get(topic, ())]
        for position, pair in enumerate(zip(actual, expected, strict=False)):
            problem = difference(*pair, any_zero_time=any_zero_time or not case.inputs)
            if problem is not None:
                return f"topic {topic}, record {position}: {problem}"
        if len(actual) != len(expected):
            return f"topic {topic}: {len(actual)} records, expected {len(expected)}: {_rest(actual, expected)}"
    return None


def _rest(actual: list[Actual], expected: list[Record]) -> str:
    if len(actual) > len(expected):
        return f"beyond them {actual[len(expected)]}"
    return f"missing {expected[len(actual)]}"


class Codecs:
    """Bytes of the records of each topic, by the source over it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sides: dict[tuple[str, str], SideCodec] = {}

    def encode(self, record: Record) -> RawRecord:
        """The bytes of a case's record."""
        source = self._source(record.topic)
        key = self._side(record.topic, "key", source).encode(record.key)
        if key is not None and record.window is not None:
            key += _window_bytes(record.window)
        value = self._side(record.topic, "value", source).encode(record.value)
        headers = tuple((name, None if item is None else base64.b64decode(item)) for name, item in record.headers)
        return RawRecord(record.topic, key, value, record.timestamp_ms or 0, headers)

    def decode(self, record: RawRecord) -> Actual:
        """A record as a case says it."""
        source = self._source(record.topic)
        key, window = _unwindowed(record.key, source.window)
        headers = tuple(
            (name, None if item is None else base64.b64encode(item).decode()) for name, item in record.headers
        )
        return Actual(
            self._side(record.topic, "key", source).decode(key),
            self._side(record.topic, "value", source).decode(record.value),
            record.timestamp_ms,
            window,
            headers,
        )

    def _source(self, topic: str) -> DataSource:
        found = [source for source in self._session.engine.catalog if source.topic == topic]
        if not found:
            raise AssertionError(f"no source is over topic {topic}")
        return found[-1]

    def _side(self, topic: str, side: str, source: DataSource) -> SideCodec:
        codec = self._sides.get((topic, side))
        if codec is None:
            is_key = side == "key"
            codec = SideCodec(
                source.key_format if is_key else source.value_format,
                source.key if is_key else source.value,
                side,
                topic,
                self._session.registry,
            )
            self._sides[topic, side] = codec
        return codec


def _window_bytes(window: Mapping[str, Any]) -> bytes:
    if window["type"].lower() == "session":
        return struct.pack(">qq", window["end"], window["start"])
    return struct.pack(">q", window["start"])


def _unwindowed(key: bytes | None, window: WindowedKey | None) -> tuple[bytes | None, tuple[int, int, str] | None]:
    if key is None or window is None:
        return key, None
    if window.kind is WindowKind.SESSION:
        end, start = struct.unpack(">qq", key[-16:])
        return key[:-16], (start, end, "session")
    (start,) = struct.unpack(">q", key[-8:])
    return key[:-8], (start, start + (window.size_ms or 0), "time")
