"""Functions that only ksqlDB's own tests have, declared as users declare theirs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hayase.sql.functions.declarations import declared_in
from hayase.sql.functions.registry import FunctionRegistry, aggregate, default_registry, scalar, table
from hayase.sql.types.sql_types import BIGINT, INTEGER, ArrayType, StructType
from hayase.sql.types.text import double_text


def registry_with_test_functions() -> FunctionRegistry:
    """All functions, with those of this module."""
    registry = FunctionRegistry()
    known = default_registry()
    for name in known.names():
        for overload in known.overloads(name):
            registry.add(overload)
    for declaration in declared_in(__name__):
        counts = isinstance(declaration.target, EveryOther)
        registry.add(replace(declaration, target=EveryOther()) if counts else declaration)
    return registry


@scalar("TEST_UDF", "(INT, STRING) -> STRING", null_aware=True)
def plain_udf_int_string(_number: int, _text: str) -> str:
    return "doStuffIntString"


@scalar("TEST_UDF", "(BIGINT, STRING) -> STRING", null_aware=True)
def plain_udf_long_string(_number: int, _text: str) -> str:
    return "doStuffLongString"


@scalar("TEST_UDF", "(BIGINT, BIGINT, STRING) -> STRING", null_aware=True)
def plain_udf_long_long_string(_first: int, _second: int, _text: str) -> str:
    return "doStuffLongLongString"


@scalar("TEST_UDF", "(BIGINT...) -> STRING", null_aware=True)
def plain_udf_longs(*_numbers: int) -> str:
    return "doStuffLongVarargs"


@scalar("TEST_UDF", "(STRUCT<A STRING>) -> STRING", null_aware=True)
def plain_udf_struct(value: dict[str, Any] | None) -> Any:
    return None if value is None else value["A"]


@scalar("TEST_UDF", "() -> STRUCT<A STRING>", null_aware=True)
def plain_udf_nothing() -> dict[str, Any]:
    return {"A": "foo"}


@scalar("BAD_UDF", "(INT) -> STRING", pure=False, null_aware=True)
def bad_udf_int(_number: int) -> str:
    raise RuntimeError("boom!")


@scalar("BAD_UDF", "(BOOLEAN) -> INT", pure=False)
def bad_udf_boolean(fails: bool) -> int:
    if fails:
        raise RuntimeError("boom!")
    return 0


class EveryOther:
    """Null at every odd call, the argument at the others."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> str | None:
        self.calls += 1
        return None if self.calls % 2 else text


scalar("BAD_UDF", "(STRING) -> STRING", pure=False)(EveryOther())


@scalar("TOSTRUCT", "(STRING) -> STRUCT<A STRING>", null_aware=True)
def to_struct(text: str) -> dict[str, Any]:
    return {"A": text}


def _checked(result: Any, ok: bool) -> Any:
    if not ok:
        raise RuntimeError("this was not to be called")
    return result


scalar("WHENCONDITION", "(BOOLEAN, BOOLEAN) -> BOOLEAN", pure=False)(_checked)
scalar("WHENRESULT", "(INT, BOOLEAN) -> INT", pure=False)(_checked)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, dict):
        return "Struct{" + ",".join(f"{name}={item}" for name, item in value.items()) + "}"
    return str(value)


@table("TEST_UDTF", "(INT, BIGINT, DOUBLE, BOOLEAN, STRING, DECIMAL, STRUCT<A STRING>) -> STRING")
def plain_udtf_plain(*values: Any) -> list[str]:
    return [_shown(value) for value in values]


_LISTS = ", ".join(
    f"ARRAY<{t}>" for t in ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "DECIMAL", "STRUCT<A STRING>")
)


@table("TEST_UDTF", f"({_LISTS}) -> STRING")
def plain_udtf_lists(*lists: Any) -> list[str]:
    return [_shown(items[0]) for items in lists]


_MAPS = _LISTS.replace("ARRAY<", "MAP<STRING, ")


@table("TEST_UDTF", f"({_MAPS}) -> STRING")
def plain_udtf_maps(*maps: Any) -> list[str]:
    return [_shown(next(iter(items.values()))) for items in maps]


def _itself(value: Any) -> list[Any]:
    return [value]


for _type in ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "STRUCT<A STRING>"):
    table("TEST_UDTF", f"({_type}) -> {_type}")(_itself)


@table("TEST_UDTF", "(DECIMAL) -> DECIMAL(30, 10)")
def plain_udtf_decimal(value: Decimal) -> list[Decimal]:
    return [value.quantize(Decimal(1).scaleb(-10))]


@table("THROWING_UDTF", "(BOOLEAN) -> BOOLEAN")
def throwing_udtf(fails: bool) -> list[bool]:
    if fails:
        raise RuntimeError("boom!")
    return [fails]


class _Sum:
    """A sum over what `measure` says of the arguments; the literals of the call make the start value."""

    state_type: Any = BIGINT

    def __init__(self, *literals: Any) -> None:
        self._start = sum(map(_size, literals))

    def initial(self) -> Any:
        return self._start

    def add(self, state: Any, *values: Any) -> Any:
        return state + sum(map(_size, values))

    def merge(self, left: Any, right: Any) -> Any:
        return left + right

    def result(self, state: Any) -> Any:
        return state


def _size(value: Any) -> Any:
    return 0 if value is None else len(value) if isinstance(value, str) else value


class _UndoableSum(_Sum):
    def undo(self, state: Any, *values: Any) -> Any:
        return state - sum(map(_size, values))


aggregate("TEST_UDAF", "(BIGINT) -> BIGINT")(_UndoableSum)
aggregate("TEST_UDAF", "(INT) -> BIGINT")(type("_IntSum", (_UndoableSum,), {}))
aggregate("TEST_UDAF", "(STRING, STRING!) -> BIGINT")(type("_LengthSum", (_Sum,), {}))


@aggregate("TEST_UDAF", "(DOUBLE) -> DOUBLE")
class _DoubleSum(_Sum):
    from hayase.sql.types.sql_types import DOUBLE as state_type

    def initial(self) -> float:
        return 0.0


_PAIR = StructType((("A", INTEGER), ("B", INTEGER)))


@aggregate("TEST_UDAF", "(STRUCT<A INT, B INT>) -> STRUCT<A INT, B INT>")
class _PairSum:
    state_type = _PAIR

    def initial(self) -> dict[str, int]:
        return {"A": 0, "B": 0}

    def add(self, state: dict[str, int], value: dict[str, int]) -> dict[str, int]:
        return {name: state[name] + _size(value[name]) for name in state}

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        return {name: left[name] + right[name] for name in left}

    def result(self, state: dict[str, int]) -> dict[str, int]:
        return state


aggregate("VAR_ARG", "(BIGINT, STRING...) -> BIGINT")(type("_VarArg", (_Sum,), {}))
aggregate("MULTI_ARG", "(BIGINT, STRING, INT!, STRING...!) -> BIGINT")(type("_MultiArg", (_Sum,), {}))
aggregate("FOUR_ARG", "(BIGINT, STRING, STRING, STRING, INT!, STRING...!) -> BIGINT")(type("_FourArg", (_Sum,), {}))
aggregate("FIVE_ARG", "(BIGINT, STRING, STRING, STRING, INT, INT!, STRING...!) -> BIGINT")(
    type("_FiveArg", (_Sum,), {})
)


@aggregate("MID_VAR_ARG", "(BIGINT, STRING..., INT!, INT!) -> BIGINT")
class _MidVarArg(_Sum):
    def __init__(self, *literals: Any) -> None:
        super().__init__()
        self._added = sum(map(_size, literals))

    def result(self, state: Any) -> Any:
        return state + self._added


class _Firsts:
    """The first arguments of the rows in which no argument is null."""

    def __init__(self, *, types: tuple[Any, ...]) -> None:
        self.state_type = ArrayType(types[0])

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        return state if None in values else [*state, values[0]]

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return left + right

    def result(self, state: list[Any]) -> list[Any]:
        return state


aggregate("OBJ_COL_ARG", "(INT, ANY...) -> ARRAY<INT>")(type("_ObjColArg", (_Firsts,), {}))
aggregate("GENERIC_VAR_ARG", "(T, U, V...) -> ARRAY<T>")(type("_GenericVarArg", (_Firsts,), {}))
