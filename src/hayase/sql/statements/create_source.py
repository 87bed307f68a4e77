"""CREATE [SOURCE] STREAM and CREATE [SOURCE] TABLE."""

from __future__ import annotations

from hayase.sql.analysis.declared_columns import DeclaredColumns, declared_columns
from hayase.sql.analysis.formats import checked_formats, source_formats
from hayase.sql.analysis.steps import ReadSource, Rows
from hayase.sql.analysis.timestamps import check_timestamp_column
from hayase.sql.analysis.upgrades import check_replaceable, check_upgrade, replacing
from hayase.sql.analysis.with_properties import (
    CREATE_PROPERTIES,
    KAFKA_TOPIC,
    PARTITIONS,
    REPLICAS,
    WithProperties,
    read_properties,
)
from hayase.sql.ast.statements import CreateSource, SourceKind
from hayase.sql.catalog.catalog import kind_text
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.settings import is_on
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.inferred_columns import register_if_absent, with_inferred
from hayase.sql.statements.results import PersistentQuery, QueryKind, StatementResult
from hayase.sql.statements.topics import existing_or_new
from hayase.sql.types.sql_types import quoted_name

_MATERIALIZE = "ksql.source.table.materialization.enabled"


def create_source(statement: CreateSource, execution: Execution) -> StatementResult:
    """Add a stream or table over a topic.

    Raises:
        StatementError: a rule is broken.
    """
    kind = kind_text(statement.kind)
    properties = read_properties(statement.properties, CREATE_PROPERTIES, f"CREATE {statement.kind.value}")
    existing = execution.catalog.find(statement.name)
    if existing is not None and not statement.or_replace:
        if statement.if_not_exists:
            return StatementResult(f"{already_exists(quoted_name(statement.name), statement.kind, existing)}.")
        raise StatementError("SOURCE_EXISTS", already_exists(f"'{statement.name}'", statement.kind, existing))
    if statement.or_replace:
        check_replaceable(statement.name, statement.kind, existing, is_source=statement.is_source)
    source = _source(statement, properties, execution)
    if existing is not None:
        with replacing(statement.name):
            check_upgrade(existing, source)
    replicas = properties.number(REPLICAS)
    topic = existing_or_new(execution.topics, source.topic, properties.number(PARTITIONS), replicas, kind.lower())
    if topic is not None:
        execution.to_create.append(topic)
    register_if_absent(source, execution)
    execution.catalog.put(source)
    started: tuple[PersistentQuery, ...] = ()
    if source.is_source and source.is_table and is_on(execution.settings, _MATERIALIZE):
        started = (_kept_table(source, execution),)
    return StatementResult(f"{kind} created", started)


def already_exists(name: str, kind: SourceKind, existing: DataSource) -> str:
    """The message about a name that is taken; `name` in the quotes it is shown with."""
    return f"Cannot add {kind.value.lower()} {name}: A {existing.kind.value.lower()} with the same name already exists"


def _source(statement: CreateSource, properties: WithProperties, execution: Execution) -> DataSource:
    topic = properties.text(KAFKA_TOPIC)
    if topic is None:
        raise StatementError(
            "MISSING_TOPIC",
            f'Missing required property "{KAFKA_TOPIC}" which has no default value: name the topic in the WITH clause',
        )
    columns = declared_columns(statement.columns or (), execution.catalog)
    key_format, value_format = source_formats(statement.name, properties, execution.settings)
    columns = with_inferred(columns, key_format, value_format, topic, properties, execution)
    _check_keys(statement, columns, properties)
    key_format, value_format = checked_formats(
        key_format, value_format, columns.key, columns.value, properties, execution.settings
    )
    source = DataSource(
        kind=statement.kind,
        name=statement.name,
        key=columns.key,
        value=columns.value,
        headers=columns.headers,
        topic=topic,
        key_format=key_format,
        value_format=value_format,
        window=properties.window,
        timestamp=properties.timestamp,
        declared=columns.names,
        is_source=statement.is_source,
        statement=execution.text,
    )
    check_timestamp_column(source.timestamp, source.columns)
    return source


def _check_keys(statement: CreateSource, columns: DeclaredColumns, properties: WithProperties) -> None:
    if statement.kind is SourceKind.TABLE and not columns.key:
        raise StatementError("NO_PRIMARY_KEY", "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.")
    if properties.window is not None and not columns.key:
        raise StatementError("NO_KEY", "Windowed sources require a key column.")


def _kept_table(source: DataSource, execution: Execution) -> PersistentQuery:
    """The query that keeps the rows of a CREATE SOURCE TABLE."""
    from hayase.dsl.builder import StreamsBuilder  # planning is slow to import
    from hayase.sql.plan.build import build_kept_table
    from hayase.sql.plan.context import PlanContext

    query_id = f"CST_{source.name}_{execution.number()}"
    names = {name: name for name in (*source.columns, *source.pseudo_columns)}
    rows = Rows(
        {**source.columns, **source.pseudo_columns}, tuple(column.name for column in source.key), True, source.window
    )
    step = ReadSource(rows, source, names)
    context = PlanContext(StreamsBuilder(), execution.functions, execution.settings, execution.registry)
    topology = build_kept_table(step, source.name, context)
    query = PersistentQuery(
        query_id, QueryKind.CREATE_SOURCE, None, topology, (source.topic,), None, execution.text, step
    )
    execution.add_query(query, (source.name,), own_sink=True)
    return query


__all__ = ["already_exists", "create_source"]
