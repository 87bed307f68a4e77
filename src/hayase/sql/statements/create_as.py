"""CREATE STREAM … AS SELECT and CREATE TABLE … AS SELECT."""

from __future__ import annotations

from hayase.sql.analysis.copartitions import check_copartitioned
from hayase.sql.analysis.formats import checked_formats, sink_formats
from hayase.sql.analysis.query import QueryPlan, analyze_query
from hayase.sql.analysis.steps import Step, sources_of
from hayase.sql.analysis.timestamps import check_timestamp_column
from hayase.sql.analysis.upgrades import check_replaceable, check_upgrade, replacing
from hayase.sql.analysis.with_properties import (
    CREATE_AS_PROPERTIES,
    KAFKA_TOPIC,
    PARTITIONS,
    REPLICAS,
    WithProperties,
    read_properties,
)
from hayase.sql.ast.queries import Query
from hayase.sql.ast.statements import CreateAsSelect, SourceKind
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError, located
from hayase.sql.plan.build import build_topology
from hayase.sql.plan.upgrade import check_query_upgrade, shapes_of
from hayase.sql.statements.create_source import already_exists
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.inferred_columns import register_result
from hayase.sql.statements.results import PersistentQuery, QueryKind, StatementResult
from hayase.sql.types.sql_types import quoted_name

_PREFIX = "ksql.output.topic.name.prefix"
_PARTITIONS, _REPLICAS = "ksql.sink.partitions", "ksql.sink.replicas"


def create_as(statement: CreateAsSelect, execution: Execution) -> StatementResult:
    """Add a stream or table with the query that writes it.

    Raises:
        StatementError: a rule is broken.
    """
    kind = statement.kind
    properties = read_properties(statement.properties, CREATE_AS_PROPERTIES, f"CREATE {kind.value} AS SELECT")
    existing = execution.catalog.find(statement.name)
    if existing is not None and not statement.or_replace:
        if statement.if_not_exists:
            return StatementResult(f"{already_exists(quoted_name(statement.name), kind, existing)}.")
        raise StatementError("SOURCE_EXISTS", already_exists(f"'{statement.name}'", kind, existing))
    if statement.or_replace:
        check_replaceable(statement.name, kind, existing, is_source=False)
    plan = planned(statement.query, statement.name, f"CREATE {kind.value} AS SELECT", execution)
    _check_kind(kind, plan)
    source = _sink(statement, properties, plan, execution)
    query_id = _query_id(statement, existing, execution)
    topology = build_topology(plan.root, source, execution.functions, execution.settings, execution.registry)
    reads = tuple(read.name for read in plan.sources)
    topics = tuple(read.topic for read in plan.sources)
    query = PersistentQuery(
        query_id, QueryKind.CREATE_AS, source.name, topology, topics, source.topic, execution.text, plan.root
    )
    if existing is not None:
        before = execution.queries.get(query_id)
        with replacing(statement.name):
            if before is not None:
                _check_same_sources(before.plan, plan.root, statement.name)
            check_upgrade(existing, source)
            if before is not None:
                check_query_upgrade(query_id, shapes_of(before.plan), shapes_of(query.plan))
    execution.catalog.put(source)
    execution.add_query(query, reads, own_sink=True)
    _create_topic(source.topic, properties, plan, execution)
    register_result(source, execution)
    return StatementResult(f"Created query with ID {query_id}", (query,))


def _check_same_sources(before: Step, after: Step, name: str) -> None:
    """State that was made from other sources is not gone on with.

    Raises:
        StatementError: `CANNOT_REPLACE`.
    """
    old, new = ([read.source.name for read in sources_of(plan)] for plan in (before, after))
    if old != new:
        raise StatementError(
            "CANNOT_REPLACE",
            f"Cannot upgrade data source '{name}': its query reads {', '.join(old)}, and would read {', '.join(new)} "
            "with the state of before.",
        )


def planned(query: Query, sink: str, what: str, execution: Execution) -> QueryPlan:
    """The plan of a query, whose joined sources have as many partitions.

    Raises:
        StatementError: a rule is broken.
    """
    with located(query.location):
        plan = analyze_query(query, execution.catalog, execution.functions, execution.settings, sink, what)
        check_copartitioned(plan.root, execution.partitions)
    return plan


def _check_kind(kind: SourceKind, plan: QueryPlan) -> None:
    gives = SourceKind.TABLE if plan.rows.is_table else SourceKind.STREAM
    if gives is not kind:
        raise StatementError(
            "WRONG_KIND",
            f"Invalid result type. Your SELECT query produces a {gives.value}. Please use CREATE {gives.value} AS "
            "SELECT statement instead.",
        )


def _sink(statement: CreateAsSelect, properties: WithProperties, plan: QueryPlan, execution: Execution) -> DataSource:
    settings = execution.settings
    key_format, value_format = sink_formats(
        statement.name, properties, settings, plan.sources[0], plan.key, removes_key=plan.removes_key
    )
    key_format, value_format = checked_formats(key_format, value_format, plan.key, plan.value, properties, settings)
    source = DataSource(
        kind=statement.kind,
        name=statement.name,
        key=plan.key,
        value=plan.value,
        topic=properties.text(KAFKA_TOPIC) or f"{settings.get(_PREFIX) or ''}{statement.name}",
        key_format=key_format,
        value_format=value_format,
        window=plan.rows.window,
        timestamp=properties.timestamp,
        statement=execution.text,
        from_query=True,
    )
    check_timestamp_column(source.timestamp, source.columns)
    return source


def _query_id(statement: CreateAsSelect, existing: DataSource | None, execution: Execution) -> str:
    own = execution.catalog.own_query(statement.name) if existing is not None else None
    if own is not None:
        return own
    prefix = "CTAS" if statement.kind is SourceKind.TABLE else "CSAS"
    return f"{prefix}_{statement.name}_{execution.number()}"


def _create_topic(topic: str, properties: WithProperties, plan: QueryPlan, execution: Execution) -> None:
    if topic in {name for name, _, _ in execution.to_create}:
        return
    source = plan.sources[0].topic
    partitions = properties.number(PARTITIONS) or _number(execution, _PARTITIONS) or execution.partitions(source) or 1
    replicas = properties.number(REPLICAS) or _number(execution, _REPLICAS) or execution.topics.replicas(source)
    execution.to_create.append((topic, partitions, replicas))


def _number(execution: Execution, name: str) -> int | None:
    value = execution.settings.get(name)
    if value is None:
        return None
    text = str(value)
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise StatementError("INVALID_SETTING", f"{name} is {text!r}; allowed is a whole number above zero")
    return int(text)
