"""The column form of a function gives what its row form gives, for extremes and for values at random."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from tests.unit.sql.functions.evaluation import REGISTRY
from tests.unit.sql.functions.test_totality import some_type, some_value

from hayase.sql.errors import FunctionError
from hayase.sql.expressions.columns import compile_columns
from hayase.sql.functions.declarations import Declaration
from hayase.sql.functions.java.equality import identity
from hayase.sql.functions.registry import FunctionKind
from hayase.sql.grammar.parser import parse_expression
from hayase.sql.types.sql_types import BOOLEAN, DOUBLE, INTEGER, STRING, ArrayType, SqlType

ROWS = 400
DTYPES: dict[str, Any] = {
    "BOOLEAN": pl.Boolean,
    "INTEGER": pl.Int64,
    "BIGINT": pl.Int64,
    "DOUBLE": pl.Float64,
    "STRING": pl.String,
    "BYTES": pl.Binary,
    "DATE": pl.Int64,
    "TIME": pl.Int64,
    "TIMESTAMP": pl.Int64,
}
LETTERS = "aAzZ09 \t-_éßİΣσς\u0130\u019b\u1c89\uffff\U0001f600\U00010d50"


def declarations() -> list[Declaration]:
    return [
        declaration
        for name in REGISTRY.names(FunctionKind.SCALAR)
        for declaration in REGISTRY.overloads(name)
        if declaration.columns is not None
    ]


def value_for(type_: SqlType, chance: random.Random) -> Any:
    """An extreme, or a value at random; never null."""
    if chance.random() < 0.5:
        match str(type_):
            case "STRING":
                return "".join(chance.choice(LETTERS) for _ in range(chance.randint(0, 6)))
            case "DOUBLE":
                return chance.gauss(0, 1) * 10 ** chance.randint(-5, 20)
            case "INTEGER":
                return chance.randint(-20, 20)
    while True:
        if (value := some_value(type_, chance)) is not None:
            return value


def dtype(type_: SqlType) -> Any:
    return pl.List(dtype(type_.item)) if isinstance(type_, ArrayType) else DTYPES[str(type_)]


@pytest.mark.parametrize("declaration", declarations(), ids=lambda declaration: f"{declaration.name}{declaration.text}")
def test_columns_give_what_rows_give(declaration: Declaration) -> None:
    chance = random.Random(f"{declaration.name}{declaration.text}")
    variables: dict[str, SqlType] = {"T": chance.choice([INTEGER, STRING, DOUBLE, BOOLEAN])}
    types = [
        some_type(parameter.pattern, variables, chance)
        for parameter in declaration.signature.parameters
        for _ in range(3 if parameter.variadic else 1)
    ]
    assert all(isinstance(type_, SqlType) for type_ in types)
    rows = [[value_for(type_, chance) for type_ in types] for _ in range(ROWS)]  # type: ignore[arg-type]
    if declaration.null_aware:
        rows = [[None if chance.random() < 0.3 else value for value in row] for row in rows]
    names = [f"c{position}" for position in range(len(types))]
    frame = pl.DataFrame(rows, orient="row", schema={n: dtype(t) for n, t in zip(names, types, strict=True)})  # type: ignore[arg-type]
    assert declaration.columns is not None
    form = declaration.columns(*([{}] if declaration.settings else []), *map(pl.col, names))
    value, unsure = form if isinstance(form, tuple) else (form, pl.lit(False))
    found = frame.select(value.alias("value"), unsure.alias("unsure")).rows()
    bound = REGISTRY.scalar(declaration.name, types)
    for row, (in_columns, by_row) in zip(rows, found, strict=True):
        if by_row:
            continue
        given = [(lambda argument=argument: argument) for argument in row] if bound.lazy else row
        try:
            in_rows = bound.function(*([{}] if bound.settings else []), *given)
        except FunctionError:
            pytest.fail(f"{declaration.name}{row} fails in rows, and columns do not say so")
        assert identity(in_columns) == identity(in_rows), (row, in_columns, in_rows)


def test_most_mathematical_functions_have_a_column_form() -> None:
    names = {declaration.name for declaration in declarations()}
    assert {"ABS", "ROUND", "SQRT", "SIN", "POWER", "greatest", "COALESCE", "len", "trim"} <= names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("REPLACE(A, 'a', '$0')", ["b$0n$0n$0", "", None]),
        ("REPLACE(A, '', 'x')", [None, None, None]),
        ("CONCAT_WS('-', A, B)", ["banana-x", "", "y"]),
        ("CONCAT_WS(B, A)", [None, None, None]),
        ("SUBSTRING(A, -3, 2)", ["an", "", None]),
    ],
)
def test_literals_decide_whether_texts_are_replaced_and_joined_in_columns(text: str, found: list[str | None]) -> None:
    form = compile_columns(parse_expression(text), {"A": STRING, "B": STRING}, REGISTRY)
    assert form is not None
    frame = pl.DataFrame({"A": ["banana", "", None], "B": ["x", None, "y"]}, schema={"A": pl.String, "B": pl.String})
    rows = frame.select(pl.when(~form.unsure).then(form.value).alias("value"), form.unsure.alias("unsure"))
    assert rows["value"].to_list() == found
    assert rows["unsure"].any() == (found == [None, None, None])
