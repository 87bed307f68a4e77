"""Declarations of functions, and which overload a call means."""

from __future__ import annotations

import pytest

from hayase.sql.errors import StatementError
from hayase.sql.functions.declarations import declared_in
from hayase.sql.functions.matching import LambdaTypes
from hayase.sql.functions.registry import FunctionKind, FunctionRegistry, aggregate, scalar, table, udf, udtf
from hayase.sql.functions.signatures import LambdaArgument, UnitArgument, parse_signature
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    ArrayType,
    DecimalType,
    MapType,
    SqlType,
)


@scalar("greatest", "(INT val, INT... vals) -> INT")
@scalar("greatest", "(BIGINT val, BIGINT... vals) -> BIGINT")
@scalar("greatest", "(DOUBLE val, DOUBLE... vals) -> DOUBLE")
@scalar("greatest", "(STRING val, STRING... vals) -> STRING")
@scalar("greatest", "(DATE val, DATE... vals) -> DATE")
def greatest(first: object, *others: object) -> object:
    return first


@scalar("filter", "(ARRAY<T>, (T) => BOOLEAN) -> ARRAY<T>")
@scalar("filter", "(MAP<K, V>, (K, V) => BOOLEAN) -> MAP<K, V>")
def filter_(items: object, condition: object) -> object:
    return items


@scalar("reduce", "(ARRAY<T>, S, (S, T) => S) -> S")
def reduce(items: object, start: object, step: object) -> object:
    return start


@scalar("transform", "(ARRAY<T>, (T) => U) -> ARRAY<U>")
def transform(items: object, step: object) -> object:
    return items


@scalar("contains", "(ARRAY<T>, T) -> BOOLEAN")
def contains(items: object, item: object) -> object:
    return True


@scalar("one", "(STRING...) -> INT")
@scalar("one", "(STRING) -> INT")
def one(*texts: object) -> object:
    return 1


@scalar("dateadd", "(UNIT, INT, DATE) -> DATE")
def dateadd(unit: str, amount: int, date: int) -> int:
    return date


@scalar("halve", "(DECIMAL) -> ?", returns=lambda types: types[0] or DOUBLE)
def halve(value: object) -> object:
    return value


@table("explode", "(ARRAY<DECIMAL> input) -> ?", returns=lambda types: types[0].item)  # type: ignore[union-attr]
@table("explode", "(ARRAY<T> list) -> T")
def explode(items: list[object]) -> list[object]:
    return items


@aggregate("TOPK", "(T, ANY..., INT!) -> ?", returns=lambda types: ArrayType(types[0] or STRING))
class TopK:
    def __init__(self, count: int, types: tuple[SqlType, ...]) -> None:
        self.count = count
        self.types = types

    def state_type(self, types: tuple[SqlType, ...]) -> SqlType:
        return ArrayType(types[0])


@pytest.fixture
def registry() -> FunctionRegistry:
    return FunctionRegistry(declared_in(__name__))


def decimal(precision: int, scale: int) -> DecimalType:
    return DecimalType(precision, scale)


def test_an_exact_overload_wins_over_casts(registry: FunctionRegistry) -> None:
    assert registry.scalar("GREATEST", [INTEGER, INTEGER, None]).return_type == INTEGER


def test_arguments_are_widened_where_one_overload_takes_them(registry: FunctionRegistry) -> None:
    bound = registry.scalar("greatest", [INTEGER, BIGINT, decimal(30, 18), DOUBLE, None])
    assert bound.argument_types == (DOUBLE,) * 5


def test_a_text_becomes_a_date(registry: FunctionRegistry) -> None:
    assert registry.scalar("greatest", [DATE, None, STRING]).return_type == DATE


def test_two_overloads_that_both_need_casts_are_ambiguous(registry: FunctionRegistry) -> None:
    message = r"Function 'greatest' cannot be resolved due to ambiguous method parameters \(INTEGER, BIGINT\)\."
    with pytest.raises(StatementError, match=message):
        registry.scalar("greatest", [INTEGER, BIGINT])


def test_nulls_alone_are_ambiguous(registry: FunctionRegistry) -> None:
    with pytest.raises(StatementError, match=r"ambiguous method parameters \(null, null\)"):
        registry.scalar("greatest", [None, None])


def test_an_error_lists_the_alternatives_as_written(registry: FunctionRegistry) -> None:
    with pytest.raises(StatementError) as failed:
        registry.table("EXPLODE", [MapType(STRING, INTEGER)])
    expected = (
        "Function 'explode' does not accept parameters (MAP<STRING, INTEGER>).\n"
        "Valid alternatives are:\nexplode(ARRAY<DECIMAL> input)\nexplode(ARRAY<T> list)"
    )
    assert expected in failed.value.message


def test_no_arguments_do_not_fit_a_parameter_before_a_variadic_one(registry: FunctionRegistry) -> None:
    with pytest.raises(StatementError, match=r"Function 'greatest' does not accept parameters \(\)\."):
        registry.scalar("GREATEST", [])


def test_an_unknown_function_is_named(registry: FunctionRegistry) -> None:
    with pytest.raises(StatementError, match="Can't find any functions with the name 'WONT_FIND_ME'"):
        registry.scalar("WONT_FIND_ME", [])
    with pytest.raises(StatementError, match=r"with the name 'GREATES'\. Did you mean GREATEST\?"):
        registry.scalar("GREATES", [])


def test_a_lambda_gets_the_types_of_the_items(registry: FunctionRegistry) -> None:
    seen: list[object] = []
    condition = LambdaArgument(2, lambda types: seen.append(types) or BOOLEAN)  # type: ignore[func-returns-value]
    bound = registry.scalar("filter", [MapType(STRING, BIGINT), condition])
    assert set(seen) == {(STRING, BIGINT)}
    assert bound.argument_types[1] == LambdaTypes((STRING, BIGINT), BOOLEAN, BOOLEAN)
    assert bound.return_type == MapType(STRING, BIGINT)


def test_a_lambda_decides_the_type_of_the_result(registry: FunctionRegistry) -> None:
    bound = registry.scalar("transform", [ArrayType(INTEGER), LambdaArgument(1, lambda types: DOUBLE)])
    assert bound.return_type == ArrayType(DOUBLE)


def test_a_lambda_widens_to_the_type_that_is_bound(registry: FunctionRegistry) -> None:
    bound = registry.scalar("reduce", [ArrayType(INTEGER), BIGINT, LambdaArgument(2, lambda types: INTEGER)])
    assert bound.argument_types[2] == LambdaTypes((BIGINT, INTEGER), INTEGER, BIGINT)


def test_a_lambda_with_the_wrong_number_of_parameters_does_not_fit(registry: FunctionRegistry) -> None:
    with pytest.raises(StatementError, match=r"does not accept parameters \(ARRAY<INTEGER>, LAMBDA\)"):
        registry.scalar("transform", [ArrayType(INTEGER), LambdaArgument(2, lambda types: DOUBLE)])


def test_an_item_is_widened_to_the_items_of_an_array(registry: FunctionRegistry) -> None:
    assert registry.scalar("contains", [ArrayType(BIGINT), INTEGER]).argument_types == (ArrayType(BIGINT), BIGINT)


def test_fixed_parameters_are_preferred_to_variadic_ones(registry: FunctionRegistry) -> None:
    assert len(registry.scalar("one", [STRING]).argument_types) == 1
    assert len(registry.scalar("one", [STRING, None]).argument_types) == 2


def test_a_time_unit_is_an_argument_of_its_own(registry: FunctionRegistry) -> None:
    assert registry.scalar("DATEADD", [UnitArgument(), INTEGER, DATE]).return_type == DATE
    with pytest.raises(
        StatementError, match=r"Function 'dateadd' does not accept parameters \(DATE, INTEGER, DATE\)\."
    ):
        registry.scalar("DATEADD", [DATE, INTEGER, DATE])


def test_whole_numbers_become_decimals_with_their_digits(registry: FunctionRegistry) -> None:
    assert registry.scalar("halve", [BIGINT]).return_type == decimal(19, 0)
    assert registry.scalar("halve", [decimal(4, 2)]).return_type == decimal(4, 2)


def test_literal_arguments_of_an_aggregate_go_to_its_constructor(registry: FunctionRegistry) -> None:
    bound = registry.aggregate("topk", [BIGINT, STRING, TIMESTAMP, INTEGER], {3: 5})
    assert (bound.positions, bound.literals, bound.argument_types) == ((0, 1, 2), (5,), (BIGINT, STRING, TIMESTAMP))
    assert bound.state_type == ArrayType(BIGINT)
    assert bound.create().count == 5


def test_an_aggregate_does_not_take_a_column_for_a_literal(registry: FunctionRegistry) -> None:
    with pytest.raises(StatementError, match="Parameter 2 passed to function TOPK must be a literal constant"):
        registry.aggregate("topk", [BIGINT, INTEGER])


def test_a_name_has_one_kind(registry: FunctionRegistry) -> None:
    assert registry.is_aggregate("topk") and registry.is_table_function("Explode")
    assert "REDUCE" in registry.names(FunctionKind.SCALAR)
    with pytest.raises(StatementError, match="AGGREGATE"):
        registry.scalar("TOPK", [BIGINT, INTEGER])


def test_a_struct_in_a_signature_has_named_fields(registry: FunctionRegistry) -> None:
    signature = parse_signature("(STRUCT<K STRING, V T> entry) -> T")
    assert str(signature.parameters[0]) == "STRUCT<`K` VARCHAR, `V` T> entry"


@pytest.mark.parametrize(
    "text",
    ["STRING", "(STRIN) -> INT", "(INT..., INT...) -> INT", "(INT) -> INT INT", "(ARRAY<INT) -> INT", "(;) -> T"],
)
def test_a_mistake_in_a_signature_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="signature"):
        parse_signature(text)


@udf("twice", "(INT) -> INT")
def twice(value: int) -> int:
    return 2 * value


@udtf("both", "(INT) -> INT")
def both(value: int) -> list[int]:
    return [value, value]


def test_functions_of_an_application_do_not_count_as_pure_unless_they_say_so() -> None:
    registry = FunctionRegistry(declared_in(__name__))
    assert registry.scalar("TWICE", [INTEGER]).pure is False
    assert registry.table("BOTH", [INTEGER]).pure is False
    assert registry.scalar("GREATEST", [INTEGER, INTEGER]).pure is True
