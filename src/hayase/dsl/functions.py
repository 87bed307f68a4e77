"""Normalizes functions of the user into the shape that operators call.

The rules, everywhere the same:

* A callable is called with as many arguments as it *requires*. `map_values` and `flat_map_values` take `(value)` or
  `(key, value)`, joiners `(left, right)` or `(key, left, right)`; where that is unknown (classes such as `str`,
  builtins without a signature, `*args`) it is the shorter form. Everything else takes what it takes in Kafka Streams:
  predicates, key mappers and actions `(key, value)`.
* A Polars expression is a bare value. A string is the field of that name.
* A dict of names to expressions, field names or literals, and a list of named expressions or field names, is a record
  of fields; as a key it is a composite key.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from hayase.core.errors import TopologyError
from hayase.topology.nodes import Partitioner, TopicExtractor
from hayase.topology.operators import Fields, VectorizedFunction
from hayase.topology.operators.functions import KeyValueMapper, Predicate, ValueJoiner

JoinedFields = pl.Expr | Mapping[str, object] | Sequence[pl.Expr | str]
"""An expression over both sides of a join, or fields."""

Fielded = JoinedFields | str
"""An expression, a field's name, or fields."""

ValueFunction = Callable[..., object] | Fielded
"""`(value)` or `(key, value)`, an expression, a field's name, or fields."""

KeyFunction = KeyValueMapper | Fielded
"""`(key, value)`, an expression, a field's name, or the fields of a composite key."""

Joiner = Callable[..., object] | JoinedFields
"""`(left, right)` or `(key, left, right)`, an expression, or fields."""


@dataclass(frozen=True, slots=True)
class ValueOnly:
    """A function of the value, called with key and value."""

    function: Callable[..., object]

    def __call__(self, key: object, value: object) -> object:
        """Call it with the value."""
        return self.function(value)


@dataclass(frozen=True, slots=True)
class LeftRight:
    """A joiner of two values, called with the key as well."""

    function: Callable[..., object]

    def __call__(self, key: object, left: object, right: object) -> object:
        """Call it with the two values."""
        return self.function(left, right)


def predicate(function: Predicate, what: str) -> Predicate:
    """A predicate, checked."""
    if isinstance(function, pl.Expr):
        return function
    return callable_of(function, 2, what, "(key, value)")


def value_mapper(function: ValueFunction, what: str) -> KeyValueMapper | pl.Expr | Fields:
    """A mapper of values as `(key, value)`, an expression, or fields."""
    declared = declarative(function, what)
    return value_function(function, what) if declared is None else declared


def value_function(function: object, what: str) -> KeyValueMapper:
    """A function of values as `(key, value)`."""
    return _either(function, 2, ValueOnly, what, "(value) or (key, value)")


def list_mapper(function: Callable[..., object] | pl.Expr | str, what: str) -> KeyValueMapper | pl.Expr:
    """A mapper of values to lists: `(key, value)` or an expression."""
    mapper = value_mapper(function, what)
    if isinstance(mapper, tuple):
        raise TopologyError(
            "INVALID_FUNCTION", f"{what} takes a function or one expression that gives a list, not fields"
        )
    return mapper


def pairs_mapper(function: KeyValueMapper | pl.Expr, what: str) -> KeyValueMapper | pl.Expr:
    """A mapper to a list of pairs of key and value: `(key, value)` or an expression."""
    if isinstance(function, pl.Expr):
        return function
    return callable_of(function, 2, what, "(key, value) that returns pairs (key, value)")


def key_mapper(function: KeyFunction, what: str) -> KeyValueMapper | pl.Expr:
    """A mapper to a key: `(key, value)` or an expression; fields become a struct."""
    declared = declarative(function, what)
    if declared is None:
        return callable_of(function, 2, what, "(key, value)")
    return struct_of(declared) if isinstance(declared, tuple) else declared


def struct_of(fields: Fields) -> pl.Expr:
    """The fields as one struct: a composite key."""
    return pl.struct([expression.alias(name) for name, expression in fields])


def joiner(function: Joiner, what: str) -> ValueJoiner | pl.Expr | Fields:
    """A joiner as `(key, left, right)`, an expression, or fields."""
    declared = declarative(function, what)
    if declared is not None:
        return declared
    return _either(function, 3, LeftRight, what, "(left, right) or (key, left, right)")


def declarative(function: object, what: str) -> pl.Expr | Fields | None:
    """The expression, or fields, of a declarative function; `None` for a callable."""
    match function:
        case pl.Expr():
            return function
        case str():
            return pl.col(function)
        case Mapping():
            return _fields([(name, _as_expression(value)) for name, value in function.items()], what)
        case list() | tuple():
            return _fields([_named(item, what) for item in function], what)
    return None


def callable_of(function: object, arguments: int, what: str, form: str) -> Callable[..., Any]:
    """The callable, if it can be called with that many arguments.

    Raises:
        TopologyError: `INVALID_FUNCTION`.
    """
    if not callable(function):
        raise _invalid(function, what, form)
    signature = _signature(function)
    if signature is not None:
        try:
            signature.bind(*[None] * arguments)
        except TypeError as error:
            raise _invalid(function, what, form) from error
    return function


def topic_extractor(function: TopicExtractor) -> TopicExtractor:
    """A function that chooses topics, checked."""
    if isinstance(function, pl.Expr):
        return function
    if not callable(function):
        raise TopologyError(
            "INVALID_TOPIC",
            "to takes the name of a topic, a function of (key, value, record_context) or an expression, not "
            f"{function!r}",
        )
    return callable_of(function, 3, "to", "(key, value, record_context)")


def partitioner(function: Partitioner | None) -> Partitioner | None:
    """A function that chooses partitions, checked."""
    if function is None or isinstance(function, pl.Expr):
        return function
    return callable_of(function, 4, "the partitioner", "(topic, key, value, partitions)")


def _either(
    function: object, long: int, short_form: type[ValueOnly | LeftRight], what: str, form: str
) -> Callable[..., Any]:
    """The function itself if it requires `long` arguments, else wrapped to be called with one less."""
    if isinstance(function, VectorizedFunction):
        return function
    signature = None if inspect.isclass(function) or not callable(function) else _signature(function)
    if signature is not None and _required(signature) == long:
        return callable_of(function, long, what, form)
    return short_form(callable_of(function, long - 1, what, form))


def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that does not tell
        return None


def _required(signature: inspect.Signature) -> int:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        1
        for each in signature.parameters.values()
        if each.kind in positional and each.default is inspect.Parameter.empty
    )


def _invalid(function: object, what: str, form: str) -> TopologyError:
    return TopologyError(
        "INVALID_FUNCTION", f"{what} got {function!r}; it takes a function of {form} or a Polars expression"
    )


def _fields(pairs: list[tuple[str, pl.Expr]], what: str) -> Fields:
    names = [name for name, _ in pairs]
    if not names:
        raise TopologyError("INVALID_FIELDS", f"{what} got no fields; name at least one")
    for name in names:
        check_field_name(name, what)
    if twice := {name for name in names if names.count(name) > 1}:
        raise TopologyError("INVALID_FIELDS", f"{what} names the field {min(twice)!r} more than once")
    return tuple(pairs)


def check_field_name(name: object, what: str) -> None:
    """Refuse a name that is no string, empty, or begins with `__`, which is ours."""
    if not isinstance(name, str) or not name or name.startswith("__"):
        raise TopologyError(
            "INVALID_FIELD_NAME",
            f"{what} got the field name {name!r}; a name is a string that is not empty and does not begin with '__'",
        )


def _as_expression(value: object) -> pl.Expr:
    if isinstance(value, pl.Expr):
        return value
    return pl.col(value) if isinstance(value, str) else pl.lit(value)


def _named(item: object, what: str) -> tuple[str, pl.Expr]:
    if isinstance(item, str):
        return item, pl.col(item)
    if isinstance(item, pl.Expr):
        try:
            return item.meta.output_name(), item
        except pl.exceptions.ComputeError as error:
            raise TopologyError(
                "INVALID_FIELDS", f"{what} got {item}, which has no single name; use .alias('…') or a dict"
            ) from error
    raise TopologyError(
        "INVALID_FIELDS", f"{what} got {item!r} in a list; a list holds named expressions and names of fields"
    )


def return_type(function: object) -> object:
    """The type a callable says it returns: its annotation, or the class itself; `None` if it says nothing."""
    while isinstance(function, ValueOnly | LeftRight):
        function = function.function
    if inspect.isclass(function):
        return function
    try:
        hints = typing.get_type_hints(function)
    except (
        TypeError,
        NameError,
        AttributeError,
    ):  # not a function, or annotations that cannot be resolved here
        return None
    return _without_none(hints.get("return"))


def item_type(annotation: object) -> object:
    """The `T` of `list[T]`, `Iterable[T]` and the like, else `None`."""
    if typing.get_origin(annotation) in (list, set, frozenset, Iterable, Iterator, Sequence):
        (item,) = typing.get_args(annotation)
        return item
    return None


def pair_types(annotation: object) -> tuple[object, object]:
    """The types of `tuple[K, V]`, else `(None, None)`."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple and len(arguments) == 2 and arguments[1] is not Ellipsis:
        return _without_none(arguments[0]), _without_none(arguments[1])
    return None, None


def _without_none(annotation: object) -> object:
    """`T` of `T | None`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [each for each in typing.get_args(annotation) if each is not type(None)]
        return rest[0] if len(rest) == 1 else None
    return annotation
