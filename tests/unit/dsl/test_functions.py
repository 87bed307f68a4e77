from __future__ import annotations

import functools
from dataclasses import dataclass

import polars as pl
import pytest

from hayase.core.errors import TopologyError
from hayase.dsl import functions, key, left, right, timestamp


@dataclass
class Pair:
    a: int
    b: int


def mapped(function):
    return functions.value_mapper(function, "map_values")("k", "v")


def test_a_function_of_one_argument_gets_the_value():
    assert mapped(lambda value: value) == "v"


def test_a_function_of_two_required_arguments_gets_key_and_value():
    assert mapped(lambda key, value: (key, value)) == ("k", "v")


def test_optional_arguments_are_not_counted():
    assert mapped(lambda value, factor=2: (value, factor)) == ("v", 2)


def test_a_function_of_any_number_of_arguments_gets_the_value():
    assert mapped(lambda *arguments: arguments) == ("v",)


def test_a_class_gets_the_value_whatever_it_takes():
    assert mapped(str) == "v"
    with pytest.raises(TopologyError):
        functions.value_mapper(Pair, "map_values")


def test_a_builtin_gets_the_value():
    assert mapped(len) == 1


def test_a_method_and_a_partial_are_counted_without_what_is_bound():
    assert mapped("v".__eq__) is True
    assert mapped(functools.partial(lambda a, key, value: (a, key, value), 0)) == (0, "k", "v")


def test_a_joiner_gets_the_key_if_it_takes_three():
    assert functions.joiner(lambda left, right: (left, right), "join")("k", 1, 2) == (1, 2)
    assert functions.joiner(lambda key, left, right: (key, left, right), "join")("k", 1, 2) == ("k", 1, 2)


@pytest.mark.parametrize(
    "wrong", [lambda: 1, lambda a, b, c: 1, 5, None, lambda value, *, needed: 1], ids=["0", "3", "int", "None", "kw"]
)
def test_a_mapper_that_cannot_be_called_is_refused(wrong):
    with pytest.raises(TopologyError) as caught:
        functions.value_mapper(wrong, "map_values")
    assert caught.value.condition == "INVALID_FUNCTION"
    assert "(value) or (key, value)" in caught.value.message


def test_a_predicate_takes_key_and_value():
    with pytest.raises(TopologyError, match=r"\(key, value\)"):
        functions.predicate(lambda value: True, "filter")


def test_text_is_the_name_of_a_field():
    assert functions.value_mapper("amount", "map_values").meta.eq(pl.col("amount"))


def test_a_dict_is_fields_of_expressions_names_and_literals():
    fields = dict(functions.value_mapper({"a": pl.col("x") + 1, "b": "y", "c": 5}, "map_values"))
    frame = pl.DataFrame({"x": [1], "y": ["t"]})
    assert frame.select(**fields).to_dicts() == [{"a": 2, "b": "t", "c": 5}]


def test_a_list_takes_the_names_of_its_expressions():
    fields = functions.value_mapper(["a", pl.col("b").alias("c"), key(), timestamp()], "map_values")
    assert [name for name, _ in fields] == ["a", "c", "key", "timestamp"]


def test_sides_of_a_join_keep_the_names_of_their_fields():
    fields = functions.joiner([left("id"), right("city"), left().alias("all")], "join")
    assert [name for name, _ in fields] == ["id", "city", "all"]
    assert [expression.meta.root_names() for _, expression in fields] == [
        ["__left.id"],
        ["__right.city"],
        ["__left.value"],
    ]


@pytest.mark.parametrize("fields", [{"__a": 1}, {"": 1}, {1: 2}, [pl.col("__key")], {}, [], ["a", "a"], [5]])
def test_fields_without_a_proper_name_are_refused(fields):
    with pytest.raises(TopologyError):
        functions.value_mapper(fields, "map_values")


def test_the_fields_of_a_key_become_a_struct():
    expression = functions.key_mapper({"a": "x", "schema": "y"}, "group_by")
    frame = pl.DataFrame({"x": [1], "y": [2]})
    assert frame.select(k=expression).to_dicts() == [{"k": {"a": 1, "schema": 2}}]


def test_return_types_are_read_through_wrappers_and_optionals():
    def mapper(value) -> int | None: ...

    assert functions.return_type(functions.value_mapper(mapper, "map_values")) is int
    assert functions.return_type(str) is str
    assert functions.return_type(lambda value: value) is None


def test_types_of_pairs_and_items_are_read():
    assert functions.pair_types(tuple[str, int | None]) == (str, int)
    assert functions.pair_types(tuple[int, ...]) == (None, None)
    assert functions.item_type(list[int]) is int
    assert functions.item_type(int) is None
