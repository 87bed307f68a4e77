"""Every scalar function gives a value of its type, or a `FunctionError`, for whatever it is given."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.sql.functions.evaluation import REGISTRY

from hayase.sql.errors import FunctionError
from hayase.sql.functions.declarations import Declaration
from hayase.sql.functions.registry import FunctionKind
from hayase.sql.functions.signatures import (
    AnyDecimal,
    Anything,
    AnyUnit,
    Argument,
    ArrayOf,
    Exactly,
    LambdaOf,
    MapOf,
    Pattern,
    UnitArgument,
    Variable,
)
from hayase.sql.types.sql_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
    StructType,
)

CALLS = 40
DECIMAL = DecimalType(12, 3)
TEXTS = [
    "",
    "a",
    "abc",
    "2018-05-11",
    "yyyy-MM-dd",
    "dd.MMM.yy HH:mm z",
    "HH:mm",
    "+02:00",
    "Europe/Paris",
    "hex",
    "utf8",
    "base64",
    '{"a":[1,2.50]}\n',
    '[1,"a",null]',
    "$.a[0]",
    "a.b",
    "(a)(b)?",
    "\\d+",
    "[",
    "http://a.b:8/c?d=e#f",
    "%zz",
    "é😀",
    "KM",
    "DESC",
    "BIG_ENDIAN",
    "0x0",
    "1e400",
    "'",
    "$1",
    "\\",
]
VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "INTEGER": [0, 1, -1, 2, 100, 2**31 - 1, -(2**31)],
    "BIGINT": [0, 1, -1, 3, 2**63 - 1, -(2**63), 1_526_075_913_000],
    "DOUBLE": [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 1e308, 5e-324],
    "STRING": TEXTS,
    "BYTES": [b"", b"a", b"\x00\xff\x00\xff", b"12345678", b"x" * 16],
    "DATE": [0, -1, 17662, 2**31 - 1, -(2**31)],
    "TIME": [0, 86_399_999, 5],
    "TIMESTAMP": [0, -1, 1_526_075_913_042, 2**63 - 1, -(2**63)],
}
CHECKS: dict[str, Callable[[Any], bool]] = {
    "BOOLEAN": lambda value: type(value) is bool,
    "INTEGER": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "BIGINT": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "DOUBLE": lambda value: type(value) is float,
    "STRING": lambda value: type(value) is str and value.encode() is not None,
    "BYTES": lambda value: type(value) is bytes,
    "DATE": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "TIME": lambda value: type(value) is int and 0 <= value < 86_400_000,
    "TIMESTAMP": lambda value: type(value) is int and -(2**63) <= value < 2**63,
}


def some_type(pattern: Pattern, variables: dict[str, SqlType], chance: random.Random) -> Argument:
    match pattern:
        case Exactly(type_):
            return type_
        case AnyDecimal():
            return DECIMAL
        case AnyUnit():
            return UnitArgument()
        case Variable(name):
            return variables.setdefault(
                name, chance.choice([INTEGER, STRING, DOUBLE, BOOLEAN, DECIMAL, ArrayType(STRING)])
            )
        case ArrayOf(item):
            inner = some_type(item, variables, chance)
            assert isinstance(inner, SqlType)
            return ArrayType(inner)
        case MapOf(_, value):
            inner = some_type(value, variables, chance)
            assert isinstance(inner, SqlType)
            return MapType(STRING, inner)
        case Anything():
            return chance.choice([INTEGER, STRING, DOUBLE, DECIMAL, DATE, ArrayType(INTEGER)])
    raise AssertionError(f"{pattern} is no parameter of a built-in function")


def some_value(type_: Argument, chance: random.Random) -> Any:
    if isinstance(type_, UnitArgument):
        return "DAYS"
    if chance.random() < 0.1:
        return None
    match type_:
        case DecimalType(_, scale):
            return Decimal(chance.choice([0, 1, -1, 999_999_999_999, -5, 1500])).scaleb(-scale)
        case ArrayType(item):
            return [some_value(item, chance) for _ in range(chance.randint(0, 4))]
        case MapType(_, value):
            return {chance.choice("abc"): some_value(value, chance) for _ in range(chance.randint(0, 3))}
    return chance.choice(VALUES[str(type_)])


def is_of(value: Any, type_: SqlType | None) -> bool:
    if value is None:
        return True
    match type_:
        case DecimalType(_, scale):
            return type(value) is Decimal and value.as_tuple().exponent == -scale
        case ArrayType(item):
            return type(value) is list and all(is_of(element, item) for element in value)
        case MapType(key, item):
            return type(value) is dict and all(is_of(k, key) and is_of(v, item) for k, v in value.items())
        case StructType(fields):
            return list(value) == [name for name, _ in fields] and all(
                is_of(value[name], field) for name, field in fields
            )
    return CHECKS[str(type_)](value)


def overloads() -> list[Declaration]:
    return [
        declaration
        for name in REGISTRY.names(FunctionKind.SCALAR)
        for declaration in REGISTRY.overloads(name)
        if not any(isinstance(parameter.pattern, LambdaOf) for parameter in declaration.signature.parameters)
    ]


@pytest.mark.parametrize("declaration", overloads(), ids=lambda declaration: f"{declaration.name}{declaration.text}")
def test_a_function_gives_a_value_of_its_type_or_refuses(declaration: Declaration) -> None:
    chance = random.Random(f"{declaration.name}{declaration.text}")
    for _ in range(CALLS):
        variables: dict[str, SqlType] = {}
        types = [
            some_type(parameter.pattern, variables, chance)
            for parameter in declaration.signature.parameters
            for _ in range(chance.randint(1, 3) if parameter.variadic else 1)
        ]
        bound = REGISTRY.scalar(declaration.name, types)
        arguments = [some_value(type_, chance) for type_ in types]
        if not bound.null_aware and any(argument is None for argument in arguments):
            continue
        given = [(lambda argument=argument: argument) for argument in arguments] if bound.lazy else arguments
        before: list[Any] = [{}] if bound.settings else []
        if declaration.types:
            before.append(tuple(types))
        try:
            result = bound.function(*before, *given)
        except FunctionError:
            continue
        assert is_of(result, bound.return_type), (arguments, result)
