"""ksqlDB's cases on Spark and a real broker: queries of many cases share a runtime, each case has topics of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.ksqldb.cases import Case, CaseFolder
from tests.ksqldb.driver import SETTINGS, Codecs, Session, takes_effect, wrong_output
from tests.ksqldb.functions import registry_with_test_functions
from tests.ksqldb.topics import prepare_topics

from hayase import SchemaRegistry, StreamsRuntime
from hayase.app.runtime_settings import is_of_topologies
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, OutputBatch
from hayase.sql.ast.expressions import StringLiteral
from hayase.sql.ast.statements import CreateAsSelect, CreateSource
from hayase.sql.engine import SqlEngine
from hayase.sql.grammar.parser import ParsedStatement, parse_script
from hayase.sql.settings import streams_config
from hayase.sql.statements.topics import MemoryTopics
from hayase.testing.topics import RawRecord

_WITH_REGISTRY = ("AVRO", "PROTOBUF", "JSON_SR")
_TOPIC = "KAFKA_TOPIC"
_KEY_IN_JSON_SR = re.compile(r"(?<!VALUE_)FORMAT\s*=\s*'JSON_SR'")


class RemoteRegistry(SchemaRegistry):
    """A registry that is a server; new subjects there have the level that cases need."""

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Cases want no comparisons, and the server makes none unless it is asked to."""


@dataclass
class RunningCase:
    """A case whose topics have names of its own, and what its statements made.

    Attributes:
        case: with its topics renamed.
        session: with the queries.
        prefix: of its topics.
    """

    case: Case
    session: Session
    prefix: str


@dataclass(frozen=True)
class TogetherOutcome:
    """What became of cases that ran on one runtime.

    Attributes:
        problems: of those that fail, by id.
        complete: whether all were run to their end; otherwise one stopped them.
    """

    problems: Mapping[str, str]
    complete: bool


def selected(folder: CaseFolder, count: int, *, with_registry: bool) -> list[Case]:
    """So many cases that do not depend on how records of several topics follow each other, from many files.

    Args:
        folder: of the cases.
        count: how many.
        with_registry: those whose formats need a schema registry, or the others.
    """
    by_file: dict[str, list[Case]] = {}
    for case in folder.cases(["query"]):
        if uses_registry(case) is with_registry and runs_alike(case):
            by_file.setdefault(case.file, []).append(case)
    rounds = zip_longest(*(by_file[file] for file in sorted(by_file)))
    return [case for each in rounds for case in each if case is not None][:count]


def uses_registry(case: Case) -> bool:
    """Whether a case needs a schema registry."""
    texts = " ".join(case.statements).upper()
    return case.format in _WITH_REGISTRY or any(f"'{name}'" in texts for name in _WITH_REGISTRY)


def runs_alike(case: Case) -> bool:
    """Whether epochs of many records give what records one by one give, each query by itself."""
    if case.error is not None or not case.outputs or not case.inputs or case.tier > 3:
        return False
    if any(topic.get(f"{side}SchemaId") is not None for topic in case.topics for side in ("key", "value")):
        return False  # a server gives its own ids
    schemas = (topic.get(f"{side}Schema") for topic in case.topics for side in ("key", "value"))
    if not all(schema is None or isinstance(schema, dict) for schema in schemas):
        return False  # Apicurio does not see what kind of schema a bare type is
    texts = " ".join(case.statements).upper()
    if case.file.startswith("fk-"):
        return False  # answers of the other table that come too late are dropped: an epoch has fewer results
    if "JSON_SR" in texts and (_KEY_IN_JSON_SR.search(texts) or "WRAP_SINGLE_VALUE" in texts):
        return False  # Apicurio does not see what kind of schema a bare type is
    if any(
        word in texts
        for word in ("EMIT FINAL", "BAD_UDF", "ROWOFFSET", "ROWTIME", "OR REPLACE", "DROP ", "RANDOM(", "UUID(")
    ):
        return False
    topics = {record.topic for record in case.inputs}
    if topics & {record.topic for record in case.outputs}:
        return False
    pairs = zip(case.inputs, case.inputs[1:], strict=False)
    return len(topics) == 1 or all(
        one.timestamp_ms < two.timestamp_ms if one.topic != two.topic else one.timestamp_ms <= two.timestamp_ms  # type: ignore[operator]  # inputs have times
        for one, two in pairs
    )


def prepared(case: Case, prefix: str, registry: Any) -> RunningCase:
    """A case with its statements executed; nothing runs yet."""
    renamed = replace(
        case,
        inputs=[replace(each, topic=prefix + each.topic) for each in case.inputs],
        outputs=[replace(each, topic=prefix + each.topic) for each in case.outputs],
        topics=[{**each, "name": prefix + each["name"]} for each in case.topics],
    )
    before = str(case.properties.get("ksql.output.topic.name.prefix") or "")
    properties = {**case.properties, "ksql.output.topic.name.prefix": prefix + before}
    topics = MemoryTopics(partitions_by_default=None)
    engine = SqlEngine(
        {**SETTINGS, **properties}, registry_with_test_functions(), schema_registry=registry, topics=topics
    )
    session = Session(engine, registry, topics, "rows")
    statements = [_renamed(each, prefix) for each in parse_script("\n".join(case.statements))]
    prepare_topics(renamed, statements, session)
    for parsed in statements:
        if takes_effect(parsed.statement):
            session.execute(parsed)
    return RunningCase(renamed, session, prefix)


def _renamed(parsed: ParsedStatement, prefix: str) -> ParsedStatement:
    statement = parsed.statement
    if not isinstance(statement, CreateSource | CreateAsSelect):
        return parsed
    properties = tuple(
        (name, StringLiteral(prefix + value.value))
        if name.upper() == _TOPIC and isinstance(value, StringLiteral)
        else (name, value)
        for name, value in statement.properties
    )
    return replace(parsed, statement=replace(statement, properties=properties))


def run_together(cases: Sequence[Case], settings: Mapping[str, object], log: Log, registry: Any) -> TogetherOutcome:
    """Run cases on one runtime.

    Args:
        cases: to run.
        settings: of the runtime.
        log: the runtime's.
        registry: of schemas.
    """
    running: list[RunningCase] = []
    refused: dict[str, str] = {}
    for number, case in enumerate(cases):
        try:
            running.append(prepared(case, f"{settings['application.id']}-{number}-", registry))
        except HayaseError as error:
            refused[case.id] = str(error)
    if not running:
        return TogetherOutcome(refused, complete=True)
    runtime = StreamsRuntime(settings, recall=False)
    after: dict[str, set[str]] = {}
    for number, made in enumerate(running):
        writers: dict[str, str] = {}
        _fill(made, log)
        for query in made.session.queries.values():
            name = f"case{number}.{len(writers)}"
            after[name] = {writers[topic] for topic in query.source_topics if topic in writers}
            given = streams_config(made.session.engine.settings)
            own = {key: value for key, value in given.items() if is_of_topologies(key)}
            runtime.add_topology(name, query.topology, {**own, "statestore.cache.max.bytes": 0})
            writers[query.sink_topic or name] = name
    try:
        runtime.run_to_end(after=after)
    except HayaseError:
        failed = {name: app.error for name, app in runtime.topologies.items() if app.error is not None}
        if not failed:
            raise
        stopped = {running[int(name[4:].partition(".")[0])].case.id: str(error) for name, error in failed.items()}
        return TogetherOutcome(refused | stopped, complete=False)
    found = {made.case.id: _problem(made, log) for made in running}
    wrong = {case_id: problem for case_id, problem in found.items() if problem is not None}
    return TogetherOutcome(refused | wrong, complete=True)


def _fill(made: RunningCase, log: Log) -> None:
    """Make the topics of a case, with one partition, and write its inputs."""
    codecs = Codecs(made.session)
    inputs = [codecs.encode(record) for record in made.case.inputs]
    for record in inputs:
        made.session.log.setdefault(record.topic, []).append(record)
    topics = {topic for topic in made.session.topics.known if topic.startswith(made.prefix)}
    for query in made.session.queries.values():
        topics |= {*query.source_topics, *([query.sink_topic] if query.sink_topic else [])}
    for topic in sorted(topics):
        log.create_topic(topic, 1)
    writer = log.writer()
    try:
        for topic, records in made.session.log.items():
            headers = [record.headers for record in records] if any(record.headers for record in records) else None
            keys, values = [record.key for record in records], [record.value for record in records]
            times = [record.timestamp_ms for record in records]
            writer.append([OutputBatch(topic, keys, values, times, None, headers)])
    finally:
        writer.close()


def _problem(made: RunningCase, log: Log) -> str | None:
    """What is wrong with the records of a case, those of each key in order: shuffles keep no order between keys."""
    for topic in {record.topic for record in made.case.outputs}:
        made.session.log[topic] = sorted(_records(log, topic), key=lambda record: record.key or b"")
    codecs = Codecs(made.session)
    expected = sorted(made.case.outputs, key=lambda record: codecs.encode(record).key or b"")
    made.case = replace(made.case, outputs=expected)
    # Kafka's client takes a time of 0 for none: the log writes 1
    return wrong_output(made.case, made.session, codecs, any_zero_time=True)


def _records(log: Log, topic: str) -> Iterator[RawRecord]:
    partition = TopicPartition(topic, 0)
    start, end = log.start_offsets([partition])[partition], log.end_offsets([partition])[partition]
    reader = log.reader()
    try:
        for batch in reader.fetch(partition, start, end) if start < end else ():
            headers = batch.headers or [()] * len(batch)
            for record in zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), headers, strict=True):
                yield RawRecord(topic, *record)
    finally:
        reader.close()


def settings_of(application_id: str, folder: Path, bootstrap_servers: str) -> dict[str, object]:
    """The settings of a runtime for cases."""
    return {
        "application.id": application_id,
        "state.dir": str(folder / "state"),
        "checkpoint.fsync": False,
        "num.stream.threads": 2,
        "bootstrap.servers": bootstrap_servers,
    }
