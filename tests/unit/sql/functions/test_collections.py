"""Functions of arrays, maps and lambdas, and table functions."""

from __future__ import annotations

import math

import pytest
from tests.unit.sql.functions.evaluation import evaluate, type_text

from hayase.sql.errors import FunctionError
from hayase.sql.functions.table.arrays import cube_explode, explode
from hayase.sql.types.sql_types import DOUBLE, INTEGER, STRING, ArrayType, MapType, StructType

INTS = ArrayType(INTEGER)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ARRAY_LENGTH(ARRAY[1, 2])", 2),
        ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
        ("ARRAY_CONTAINS(ARRAY[1, 2], 3)", False),
        ("ARRAY_DISTINCT(ARRAY[2, NULL, 2, 1, NULL])", [2, None, 1]),
        ("ARRAY_CONCAT(ARRAY[1], ARRAY[1, 2])", [1, 1, 2]),
        ("ARRAY_UNION(ARRAY[1, 1], ARRAY[2, 1])", [1, 2]),
        ("ARRAY_INTERSECT(ARRAY[3, 1, 3], ARRAY[1, 3])", [3, 1]),
        ("ARRAY_EXCEPT(ARRAY[3, 1, 3, 2], ARRAY[1])", [3, 2]),
        ("ARRAY_REMOVE(ARRAY[1, 2, 1], 1)", [2]),
        ("ARRAY_REMOVE(ARRAY[1, NULL], NULL)", [1]),
        ("ARRAY_MAX(ARRAY[1, NULL, 3])", 3),
        ("ARRAY_MIN(ARRAY['b', 'B'])", "B"),
        ("ARRAY_SORT(ARRAY[2, NULL, 1])", [1, 2, None]),
        ("ARRAY_SORT(ARRAY[2, NULL, 1, 3], 'desc')", [3, 2, 1, None]),
        ("ARRAY_SORT(ARRAY[2, 1], 'sideways')", None),
        ("ARRAY_JOIN(ARRAY[true, NULL])", "true,null"),
        ("ARRAY_JOIN(ARRAY[1E10, 0.5E0], '; ')", "1.0E10; 0.5"),
        ("ARRAY_JOIN(ARRAY[1, 2], CAST(NULL AS STRING))", "12"),
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]),
        ("SLICE(ARRAY[1, 2, 3, 4], NULL, 2)", [1, 2]),
        ("SLICE(ARRAY[1, 2], 1, 3)", None),
        ("SLICE(ARRAY[1, 2], 0, 1)", None),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2, 3])", {"a": 1, "b": 2}),
        ("GENERATE_SERIES(1, 3)", [1, 2, 3]),
        ("GENERATE_SERIES(2, -1)", [2, 1, 0, -1]),
        ("GENERATE_SERIES(1, 6, 2)", [1, 3, 5]),
        ("GENERATE_SERIES(5, 1, -2)", [5, 3, 1]),
        ("MAP_UNION(MAP('a' := 1, 'b' := 2), MAP('a' := 3))", {"a": 3, "b": 2}),
        ("ENTRIES(MAP('b' := 2, 'a' := 1), true)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
        ("FILTER(ARRAY[1, 2, 3], x => x > 1)", [2, 3]),
        ("FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v = 2)", {"b": 2}),
        ("TRANSFORM(ARRAY[1, 2], x => x * 2)", [2, 4]),
        ("TRANSFORM(MAP('a' := 1), (k, v) => k + '!', (k, v) => v + 1)", {"a!": 2}),
        ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", 16),
        ("REDUCE(MAP('a' := 1, 'b' := 2), 0, (s, k, v) => s + v)", 3),
        ("COALESCE(NULL, 'b', 'c')", "b"),
        ("IFNULL(CAST(NULL AS INT), 4)", 4),
        ("NULLIF('a', 'a')", None),
        ("NULLIF(ARRAY[1], ARRAY[2])", [1]),
        ("AS_VALUE(3)", 3),
    ],
)
def test_arrays_and_maps(text: str, value: object) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ARRAY_CONTAINS(A, 1)", False),
        ("ARRAY_CONCAT(A, ARRAY[1])", [1]),
        ("ARRAY_CONCAT(A, A)", None),
        ("ARRAY_UNION(A, ARRAY[1])", None),
        ("ARRAY_MAX(A)", None),
        ("REDUCE(A, 7, (s, x) => s + x)", 7),
        ("REDUCE(ARRAY[1], N, (s, x) => s + x)", None),
        ("TRANSFORM(A, x => x)", None),
        ("SLICE(A, 1, 1)", None),
    ],
)
def test_null_arrays(text: str, value: object) -> None:
    assert evaluate(text, {"A": None, "N": None}, {"A": INTS, "N": INTEGER}) == value


def test_elements_are_equal_as_in_java() -> None:
    row, columns = {"A": [math.nan, 0.0, -0.0, math.nan]}, {"A": ArrayType(DOUBLE)}
    assert len(evaluate("ARRAY_DISTINCT(A)", row, columns)) == 3
    nested = ArrayType(ArrayType(MapType(STRING, INTEGER)))
    row = {"A": [[{"x": 1, "y": 2}], [{"y": 2, "x": 1}], None]}
    assert evaluate("ARRAY_DISTINCT(A)", row, {"A": nested}) == [[{"x": 1, "y": 2}], None]


@pytest.mark.parametrize("arguments", ["1, 3, 0", "1, 3, -1", "3, 1, 1", "1, 2147483647"])
def test_a_series_must_end(arguments: str) -> None:
    with pytest.raises(FunctionError):
        evaluate(f"GENERATE_SERIES({arguments})")


def test_a_map_from_lambdas_has_different_keys_and_no_null() -> None:
    with pytest.raises(FunctionError, match="twice"):
        evaluate("TRANSFORM(MAP('a' := 1, 'b' := 2), (k, v) => 'x', (k, v) => v)")
    with pytest.raises(FunctionError, match="null"):
        evaluate("TRANSFORM(MAP('a' := 1), (k, v) => k, (k, v) => NULLIF(v, 1))")


def test_keys_come_in_the_order_of_javas_hash_table() -> None:
    row = {"M": {"yes, thanks": 1, "nope": 2, "sure, yeah": 3}}
    columns = {"M": MapType(STRING, INTEGER)}
    assert evaluate("MAP_KEYS(M)", row, columns) == ["yes, thanks", "sure, yeah", "nope"]
    assert evaluate("MAP_VALUES(M)", row, columns) == [1, 3, 2]


def test_only_primitive_elements_can_be_joined() -> None:
    with pytest.raises(FunctionError, match="ARRAY_JOIN"):
        evaluate("ARRAY_JOIN(A)", {"A": [[1]]}, {"A": ArrayType(INTS)})


def test_entries_are_structs() -> None:
    assert type_text("ENTRIES(MAP('a' := true), false)") == "ARRAY<STRUCT<`K` STRING, `V` BOOLEAN>>"


def test_explode_has_a_row_for_each_element() -> None:
    assert explode([1, None]) == [1, None]


def test_cube_explode_has_a_row_for_each_choice_of_what_is_not_null() -> None:
    assert cube_explode(["a", "b"]) == [[None, None], [None, "b"], ["a", None], ["a", "b"]]
    assert cube_explode(["a", None]) == [[None, None], ["a", None]]
    assert cube_explode([]) == [[]]
    with pytest.raises(FunctionError, match="at most"):
        cube_explode(list(range(21)))


def test_a_null_field_of_a_struct_reaches_the_lambda() -> None:
    columns = {"A": ArrayType(StructType((("N", INTEGER),)))}
    assert evaluate("TRANSFORM(A, x => COALESCE(x->N, 5))", {"A": [{"N": None}]}, columns) == [5]


@pytest.mark.parametrize("function", ["ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT"])
def test_nested_elements_have_no_order(function: str) -> None:
    with pytest.raises(FunctionError, match="no order"):
        evaluate(f"{function}(A)", {"A": [[1], [2]]}, {"A": ArrayType(INTS)})
