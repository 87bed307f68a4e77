"""INSERT INTO … SELECT and INSERT INTO … VALUES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hayase.sql.analysis.query import QueryPlan
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.scopes import position
from hayase.sql.analysis.with_properties import INSERT_PROPERTIES, QUERY_ID, read_properties
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.statements import InsertInto, InsertValues, SourceKind
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.catalog import did_you_mean
from hayase.sql.catalog.sources import ROWOFFSET, ROWPARTITION, ROWTIME, DataSource, schema_text
from hayase.sql.errors import StatementError, located
from hayase.sql.expressions.rows import compile_row
from hayase.sql.expressions.typing import type_of
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.insert_coercion import insert_caster
from hayase.sql.statements.results import PersistentQuery, ProducedRecord, QueryKind, StatementResult
from hayase.sql.types.sql_types import BIGINT, SqlType, quoted_name


def insert_into(statement: InsertInto, execution: Execution) -> StatementResult:
    """Start a query that writes a stream that is there.

    Raises:
        StatementError: a rule is broken.
    """
    from hayase.sql.plan.build import build_topology  # planning is slow to import
    from hayase.sql.statements.create_as import planned

    properties = read_properties(statement.properties, INSERT_PROPERTIES, "INSERT INTO")
    target = execution.catalog.find(statement.target)
    if target is None:
        raise StatementError(
            "UNKNOWN_SOURCE",
            f"{position(statement.location)}Source {quoted_name(statement.target)} does not exist."
            f"{did_you_mean(execution.catalog, statement.target)}",
            location=statement.location,
        )
    _check_target(target)
    plan = planned(statement.query, target.name, "INSERT INTO", execution)
    _check_kind(target, plan)
    _check_schema(target, plan)
    query_id = properties.text(QUERY_ID)
    if query_id is None:
        query_id = f"INSERTQUERY_{execution.number()}"
    else:
        query_id = query_id.upper()
        execution.number()
    execution.check_new_id(query_id)
    topology = build_topology(plan.root, target, execution.functions, execution.settings, execution.registry)
    topics = tuple(read.topic for read in plan.sources)
    query = PersistentQuery(
        query_id, QueryKind.INSERT, target.name, topology, topics, target.topic, execution.text, plan.root
    )
    execution.add_query(query, tuple(read.name for read in plan.sources), own_sink=False)
    circle = execution.catalog.circle_of(query_id)
    warnings = (_feeds_itself(query_id, circle),) if circle else ()
    return StatementResult(f"Created query with ID {query_id}", (query,), warnings=warnings)


def _feeds_itself(query_id: str, circle: Sequence[str]) -> str:
    way = " -> ".join(circle)
    return f"Query {query_id} reads what comes of its own results ({way}): without a WHERE that ends it, it never rests"


def _check_target(target: DataSource) -> None:
    if target.kind is not SourceKind.STREAM:
        raise StatementError(
            "INVALID_INSERT",
            f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.",
        )
    if target.is_source:
        raise StatementError("READ_ONLY_SOURCE", f"Cannot insert into read-only stream: {target.name}")
    if target.headers:
        raise StatementError("INVALID_INSERT", f"Cannot insert into {target.name} because it has header columns")


def _check_kind(target: DataSource, plan: QueryPlan) -> None:
    if plan.rows.is_table:
        raise StatementError(
            "WRONG_KIND",
            f"Incompatible data sink and query result. Data sink ({target.name}) type is {target.kind.value} but "
            f"select query result is TABLE.",
        )
    if plan.rows.window != target.window:
        raise StatementError(
            "WRONG_KIND",
            f"Incompatible data sink and query result. The keys of {target.name} and of the result have different "
            "windows",
        )


def _check_schema(target: DataSource, plan: QueryPlan) -> None:
    result = [[column.type for column in columns] for columns in (plan.key, plan.value)]
    sink = [[column.type for column in columns] for columns in (target.key, target.value)]
    if result != sink:
        raise StatementError(
            "INCOMPATIBLE_SCHEMA",
            f"Incompatible schema between results and sink.\nResult schema is {schema_text(plan.key, plan.value)}\n"
            f"Sink schema is {schema_text(target.key, target.value)}",
        )


def insert_values(statement: InsertValues, execution: Execution) -> StatementResult:
    """Write one record.

    Raises:
        StatementError: a rule is broken.
    """
    target = execution.catalog.find(statement.target)
    if target is None:
        raise StatementError(
            "UNKNOWN_SOURCE",
            f"Cannot insert values into an unknown stream/table: {quoted_name(statement.target)}"
            f"{did_you_mean(execution.catalog, statement.target)}",
        )
    if target.is_source:
        kind = target.kind.value.lower()
        raise StatementError("READ_ONLY_SOURCE", f"Cannot insert values into read-only {kind}: {target.name}")
    if target.window is not None:
        raise StatementError("INVALID_INSERT", "Cannot insert values into windowed stream/table!")
    names = _names(statement, target)
    values = _values(names, statement.values, target, execution)
    return StatementResult("", records=(record_of(target, values, execution.registry),))


def _names(statement: InsertValues, target: DataSource) -> tuple[str, ...]:
    names = statement.columns if statement.columns is not None else tuple(target.columns)
    if len(names) != len(statement.values):
        raise StatementError(
            "INVALID_INSERT",
            "Failed to prepare statement: Expected number columns and values to match: "
            f"{len(names)}, {len(statement.values)}",
        )
    headers = [header.name for header in target.headers if header.name in names]
    if headers:
        raise StatementError("INVALID_INSERT", f"Cannot insert into HEADER columns: {', '.join(headers)}")
    for name in names:
        if name in (ROWPARTITION, ROWOFFSET):
            raise StatementError("INVALID_INSERT", f"Inserting into column {quoted_name(name)} is not allowed.")
        if name not in target.columns and name != ROWTIME:
            raise StatementError(
                "UNKNOWN_COLUMN",
                f"Column name {quoted_name(name)} does not exist. The columns of {quoted_name(target.name)} are "
                f"{', '.join(map(quoted_name, target.columns))}, and {ROWTIME}",
            )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise StatementError("DUPLICATE_COLUMN", f"Duplicate column names: {', '.join(map(quoted_name, twice))}")
    missing = [column.name for column in target.key if column.name not in names]
    if missing and target.is_table:
        raise StatementError(
            "INVALID_INSERT",
            f"Failed to insert values into '{target.name}'. Value for primary key column(s) {', '.join(missing)} is "
            f"required for tables",
        )
    return names


def _values(
    names: tuple[str, ...], expressions: tuple[Expression, ...], target: DataSource, execution: Execution
) -> dict[str, Any]:
    types: dict[str, SqlType] = {**target.columns, ROWTIME: BIGINT}
    values: dict[str, Any] = {}
    for name, expression in zip(names, expressions, strict=True):
        for ref in column_refs(expression):
            problem = (
                f"VALUES column '{ref.name}' cannot be resolved."
                if ref.source is None
                else f"'{ref.source}' is not a valid stream/table name or alias."
            )
            raise StatementError("INVALID_INSERT", f"Failed to prepare statement: {problem}", location=ref.location)
        with located(expression.location):
            values[name] = _value(name, expression, types[name], execution)
    time_ms = values.get(ROWTIME)
    if time_ms is not None and time_ms < 0:
        raise StatementError(
            "INVALID_INSERT", f"Failed to insert values: ROWTIME is {time_ms}; a record's timestamp is not negative"
        )
    return values


def _value(name: str, expression: Expression, type_: SqlType, execution: Execution) -> Any:
    functions = execution.functions.of_session  # it is computed here
    given = type_of(expression, {}, functions)
    compiled = compile_row(expression, {}, functions, execution.settings)
    try:
        return insert_caster(given, type_)(compiled({}))
    except Exception as error:  # a function of a user may raise anything
        raise StatementError(
            "INVALID_INSERT",
            f"Failed to insert values: Expected type {type_} for field {quoted_name(name)} but got "
            f"{expression_text(expression)} ({given}): {error}",
            location=expression.location,
        ) from error


def record_of(target: DataSource, values: Mapping[str, Any], registry: Any) -> ProducedRecord:
    """The record of a row.

    Args:
        target: the stream or table that it is for.
        values: by column, ROWTIME included; those that are left out are null.
        registry: the schema registry, if there is one.

    Raises:
        HayaseError: the values cannot be written in the formats of the target.
    """
    key: Any = None
    if len(target.key) == 1:
        key = values.get(target.key[0].name)
    elif target.key:
        key = {column.name: values.get(column.name) for column in target.key}
    row = {column.name: values.get(column.name) for column in target.value}
    keys = key_serde(target.key_format, target.key, topic=target.topic, registry=registry)
    rows = value_serde(target.value_format, target.value, topic=target.topic, registry=registry)
    return ProducedRecord(target.topic, keys.serialize(key), rows.serialize(row), values.get(ROWTIME))
