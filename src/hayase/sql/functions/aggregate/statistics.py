"""STDDEV_SAMPLE, STDDEV_SAMP and CORRELATION."""

from __future__ import annotations

import math
from typing import ClassVar

from hayase.sql.functions.java.numbers import divide
from hayase.sql.functions.registry import aggregate
from hayase.sql.types.java_numbers import wrapped
from hayase.sql.types.sql_types import BIGINT, DOUBLE, INTEGER, SqlType, StructType

State = dict[str, float]
_BITS: dict[SqlType, int] = {INTEGER: 32, BIGINT: 64}
_DEVIATION = "The standard deviation of a sample, nulls not counted."
_VARIANCE = "The variance of a sample, in spite of its name; use STDDEV_SAMPLE for the standard deviation."
_CORRELATION = "Pearson's correlation of two columns; rows with a null are not counted."


class _Variance:
    """Sum, number and squared deviations of values, updated one by one."""

    item: ClassVar[SqlType] = DOUBLE

    def __init__(self) -> None:
        self.state_type = StructType((("SUM", self.item), ("COUNT", BIGINT), ("M2", DOUBLE)))
        self._bits = _BITS.get(self.item)

    def initial(self) -> State:
        """No values."""
        return {"SUM": 0.0 if self._bits is None else 0, "COUNT": 0, "M2": 0.0}

    def add(self, state: State, value: float | None) -> State:
        """One value more."""
        if value is None:
            return state
        count, total = state["COUNT"] + 1, self._wrapped(state["SUM"] + value)
        return {"SUM": total, "COUNT": count, "M2": state["M2"] + self._change(count, total, value)}

    def undo(self, state: State, value: float | None) -> State:
        """One value less."""
        if value is None:
            return state
        change = self._change(state["COUNT"], state["SUM"], value)
        return {"SUM": self._wrapped(state["SUM"] - value), "COUNT": state["COUNT"] - 1, "M2": state["M2"] - change}

    def merge(self, left: State, right: State) -> State:
        """The values of two sessions."""
        if not left["COUNT"] or not right["COUNT"]:
            return left if left["COUNT"] else right
        count = left["COUNT"] + right["COUNT"]
        between = right["SUM"] / right["COUNT"] - left["SUM"] / left["COUNT"]
        return {
            "SUM": self._wrapped(left["SUM"] + right["SUM"]),
            "COUNT": count,
            "M2": left["M2"] + right["M2"] + between * between * left["COUNT"] * right["COUNT"] / count,
        }

    def result(self, state: State) -> float:
        """The variance: 0 for less than two values."""
        return state["M2"] / (state["COUNT"] - 1) if state["COUNT"] > 1 else 0.0

    def _change(self, count: float, total: float, value: float) -> float:
        """What a value adds to the squared deviations, given number and sum with it."""
        if count < 2:
            return 0.0
        deviation = float(count * value - total)
        return deviation * deviation / float(count * (count - 1))

    def _wrapped(self, total: float) -> float:
        return total if self._bits is None else wrapped(int(total), self._bits)


class _Deviation(_Variance):
    """The root of the variance."""

    def result(self, state: State) -> float:
        """The standard deviation: 0 for less than two values."""
        return math.sqrt(max(super().result(state), 0.0))


@aggregate("STDDEV_SAMP", "(INT) -> DOUBLE", _VARIANCE)
class VarianceInt(_Variance):
    """STDDEV_SAMP of INT."""

    item = INTEGER


@aggregate("STDDEV_SAMP", "(BIGINT) -> DOUBLE", _VARIANCE)
class VarianceBigint(_Variance):
    """STDDEV_SAMP of BIGINT."""

    item = BIGINT


@aggregate("STDDEV_SAMP", "(DOUBLE) -> DOUBLE", _VARIANCE)
class VarianceDouble(_Variance):
    """STDDEV_SAMP of DOUBLE."""


@aggregate("STDDEV_SAMPLE", "(INT) -> DOUBLE", _DEVIATION)
class DeviationInt(_Deviation):
    """STDDEV_SAMPLE of INT."""

    item = INTEGER


@aggregate("STDDEV_SAMPLE", "(BIGINT) -> DOUBLE", _DEVIATION)
class DeviationBigint(_Deviation):
    """STDDEV_SAMPLE of BIGINT."""

    item = BIGINT


@aggregate("STDDEV_SAMPLE", "(DOUBLE) -> DOUBLE", _DEVIATION)
class DeviationDouble(_Deviation):
    """STDDEV_SAMPLE of DOUBLE."""


@aggregate("CORRELATION", "(INT, INT) -> DOUBLE", _CORRELATION)
@aggregate("CORRELATION", "(BIGINT, BIGINT) -> DOUBLE", _CORRELATION)
@aggregate("CORRELATION", "(DOUBLE, DOUBLE) -> DOUBLE", _CORRELATION)
class Correlation:
    """CORRELATION: NaN where a column does not vary."""

    state_type = StructType(
        (
            ("COUNT", BIGINT),
            ("SUM_X", DOUBLE),
            ("SUM_Y", DOUBLE),
            ("SUM_X_SQUARED", DOUBLE),
            ("SUM_Y_SQUARED", DOUBLE),
            ("SUM_XY", DOUBLE),
        )
    )

    def initial(self) -> State:
        """No rows."""
        return {"COUNT": 0, "SUM_X": 0.0, "SUM_Y": 0.0, "SUM_X_SQUARED": 0.0, "SUM_Y_SQUARED": 0.0, "SUM_XY": 0.0}

    def add(self, state: State, x: float | None, y: float | None) -> State:
        """One row more."""
        return state if x is None or y is None else self._changed(state, float(x), float(y), 1)

    def undo(self, state: State, x: float | None, y: float | None) -> State:
        """One row less."""
        return state if x is None or y is None else self._changed(state, float(x), float(y), -1)

    def merge(self, left: State, right: State) -> State:
        """The rows of two sessions."""
        return {name: value + right[name] for name, value in left.items()}

    def result(self, state: State) -> float:
        """The correlation."""
        count = state["COUNT"]
        both = count * state["SUM_XY"] - state["SUM_X"] * state["SUM_Y"]
        of_x = count * state["SUM_X_SQUARED"] - state["SUM_X"] ** 2
        of_y = count * state["SUM_Y_SQUARED"] - state["SUM_Y"] ** 2
        if of_x < 0 or of_y < 0:
            return math.nan
        return divide(both, math.sqrt(of_x) * math.sqrt(of_y))

    @staticmethod
    def _changed(state: State, x: float, y: float, by: int) -> State:
        return {
            "COUNT": state["COUNT"] + by,
            "SUM_X": state["SUM_X"] + by * x,
            "SUM_Y": state["SUM_Y"] + by * y,
            "SUM_X_SQUARED": state["SUM_X_SQUARED"] + by * x * x,
            "SUM_Y_SQUARED": state["SUM_Y_SQUARED"] + by * y * y,
            "SUM_XY": state["SUM_XY"] + by * x * y,
        }
