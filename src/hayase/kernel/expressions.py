"""What an expression must be to mean the same for one record and for a batch of them."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from hayase.core.errors import TopologyError


def check_expression(node: str, expression: pl.Expr) -> pl.Expr:
    """The expression, if its result for a record depends on that record alone.

    Raises:
        TopologyError: `INVALID_EXPRESSION`: it looks at other records (`sum`, `shift`, `over`, …), changes their number
            (`explode`, `filter`), or selects fields by pattern or type.
    """
    if expression.meta.has_multiple_outputs():
        raise TopologyError(
            "INVALID_EXPRESSION",
            f"{expression} selects fields by pattern or type; name each field by pl.col('…')",
            node=node,
        )
    for part in _parts(expression):
        if not _per_record(part):
            raise TopologyError(
                "INVALID_EXPRESSION",
                f"{expression} does not work record by record, because of {part}: an expression sees one record. "
                "Use group_by and an aggregate to combine records; give formats and categories explicitly",
                node=node,
            )
    return expression


def _parts(expression: pl.Expr) -> Iterable[pl.Expr]:
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(part.meta.pop())


def _per_record(part: pl.Expr) -> bool:
    try:
        meta = part.meta
        return meta.is_row_separable() and (meta.is_length_preserving() or meta.is_scalar())
    except pl.exceptions.PolarsError:  # the answer depends on the types of the fields (Python functions, list.eval)
        return True
