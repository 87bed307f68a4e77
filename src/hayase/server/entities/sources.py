"""Streams and tables as answers show them."""

from __future__ import annotations

from hayase.core.records import TopicPartition
from hayase.server.context import ServerContext
from hayase.server.entities.queries import running_query
from hayase.server.entities.schema_info import source_fields
from hayase.sql.ast.statements import SourceKind
from hayase.sql.catalog.sources import DataSource
from hayase.sql.statements.results import PersistentQuery

_STATISTICS = "This field is deprecated; clusterStatistics has the numbers.\n"
_ERRORS = "This field is deprecated; clusterErrorStats has the numbers.\n"


def listed_source(source: DataSource) -> dict[str, object]:
    """A stream or table in a list."""
    return {
        "type": source.kind.value,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "isWindowed": source.window is not None,
    }


def listed_sources(context: ServerContext, kind: SourceKind) -> list[DataSource]:
    """All streams or all tables, by name."""
    return sorted((source for source in context.engine.catalog if source.kind is kind), key=lambda each: each.name)


def source_description(context: ServerContext, source: DataSource, *, extended: bool) -> dict[str, object]:
    """A stream or table by itself; `extended`: with its topic and numbers."""
    catalog, queries = context.engine.catalog, context.engine.queries
    readers = [queries[query_id] for query_id in catalog.readers(source.name) if query_id in queries]
    writers = [queries[query_id] for query_id in catalog.writers(source.name) if query_id in queries]
    described: dict[str, object] = {
        "name": source.name,
        "windowType": None if source.window is None else source.window.kind.value,
        "readQueries": [running_query(context, query) for query in readers],
        "writeQueries": [running_query(context, query) for query in writers],
        "fields": source_fields(source),
        "type": source.kind.value,
        "timestamp": "" if source.timestamp is None else source.timestamp.name,
        "statistics": _STATISTICS,
        "errorStats": _ERRORS,
        "extended": extended,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": 0,
        "replication": 0,
        "statement": source.statement,
        "queryOffsetSummaries": [],
        "sourceConstraints": catalog.derived(source.name),
        "clusterStatistics": [],
        "clusterErrorStats": [],
    }
    if extended:
        described |= _numbers(context, source, readers, writers)
    return described


def _numbers(
    context: ServerContext, source: DataSource, readers: list[PersistentQuery], writers: list[PersistentQuery]
) -> dict[str, object]:
    partitions = context.topics.partitions(source.topic) or 0
    written = [context.host.status(query.id) for query in writers]
    read = [context.host.status(query.id) for query in readers]
    now_ms = context.clock.now_ms()
    listener = context.settings.listener
    numbers = {
        "total-messages": sum(status.produced for status in written),
        "consumer-total-messages": sum(status.consumed for status in read),
    }
    errors = {"consumer-failed-messages": sum(len(status.errors) for status in (*read, *written))}

    def stats(values: dict[str, int]) -> list[dict[str, object]]:
        host = f"{listener.host}:{listener.port}"
        return [
            {"name": name, "host": host, "value": value, "timestamp": now_ms} for name, value in values.items() if value
        ]

    return {
        "partitions": partitions,
        "replication": context.topics.replicas(source.topic),
        "statistics": _STATISTICS + _text(numbers),
        "errorStats": _ERRORS + _text(errors),
        "clusterStatistics": stats(numbers),
        "clusterErrorStats": stats(errors),
        "queryOffsetSummaries": [_offsets(context, source, query) for query in readers if partitions],
    }


def _text(values: dict[str, int]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in values.items())


def _offsets(context: ServerContext, source: DataSource, query: PersistentQuery) -> dict[str, object]:
    positions = context.host.status(query.id).positions or {}
    places = [TopicPartition(source.topic, number) for number in range(context.topics.partitions(source.topic) or 0)]
    starts, ends = context.log.start_offsets(places), context.log.end_offsets(places)
    offsets = [
        {
            "partition": place.partition,
            "logStartOffset": starts[place],
            "logEndOffset": ends[place],
            "consumerOffset": positions.get(place, 0),
        }
        for place in places
    ]
    return {
        "groupId": f"{context.settings.runtime['application.id']}-{query.id}",
        "topicSummaries": [{"kafkaTopic": source.topic, "offsets": offsets}],
    }
