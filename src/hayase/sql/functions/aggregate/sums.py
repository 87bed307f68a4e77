"""SUM, AVG and SUM_LIST."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, ClassVar

from hayase.sql.errors import FunctionError
from hayase.sql.functions.registry import aggregate
from hayase.sql.types.java_numbers import wrapped
from hayase.sql.types.sql_types import BIGINT, DOUBLE, INTEGER, DecimalType, SqlType, StructType

_SUM = "The sum of the values, nulls not counted."
_AVG = "The mean of the values, nulls not counted; 0 if there are none."
_SUM_LIST = "The sum of all elements of the arrays, nulls not counted."
_EXACT = Context(prec=1000)
_BITS: dict[SqlType, int] = {INTEGER: 32, BIGINT: 64}


def _same(types: Sequence[SqlType | None]) -> SqlType:
    assert types[0] is not None
    return types[0]


class _Addition:
    """Addition of numbers of one type: integers wrap as in Java."""

    state_type: SqlType = DOUBLE

    def initial(self) -> Any:
        """Nothing."""
        return 0.0 if self.state_type == DOUBLE else 0

    def add(self, state: Any, value: Any) -> Any:
        """The sum with a value."""
        return state if value is None else self.fit(state + value)

    def undo(self, state: Any, value: Any) -> Any:
        """The sum without a value."""
        return state if value is None else self.fit(state - value)

    def merge(self, left: Any, right: Any) -> Any:
        """The sum of two sessions."""
        return self.fit(left + right)

    def result(self, state: Any) -> Any:
        """The sum."""
        return state

    def fit(self, value: Any) -> Any:
        """A sum within the range of the type."""
        bits = _BITS.get(self.state_type)
        return value if bits is None else wrapped(value, bits)


@aggregate("SUM", "(INT) -> INT", _SUM)
class SumInt(_Addition):
    """SUM of INT."""

    state_type = INTEGER


@aggregate("SUM", "(BIGINT) -> BIGINT", _SUM)
class SumBigint(_Addition):
    """SUM of BIGINT."""

    state_type = BIGINT


@aggregate("SUM", "(DOUBLE) -> DOUBLE", _SUM)
class SumDouble(_Addition):
    """SUM of DOUBLE."""


@aggregate("SUM", "(DECIMAL) -> ?", _SUM + " A sum with too many digits stops the query.", returns=_same)
class SumDecimal(_Addition):
    """SUM of DECIMAL: of the type of the values."""

    def __init__(self, *, types: Sequence[SqlType]) -> None:
        type_ = types[0]
        assert isinstance(type_, DecimalType)
        self.state_type = type_
        self._precision, self._scale = type_.precision, type_.scale

    def initial(self) -> Decimal:
        """Nothing, with all places."""
        return Decimal((0, (0,), -self._scale))

    def add(self, state: Decimal, value: Decimal | None) -> Decimal:
        """The sum with a value."""
        return state if value is None else self.fit(_EXACT.add(state, value))

    def undo(self, state: Decimal, value: Decimal | None) -> Decimal:
        """The sum without a value."""
        return state if value is None else self.fit(_EXACT.subtract(state, value))

    def merge(self, left: Decimal, right: Decimal) -> Decimal:
        """The sum of two sessions."""
        return self.fit(_EXACT.add(left, right))

    def fit(self, value: Decimal) -> Decimal:
        """A sum that the type holds, or the error that stops the query."""
        whole_digits = self._precision - self._scale
        if value and value.adjusted() >= whole_digits:
            raise FunctionError(
                "NUMERIC_FIELD_OVERFLOW",
                f"Numeric field overflow: a SUM of {self.state_type} is {value}, which must be less than "
                f"10^{whole_digits}; CAST the values to a DECIMAL with a larger precision",
            )
        return value


class _Mean:
    """Sum and number of values of one type."""

    item: ClassVar[SqlType] = DOUBLE

    def __init__(self) -> None:
        self.state_type = StructType((("SUM", self.item), ("COUNT", BIGINT)))
        self._bits = _BITS.get(self.item)

    def initial(self) -> dict[str, Any]:
        """No values."""
        return {"SUM": 0.0 if self.item == DOUBLE else 0, "COUNT": 0}

    def add(self, state: dict[str, Any], value: Any) -> dict[str, Any]:
        """One value more."""
        return state if value is None else self._state(state["SUM"] + value, state["COUNT"] + 1)

    def undo(self, state: dict[str, Any], value: Any) -> dict[str, Any]:
        """One value less."""
        return state if value is None else self._state(state["SUM"] - value, state["COUNT"] - 1)

    def merge(self, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        """The values of two sessions."""
        return self._state(left["SUM"] + right["SUM"], left["COUNT"] + right["COUNT"])

    def result(self, state: dict[str, Any]) -> float:
        """The mean."""
        return float(state["SUM"]) / float(state["COUNT"]) if state["COUNT"] else 0.0

    def _state(self, total: Any, count: int) -> dict[str, Any]:
        return {"SUM": total if self._bits is None else wrapped(total, self._bits), "COUNT": count}


@aggregate("AVG", "(INT) -> DOUBLE", _AVG)
class AvgInt(_Mean):
    """AVG of INT."""

    item = INTEGER


@aggregate("AVG", "(BIGINT) -> DOUBLE", _AVG)
class AvgBigint(_Mean):
    """AVG of BIGINT."""

    item = BIGINT


@aggregate("AVG", "(DOUBLE) -> DOUBLE", _AVG)
class AvgDouble(_Mean):
    """AVG of DOUBLE."""


class _ListAddition(_Addition):
    """Addition of the elements of arrays."""

    def add(self, state: Any, value: list[Any] | None) -> Any:
        """The sum with the elements of an array."""
        for element in value or ():
            state = super().add(state, element)
        return state

    def undo(self, state: Any, value: list[Any] | None) -> Any:
        """The sum without the elements of an array."""
        for element in value or ():
            state = super().undo(state, element)
        return state


@aggregate("SUM_LIST", "(ARRAY<INT>) -> INT", _SUM_LIST)
class SumListInt(_ListAddition):
    """SUM_LIST of INT."""

    state_type = INTEGER


@aggregate("SUM_LIST", "(ARRAY<BIGINT>) -> BIGINT", _SUM_LIST)
class SumListBigint(_ListAddition):
    """SUM_LIST of BIGINT."""

    state_type = BIGINT


@aggregate("SUM_LIST", "(ARRAY<DOUBLE>) -> DOUBLE", _SUM_LIST)
class SumListDouble(_ListAddition):
    """SUM_LIST of DOUBLE."""
