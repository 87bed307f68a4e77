"""Schemas of the registry: columns that a CREATE STREAM or TABLE leaves out, and what statements register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

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
    """Have the schemas of a source registered of which the registry has none yet."""
    for side, format_, columns in _sides(source):
        if execution.registry is not None:
            registering = partial(register_source, format_, side, columns, source.topic, execution.registry)
            execution.to_register.append(registering)


def register_result(source: DataSource, execution: Execution) -> None:
    """Have the schemas of a result registered, or compare its columns with those of the schemas it names.

    Raises:
        StatementError: the columns do not fit the schema that the statement names.
    """
    for side, format_, columns in _sides(source):
        if execution.registry is None:
            continue
        registering = partial(register_sink, format_, side, columns, source.topic, execution.registry)
        if format_.property(SCHEMA_ID) is None or execution.is_replayed:
            execution.to_register.append(registering)
        else:
            registering()


def _sides(source: DataSource) -> tuple[tuple[Side, FormatInfo, Sequence[Column]], ...]:
    return ("key", source.key_format, source.key), ("value", source.value_format, source.value)


def _check_id(name: str, format_: FormatInfo, columns: Sequence[Column]) -> None:
    if format_.property(SCHEMA_ID) is not None and columns:
        raise StatementError("INVALID_PROPERTY", f"Table elements and {name} cannot both exist for create statement.")


def _inferred(format_: FormatInfo, side: Side, topic: str, execution: Execution) -> tuple[Column, ...]:
    if not supports_inference(format_.name) or execution.registry is None:
        return ()
    return execution.frozen.of(
        execution.text,
        topic,
        format_,
        side,
        lambda: infer_columns(format_, side, topic, execution.registry).columns,
    )
