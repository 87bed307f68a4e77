"""Schemas of the registry: columns that a CREATE STREAM or TABLE leaves out, and what statements register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hayase.serde.protocol import Side
from hayase.sql.analysis.declared_columns import DeclaredColumns
from hayase.sql.analysis.with_properties import KEY_SCHEMA_ID, VALUE_SCHEMA_ID, WithProperties
from hayase.sql.catalog.sources import DataSource
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import SCHEMA_ID, FormatInfo
from hayase.sql.formats.inference import infer_columns, register_sink, register_source
from hayase.sql.formats.support import supports_inference
from hayase.sql.statements.execution import Execution


def with_inferred(
    columns: DeclaredColumns,
    key_format: FormatInfo,
    value_format: FormatInfo,
    topic: str,
    properties: WithProperties,
    execution: Execution,
) -> DeclaredColumns:
    """The columns, with those of the schema registry where there are none of the key or of the value.

    Raises:
        StatementError: there are no columns at all, a schema is missing, or given beside columns.
    """
    _check_id(KEY_SCHEMA_ID, key_format, columns.key)
    _check_id(VALUE_SCHEMA_ID, value_format, columns.value)
    wrapped = replace(value_format, wrap=properties.wrap)
    key = columns.key or _inferred(key_format, "key", topic, execution)
    value = columns.value or _inferred(wrapped, "value", topic, execution)
    if not (key or value or columns.headers):
        raise StatementError("NO_COLUMNS", "No columns supplied.")
    return replace(columns, key=key, value=value)


def register_if_absent(source: DataSource, execution: Execution) -> None:
    """Register the schemas of a source of which the registry has none yet.

    Raises:
        StatementError: the registry refuses one.
    """
    if execution.registry is not None:
        register_source(source.key_format, "key", source.key, source.topic, execution.registry)
        register_source(source.value_format, "value", source.value, source.topic, execution.registry)


def register_result(source: DataSource, execution: Execution) -> None:
    """Register the schemas of a result, or compare it with those that the statement names.

    Raises:
        StatementError: the registry refuses one, or the columns do not fit.
    """
    if execution.registry is not None:
        register_sink(source.key_format, "key", source.key, source.topic, execution.registry)
        register_sink(source.value_format, "value", source.value, source.topic, execution.registry)


def _check_id(name: str, format_: FormatInfo, columns: Sequence[Column]) -> None:
    if format_.property(SCHEMA_ID) is not None and columns:
        raise StatementError("INVALID_PROPERTY", f"Table elements and {name} cannot both exist for create statement.")


def _inferred(format_: FormatInfo, side: Side, topic: str, execution: Execution) -> tuple[Column, ...]:
    if not supports_inference(format_.name) or execution.registry is None:
        return ()
    return infer_columns(format_, side, topic, execution.registry).columns
