"""The built-in aggregates of numbers and extremes: what each keeps, its row form and its column form side by side.

Those that keep inputs as they are, are in `built_in_values`.

Both forms take the inputs of a row in record order, so that sums of fractions are equal to the last bit. Of fractions,
min and max skip NaN unless there is nothing else, and know one zero only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.core.errors import TopologyError
from hayase.kernel.frame.groups import Accumulate
from hayase.topology.operators import FieldAggregate

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_INT64 = pl.Int64()
_FLOAT64 = pl.Float64()
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
FLOATS = (pl.Float32, pl.Float64)
SCALARS = (*_INTEGERS, *FLOATS, pl.Boolean, pl.String, pl.Binary)
"""Types that have an order, and that a store can keep."""


Step = Callable[[Sequence[Any], Any], tuple[Any, ...]]
"""Stored values and an input to stored values."""


class BuiltIn(ABC):
    """One field of a built-in aggregate.

    What it keeps in the store are one or more *stored* values (`stored_names`). `dtype` is the type of its input, where
    it is known; the column form needs it.
    """

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        self.name = field.name
        self._check(field, dtype)
        self.dtype = dtype

    takes: tuple[type[pl.DataType], ...] | None = None
    """Types of inputs; `None`: any."""

    def _check(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        if dtype is None or self.takes is None or isinstance(dtype, self.takes):
            return
        allowed = ", ".join(kind.__name__ for kind in self.takes)
        raise TopologyError(
            "INVALID_AGGREGATE",
            f"{field.function} of {field.name!r} takes {allowed}, not {dtype}; cast the input to one of these",
        )

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Names of the stored values; names that no user's field has where they are not the field itself."""
        return (self.name,)

    @property
    @abstractmethod
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """Their types in columns."""

    @property
    def result_type(self) -> pl.DataType:
        """Type of the field in columns."""
        return self.stored_types[0]

    @abstractmethod
    def start(self) -> tuple[Any, ...]:
        """Stored values before the first record."""

    def column_start(self) -> tuple[Any, ...]:
        """The same as they are in columns."""
        return self.start()

    @abstractmethod
    def step(self, stored: Sequence[object], value: object) -> tuple[Any, ...]:
        """Stored values with one more input.

        Raises:
            TypeError: the input is nothing that this aggregate takes.
            OverflowError: the sum leaves 64 bits.
        """

    @property
    def typed_step(self) -> Step:
        """`step` for inputs of a column of its type, which need no check."""
        return self.step

    invertible = False
    """Whether an input can be taken out again; tables are aggregated so."""

    def undo(self, stored: Sequence[object], value: object) -> tuple[Any, ...]:
        """Stored values without an input that was taken in before; raises as `step`.

        Raises:
            TopologyError: `NOT_INVERTIBLE`.
        """
        raise TopologyError("NOT_INVERTIBLE", f"{self.name!r} does not keep what it would need to take a value out")

    def merge(self, left: Sequence[object], right: Sequence[object]) -> tuple[Any, ...]:
        """Stored values of the inputs of both, those of `left` first.

        What is kept of `right` is taken in as an input.
        """
        return self.step(left, right[0])

    def typed_merge(self, left: Sequence[object], right: Sequence[object]) -> tuple[Any, ...]:
        """`merge` of stored values as they are in columns."""
        return self.merge(left, right)

    def result(self, stored: Sequence[object]) -> Any:
        """The field's value."""
        return stored[0]

    @abstractmethod
    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """Stored values with more inputs: per group or per row, as `accumulate` says.

        Args:
            stored: for each group, null where there was no row.
            values: inputs, one per row.
            accumulate: says which.
        """

    def result_column(self, stored: Sequence[pl.Series]) -> pl.Series:
        """The field's values."""
        return stored[0]


class Count(BuiltIn):
    """The number of records, or of non-null inputs."""

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        super().__init__(field, dtype)
        self._all = field.input is None

    @property
    def counts_all(self) -> bool:
        """Whether null inputs count."""
        return self._all

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """The count."""
        return (_INT64,)

    def start(self) -> tuple[Any, ...]:
        """0."""
        return (0,)

    def step(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """One more."""
        return (stored[0] + 1 if self._all or value is not None else stored[0],)

    @property
    def typed_step(self) -> Step:
        """See BuiltIn."""
        return (lambda stored, value: (stored[0] + 1,)) if self._all else self.step

    invertible = True

    def undo(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """One less."""
        return (stored[0] - 1 if self._all or value is not None else stored[0],)

    def merge(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        """Both counts."""
        return (left[0] + right[0],)

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """See BuiltIn."""
        increments = np.ones(len(values), np.int64) if self._all else _present(values)
        return [pl.Series(accumulate(np.add, _numbers(stored[0], _INT64), increments))]


class Sum(BuiltIn):
    """The sum of non-null inputs: 64-bit whole numbers, or doubles."""

    takes = (*_INTEGERS, *FLOATS)

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        super().__init__(field, dtype)
        self._wraps = field.wraps

    @property
    def can_overflow(self) -> bool:
        """Whether a sum that leaves 64 bits is an error."""
        return self.whole and not self._wraps

    @property
    def whole(self) -> bool:
        """Whether whole numbers are added, which may leave 64 bits."""
        return not isinstance(self.dtype, FLOATS)

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """The sum."""
        return (_INT64 if self.whole else _FLOAT64,)

    def start(self) -> tuple[Any, ...]:
        """0."""
        return (0 if self.whole else 0.0,)

    def step(self, stored: Sequence[object], value: object) -> tuple[Any, ...]:
        """The sum with the input."""
        if value is None:
            return (stored[0],)
        return self._checked(stored[0] + _number(value, "sum", self.name))

    @property
    def typed_step(self) -> Step:
        """See BuiltIn."""

        def whole(stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
            total = stored[0] if value is None else stored[0] + value
            return (total,) if INT64_MIN <= total <= INT64_MAX else self._checked(total)

        def fraction(stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
            return (stored[0] if value is None else stored[0] + value,)

        return whole if self.whole else fraction

    invertible = True

    def undo(self, stored: Sequence[object], value: object) -> tuple[Any, ...]:
        """The sum without the input; of fractions, up to rounding."""
        if value is None:
            return (stored[0],)
        return self._checked(stored[0] - _number(value, "sum", self.name))

    def _checked(self, total: object) -> tuple[Any, ...]:
        if isinstance(total, int) and not INT64_MIN <= total <= INT64_MAX:
            if not self._wraps:
                raise overflow(self.name)
            return ((total - INT64_MIN) % (1 << 64) + INT64_MIN,)
        return (total,)

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """See BuiltIn. Whole numbers wrap around silently; see `may_overflow`."""
        dtype = self.stored_types[0]
        return [pl.Series(accumulate(np.add, _numbers(stored[0], dtype), _numbers(values, dtype)))]

    def may_overflow(self, stored: pl.Series, values: pl.Series, rows_in_group: int) -> bool:
        """Whether some sum on the way could leave 64 bits; false only if that is certain.

        Args:
            stored: the sum so far of each group.
            values: the inputs.
            rows_in_group: at most so many inputs belong to one group.
        """
        if not self.can_overflow:
            return False
        return _largest(stored) + _largest(values) * rows_in_group > INT64_MAX


class Extreme(BuiltIn):
    """The smallest or the largest of non-null inputs."""

    takes = SCALARS

    def __init__(self, field: FieldAggregate, dtype: pl.DataType | None) -> None:
        super().__init__(field, dtype)
        self._largest = field.function == "max"

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """The extreme, of the input's type."""
        return (self.dtype if self.dtype is not None else pl.Null(),)

    def start(self) -> tuple[Any, ...]:
        """Null."""
        return (None,)

    def step(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """The more extreme of the two, the one that was there if they are equal."""
        current = stored[0]
        if value is None:
            return (current,)
        if not isinstance(value, int | float | str | bytes):
            raise TypeError(f"{self._function} of {self.name!r} cannot take {value!r}")
        if isinstance(value, float) or (isinstance(value, int) and isinstance(self.dtype, FLOATS)):
            value = value + 0.0  # one zero only
        if current is None or (isinstance(current, float) and math.isnan(current)):
            return (value,)
        return (value if (value > current if self._largest else value < current) else current,)

    @property
    def _function(self) -> str:
        return "max" if self._largest else "min"

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """See BuiltIn."""
        dtype = self.stored_types[0]
        absent = accumulate(np.maximum, _present(stored[0]), _present(values)) == 0
        if isinstance(dtype, pl.String | pl.Binary):
            extremes = self._texts(stored[0], values, accumulate)
        elif isinstance(dtype, FLOATS):
            function = np.fmax if self._largest else np.fmin
            start = stored[0].fill_null(np.nan).to_numpy() + 0.0
            extremes = pl.Series(accumulate(function, start, values.fill_null(np.nan).to_numpy() + 0.0))
        else:
            extremes = self._whole(stored[0].cast(_INT64), values.cast(_INT64), accumulate)
        return [nulls_where(absent, extremes).cast(dtype)]

    def _whole(self, stored: pl.Series, values: pl.Series, accumulate: Accumulate) -> pl.Series:
        function, neutral = (np.maximum, INT64_MIN) if self._largest else (np.minimum, INT64_MAX)
        start, more = stored.fill_null(neutral).to_numpy(), values.fill_null(neutral).to_numpy()
        return pl.Series(accumulate(function, start, more))

    def _texts(self, stored: pl.Series, values: pl.Series, accumulate: Accumulate) -> pl.Series:
        """By rank among all texts in question; in UTF-8, the order of bytes is the order of code points."""
        every = pl.concat([stored, values])
        distinct = every.unique().drop_nulls().sort()
        rank = every.replace_strict(distinct, pl.Series(np.arange(len(distinct))), return_dtype=_INT64, default=None)
        ranks = self._whole(rank[: len(stored)], rank[len(stored) :], accumulate)
        if distinct.is_empty():
            return pl.Series([None] * len(ranks), dtype=stored.dtype)
        return distinct.gather(ranks.clip(0, len(distinct) - 1))


class Average(BuiltIn):
    """The mean of non-null inputs as a double; sum and count are kept."""

    takes = (*_INTEGERS, *FLOATS)

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Sum and count."""
        return (f"__sum_{self.name}", f"__count_{self.name}")

    @property
    def stored_types(self) -> tuple[pl.DataType, ...]:
        """Sum and count."""
        return (_FLOAT64, _INT64)

    def start(self) -> tuple[Any, ...]:
        """Nothing yet."""
        return (0.0, 0)

    def step(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """Sum and count with the input."""
        if value is None:
            return stored[0], stored[1]
        return stored[0] + float(_number(value, "avg", self.name)), stored[1] + 1

    @property
    def typed_step(self) -> Step:
        """See BuiltIn."""

        def step(stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
            return (stored[0], stored[1]) if value is None else (stored[0] + float(value), stored[1] + 1)

        return step

    invertible = True

    def undo(self, stored: Sequence[Any], value: Any) -> tuple[Any, ...]:
        """Sum and count without the input; without any input left the sum is 0, whatever was rounded."""
        if value is None:
            return stored[0], stored[1]
        count = stored[1] - 1
        return (stored[0] - float(_number(value, "avg", self.name)) if count else 0.0), count

    def merge(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        """Both sums and counts."""
        return left[0] + right[0], left[1] + right[1]

    def result(self, stored: Sequence[Any]) -> Any:
        """The mean, null if there were no inputs."""
        return stored[0] / stored[1] if stored[1] else None

    def columns(self, stored: Sequence[pl.Series], values: pl.Series, accumulate: Accumulate) -> list[pl.Series]:
        """See BuiltIn."""
        total = accumulate(np.add, _numbers(stored[0], _FLOAT64), _numbers(values, _FLOAT64))
        count = accumulate(np.add, _numbers(stored[1], _INT64), _present(values))
        return [pl.Series(total), pl.Series(count)]

    def result_column(self, stored: Sequence[pl.Series]) -> pl.Series:
        """The means."""
        count = stored[1].to_numpy()
        mean = pl.Series(stored[0].to_numpy() / np.where(count == 0, 1, count))
        return nulls_where(count == 0, mean)


def overflow(name: str) -> OverflowError:
    """The error of a sum that leaves 64 bits."""
    return OverflowError(f"the sum {name!r} leaves the range of 64-bit integers")


def _number(value: object, function: str, name: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{function} of {name!r} takes numbers, not {value!r}")
    return value


def _present(values: pl.Series) -> npt.NDArray[np.int64]:
    if not values.null_count():
        return np.ones(len(values), np.int64)
    return values.is_not_null().to_numpy().astype(np.int64)


def _numbers(values: pl.Series, dtype: pl.DataType) -> npt.NDArray[Any]:
    return values.cast(dtype).fill_null(0).to_numpy()


def nulls_where(null: npt.NDArray[np.bool_], values: pl.Series) -> pl.Series:
    """The values with nulls where `null` is true."""
    if not null.any():
        return values
    return pl.select(pl.when(pl.Series(~null)).then(values).alias(values.name)).to_series()


def _largest(values: pl.Series) -> int:
    low, high = values.min(), values.max()
    return max(abs(int(low or 0)), abs(int(high or 0)))  # type: ignore[arg-type]
