"""Results of functions that users write, which must be values of the types that their declarations say."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal
from typing import Any

from hayase.sql.errors import FunctionError
from hayase.sql.types import sql_types as sql
from hayase.sql.types.decimals import rounded

_LIMITS: dict[type[sql.SqlType], int] = {
    sql.IntegerType: 2**31,
    sql.BigintType: 2**63,
    sql.DateType: 2**31,
    sql.TimeType: 2**31,
    sql.TimestampType: 2**63,
}
_PYTHON_TYPES: dict[type[sql.SqlType], type] = {sql.BooleanType: bool, sql.BytesType: bytes}


def checked(value: Any, type_: sql.SqlType, name: str) -> Any:
    """A result as a value of its SQL type.

    Raises:
        FunctionError: `WRONG_RESULT`: it is no value of that type.
    """
    if value is None:
        return None
    match type_:
        case sql.ArrayType(item) if isinstance(value, list | tuple):
            return [checked(each, item, name) for each in value]
        case sql.MapType(key, item) if isinstance(value, dict) and None not in value:
            return {checked(each, key, name): checked(value[each], item, name) for each in value}
        case sql.StructType(fields) if isinstance(value, dict) and value.keys() <= dict(fields).keys():
            return {each: checked(value.get(each), field, name) for each, field in fields}
        case sql.DoubleType() if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case sql.DecimalType(precision, scale) if isinstance(value, int | Decimal) and not isinstance(value, bool):
            with suppress(ArithmeticError):
                return rounded(Decimal(value), precision, scale)
        case sql.StringType() if isinstance(value, str):
            if value.isascii() or value == value.encode(errors="replace").decode():
                return value
        case _ if type(type_) in _LIMITS:
            limit = _LIMITS[type(type_)]
            if not isinstance(value, bool) and hasattr(value, "__index__") and -limit <= value < limit:
                return operator.index(value)
        case _ if isinstance(value, _PYTHON_TYPES.get(type(type_), ())):
            return value
    raise FunctionError("WRONG_RESULT", f"{name} returned {value!r:.80}, which is no {type_}")


class CheckedFunction:
    """A scalar function whose results are checked.

    Args:
        function: of a user.
        type_: of its results.
        name: for messages.
    """

    def __init__(self, function: Callable[..., Any], type_: sql.SqlType, name: str) -> None:
        self._function = function
        self._type = type_
        self._name = name

    def __call__(self, *arguments: Any) -> Any:
        """The result; raises what the function raises, and FunctionError for a result of another type."""
        return checked(_called(self._function, self._name, arguments), self._type, self._name)


class CheckedTableFunction(CheckedFunction):
    """A table function, whose result is a list of checked items; `type_` is that of an item."""

    def __call__(self, *arguments: Any) -> list[Any]:
        """The items; raises what the function raises, and FunctionError for what is no list of that type."""
        items = _called(self._function, self._name, arguments)
        if items is None:
            return []
        if not isinstance(items, Iterable) or isinstance(items, str | bytes | dict):
            raise FunctionError("WRONG_RESULT", f"{self._name} returned {items!r:.80}, which is no list of rows")
        return [checked(item, self._type, self._name) for item in items]


class CheckedAggregate:
    """An aggregate function whose states and results are checked.

    Args:
        aggregate: what the user wrote.
        type_: of its results.
        state_type: of its states.
        name: for messages.
    """

    def __init__(self, aggregate: Any, type_: sql.SqlType, state_type: sql.SqlType, name: str) -> None:
        self._aggregate = aggregate
        self._type = type_
        self._name = name
        self.state_type = state_type

    def initial(self) -> Any:
        """The state without input."""
        return self._state(self._aggregate.initial())

    def add(self, state: Any, *values: Any) -> Any:
        """The state with one more input."""
        return self._state(self._aggregate.add(state, *values))

    def undo(self, state: Any, *values: Any) -> Any:
        """The state without an input."""
        return self._state(self._aggregate.undo(state, *values))

    def merge(self, left: Any, right: Any) -> Any:
        """The state of all inputs of two."""
        return self._state(self._aggregate.merge(left, right))

    def result(self, state: Any) -> Any:
        """What comes out."""
        return checked(self._aggregate.result(state), self._type, self._name)

    def _state(self, state: Any) -> Any:
        return checked(state, self.state_type, f"{self._name} (as its state)")


def _called(function: Callable[..., Any], name: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except SystemExit as error:  # it must not end the process that many queries share
        raise FunctionError(
            "FUNCTION_FAILED", f"{name} wanted to end the process: SystemExit({error.code!r})"
        ) from error
