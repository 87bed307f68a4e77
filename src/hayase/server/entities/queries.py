"""Queries as answers show them: in lists, in the description of a source, by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hayase.server.context import ServerContext
from hayase.server.entities.schema_info import field_info, fields_of, source_fields
from hayase.server.hosts.protocol import QueryStatus
from hayase.sql.analysis.plan_text import plan_text
from hayase.sql.analysis.pull import analyze_pull
from hayase.sql.analysis.push import PushPlan, analyze_push
from hayase.sql.ast.queries import Query
from hayase.sql.catalog.catalog import Catalog
from hayase.sql.statements.results import PersistentQuery


def running_query(context: ServerContext, query: PersistentQuery) -> dict[str, object]:
    """A persistent query in a list."""
    state = context.host.status(query.id).state.value
    return {
        "queryString": query.statement,
        "sinks": [] if query.sink is None else [query.sink],
        "sinkKafkaTopics": [] if query.sink_topic is None else [query.sink_topic],
        "id": query.id,
        "statusCount": {state: 1},
        "queryType": "PERSISTENT",
        "state": state,
    }


def running_push_query(query_id: str) -> dict[str, object]:
    """A push query in a list."""
    return {
        "queryString": "",
        "sinks": [],
        "sinkKafkaTopics": [],
        "id": query_id,
        "statusCount": {"RUNNING": 1},
        "queryType": "PUSH",
        "state": "RUNNING",
    }


def queries(context: ServerContext) -> list[dict[str, object]]:
    """All queries that go on."""
    persistent = [running_query(context, query) for query in context.engine.queries.values()]
    return persistent + [running_push_query(query_id) for query_id in context.push_queries.ids()]


def query_description(
    context: ServerContext, query: PersistentQuery, catalog: Catalog | None = None, *, runs: bool = True
) -> dict[str, object]:
    """A persistent query by itself.

    Args:
        context: of the server.
        query: the query.
        catalog: in which its source and sink are; default: that of the server.
        runs: whether it runs, or is only explained.
    """
    catalog = context.engine.catalog if catalog is None else catalog
    links = catalog.queries.get(query.id)
    sink = None if query.sink is None else catalog.find(query.sink)
    described = _description(
        text=query.statement,
        fields=[] if sink is None else source_fields(sink),
        sources=[] if links is None else list(dict.fromkeys(links.reads)),
        sinks=[] if query.sink is None else [query.sink],
        topology=str(query.topology.describe()),
        plan=plan_text(query.plan),
    )
    described["windowType"] = None if sink is None or sink.window is None else sink.window.kind.value
    if not runs:
        return described
    status = context.host.status(query.id)
    host = context.settings.listener
    return described | {
        "id": query.id,
        "overriddenProperties": dict(context.commands.settings_of(query.id)),
        "ksqlHostQueryStatus": {f"{host.host}:{host.port}": status.state.value},
        "queryErrors": query_errors(status),
        "tasksMetadata": _tasks(context, status),
        "consumerGroupId": f"{context.settings.runtime['application.id']}-{query.id}",
        "state": status.state.value,
    }


def explained_select(
    context: ServerContext, query: Query, text: str, settings: Mapping[str, object]
) -> dict[str, object]:
    """A SELECT that is explained: what it would read, and how.

    Raises:
        StatementError: the query breaks a rule.
    """
    from hayase.sql.plan.push import build_push_topology  # planning is slow to import

    engine = context.engine
    if query.emit is None:
        pull = analyze_pull(query, engine.catalog, engine.functions, settings)
        plan = PushPlan(pull.step, pull.items, pull.columns, (pull.source,), pull.limit)
        fields = [field_info(each.name, each.type, "KEY" if each.name in pull.key else None) for each in pull.columns]
    else:
        plan = analyze_push(query, engine.catalog, engine.functions, settings)
        fields = fields_of({column.name: column.type for column in plan.columns})
    topology = build_push_topology(plan, engine.functions, settings, context.registry)
    return _description(
        text=text,
        fields=fields,
        sources=[source.name for source in plan.sources],
        sinks=[],
        topology=str(topology.describe()),
        plan=plan_text(plan.step),
        kind="PULL" if query.emit is None else "PUSH",
    )


def query_errors(status: QueryStatus) -> list[dict[str, object]]:
    """Why a query failed, the last times."""
    return [{"timestamp": error.time_ms, "errorMessage": error.message, "type": error.kind} for error in status.errors]


def _description(
    *,
    text: str,
    fields: Sequence[Mapping[str, object]],
    sources: Sequence[str],
    sinks: Sequence[str],
    topology: str,
    plan: str,
    kind: str = "PERSISTENT",
) -> dict[str, object]:
    return {
        "id": "",
        "statementText": text,
        "windowType": None,
        "fields": list(fields),
        "sources": list(sources),
        "sinks": list(sinks),
        "topology": topology,
        "executionPlan": plan,
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": kind,
        "queryErrors": [],
        "tasksMetadata": [],
        "consumerGroupId": "",
        "state": "UNKNOWN",
    }


def _tasks(context: ServerContext, status: QueryStatus) -> list[dict[str, object]]:
    there = context.log.describe(sorted({place.topic for place in status.positions or ()}))
    positions = {place: offset for place, offset in (status.positions or {}).items() if place.topic in there}
    ends = context.log.end_offsets(list(positions)) if positions else {}
    partitions = sorted({place.partition for place in positions})
    return [
        {
            "taskId": f"0_{partition}",
            "topicOffsets": [
                {
                    "topicPartitionEntity": {"topic": place.topic, "partition": place.partition},
                    "endOffset": ends[place],
                    "committedOffset": offset,
                }
                for place, offset in positions.items()
                if place.partition == partition
            ],
            "timeCurrentIdlingStarted": None,
        }
        for partition in partitions
    ]
