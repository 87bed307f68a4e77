"""Expressions of a topology: both forms, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hayase.sql.expressions.column_forms import NEVER
from hayase.sql.expressions.columns import ColumnExpression
from hayase.sql.expressions.rows import RowExpression
from hayase.sql.formats.columns import column_dtype, is_packed
from hayase.sql.formats.packing import PackedForm, packed_form
from hayase.sql.plan.processing_log import log_failure


class GuardedExpression:
    """An expression whose failure is a null and a line of the processing log.

    Args:
        expression: compiled.
        step: name of the step, for the log.
        text: of the expression, for the log.
        form: its column form, if it has one.
        reads: the columns that it uses.
        name: for the log, instead of the text.
        packed_reads: those of them whose values are packed.

    Attributes:
        form: see above.
        is_sure: the column form never leaves a row to the row form.
        reads: see above.
        text: see above.
        dtype: of its values in columns; `None` if it has no type, as NULL.
        packed: how its values are packed in columns, if they are.
        packed_reads: the columns that it uses whose values are packed.
        pure: the same row always gives the same value.
    """

    def __init__(
        self,
        expression: RowExpression,
        step: str,
        text: str,
        form: ColumnExpression | None = None,
        reads: tuple[str, ...] = (),
        name: str | None = None,
        packed_reads: Mapping[str, PackedForm] | None = None,
    ) -> None:
        self._expression = expression
        self._step = step
        self.text = text
        self._name = text if name is None else name
        self.form = form
        self.is_sure = form is None or form.unsure.meta.eq(NEVER)
        self.reads = reads
        self.packed_reads = packed_reads or {}
        type_ = expression.type
        self.dtype: pl.DataType | None = None if type_ is None else column_dtype(type_)
        self.packed = packed_form(type_) if type_ is not None and is_packed(type_) else None
        self.pure = expression.pure
        expression.report = self.failed

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._expression.report = self.failed

    def __call__(self, row: Mapping[str, object]) -> Any:
        """The value for a row; `None` if it fails."""
        try:
            return self._expression(row)
        except Exception as error:  # a function of a user may raise anything
            self.failed(error, row)
            return None

    def failed(self, error: Exception, row: Mapping[str, object] | None = None) -> None:
        """Note that it failed for a row, or a part of it did."""
        log_failure(self._step, self._name, error, row)

    @property
    def definition(self) -> str:
        """What it computes, as text that is the same in every process."""
        return f"{self.text} over {', '.join(self.reads)} gives {self._expression.type}"

    @property
    def explained(self) -> str:
        """How batches are computed, for EXPLAIN."""
        if self.form is None:
            return f"{self.text}: row by row over {', '.join(self.reads) or 'nothing'}"
        return f"{self.text}: columns" + ("" if self.is_sure else ", rows where these are not sure")
