"""DROP and ALTER of streams and tables."""

from __future__ import annotations

from hayase.sql.analysis.declared_columns import declared_columns
from hayase.sql.analysis.formats import checked_formats
from hayase.sql.analysis.with_properties import WithProperties
from hayase.sql.ast.statements import AlterSource, DropSource
from hayase.sql.catalog.catalog import Catalog, did_you_mean, kind_text
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.statements.execution import Execution
from hayase.sql.statements.results import StatementResult
from hayase.sql.types.sql_types import quoted_name


def drop_source(statement: DropSource, execution: Execution) -> StatementResult:
    """Forget a stream or table, and stop the query that was made with it.

    Raises:
        StatementError: there is none, or others need it.
    """
    catalog = execution.catalog
    if statement.if_exists and catalog.find(statement.name) is None:
        return StatementResult(f"Source {statement.name} does not exist.")
    source = _source_of(statement, "DROP", catalog)
    if source.is_source and statement.delete_topic:
        raise StatementError("READ_ONLY_SOURCE", f"Cannot delete topic for read-only source: {source.name}")
    own = catalog.own_query(source.name)
    _check_unused(source.name, own, execution)
    stopped = () if own is None else (own,)
    for query_id in stopped:
        execution.stop_query(query_id)
    catalog.remove(source.name)
    if statement.delete_topic:
        execution.to_delete.append(source.topic)
    return StatementResult(f"Source {quoted_name(source.name)} (topic: {source.topic}) was dropped.", stopped=stopped)


def _source_of(statement: DropSource | AlterSource, verb: str, catalog: Catalog) -> DataSource:
    source = catalog.find(statement.name)
    if source is None:
        raise StatementError(
            "UNKNOWN_SOURCE",
            f"Source {statement.name} does not exist.{did_you_mean(catalog, statement.name)}",
            location=statement.location,
        )
    if source.kind is not statement.kind:
        raise StatementError(
            "WRONG_KIND",
            f"Incompatible data source type is {source.kind.value}, but statement was {verb} {statement.kind.value}",
        )
    return source


def _check_unused(name: str, own: str | None, execution: Execution) -> None:
    catalog = execution.catalog
    derived = catalog.derived(name)
    if derived:
        raise StatementError(
            "SOURCE_IN_USE",
            f"Cannot drop {name}.\nThe following streams and/or tables read from this source: [{', '.join(derived)}].\n"
            "You need to drop them before dropping " + name + ".",
        )
    readers = [each for each in catalog.readers(name) if each != own]
    writers = [each for each in catalog.writers(name) if each != own]
    if readers or writers:
        raise StatementError(
            "SOURCE_IN_USE",
            f"Cannot drop source: {name}. The following queries read from this source: [{', '.join(readers)}]. The "
            f"following queries write into this source: [{', '.join(writers)}]. You need to terminate them before "
            f"dropping {name}.",
        )


def alter_source(statement: AlterSource, execution: Execution) -> StatementResult:
    """Add columns to a stream or table.

    Raises:
        StatementError: there is none, or it cannot be altered.
    """
    catalog = execution.catalog
    source = _source_of(statement, "ALTER", catalog)
    kind = source.kind.value.lower()
    if source.from_query:
        raise StatementError("CANNOT_ALTER", "ALTER command is not supported for CREATE ... AS statements.")
    if source.is_source:
        raise StatementError(
            "CANNOT_ALTER",
            f"Cannot alter {kind} '{source.name}': ALTER operations are not supported on source {kind}s.",
        )
    added = declared_columns(statement.columns, catalog)
    for name in added.names:
        if name in source.columns:
            raise StatementError(
                "DUPLICATE_COLUMN",
                f"Cannot add column {quoted_name(name)} to schema. A column with the same name already exists.",
            )
    value = (*source.value, *added.value)
    _, value_format = checked_formats(source.key_format, source.value_format, source.key, value, WithProperties(), {})
    catalog.changed(source.name, value=value, value_format=value_format)
    return StatementResult(f"{kind_text(source.kind)} {quoted_name(source.name)} altered.")
