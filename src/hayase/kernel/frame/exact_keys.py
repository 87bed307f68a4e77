"""Keys of which equal ones have equal bytes, so that columns can compare what the row form compares by bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.kernel.frame.expressions import instance

_EXACT = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
    pl.Boolean, pl.String, pl.Binary, pl.Date, pl.Datetime, pl.Time, pl.Duration,
)  # fmt: skip


def is_exact(dtype: pl.DataType) -> bool:
    """Whether equal keys of a type have equal bytes: fractions do not, because of the two zeros and NaN."""
    if isinstance(dtype, pl.Struct):
        return all(is_exact(instance(field.dtype)) for field in dtype.fields)
    return isinstance(dtype, _EXACT)


def are_rows_by_key(dtype: pl.DataType) -> bool:
    """Whether rows of a table with such keys can be found by comparing keys; as `is_exact`, with decimals and lists."""
    if isinstance(dtype, pl.Struct):
        return all(are_rows_by_key(instance(field.dtype)) for field in dtype.fields)
    if isinstance(dtype, pl.List):
        return are_rows_by_key(instance(dtype.inner))
    return isinstance(dtype, pl.Decimal) or is_exact(dtype)


def equal_keys(this: pl.Series, other: pl.Series) -> npt.NDArray[np.bool_]:
    """Where keys are equal, nulls in the fields of composite ones included."""
    if isinstance(this.dtype, pl.Struct):
        equal = np.ones(len(this), np.bool_)
        for field in this.struct.fields:
            equal &= equal_keys(this.struct.field(field), other.struct.field(field))
        return equal
    return this.eq_missing(other).to_numpy()
