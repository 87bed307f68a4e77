"""The expression language of the golden cases: JSON objects evaluated over named variables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

Variables = Mapping[str, Any]


class UserError(Exception):
    """What the function `fail` raises."""


def evaluate(expression: Any, variables: Variables) -> Any:
    """The value of an expression."""
    if "var" in expression:
        return variables.get(expression["var"])
    if "const" in expression:
        return expression["const"]
    name = expression["fn"]
    if name in LAZY:
        return LAZY[name](expression, variables)
    arguments = [evaluate(argument, variables) for argument in expression.get("args", [])]
    return EAGER[name](expression, *arguments)


def text(value: Any) -> str:
    """A string as it is, anything else as canonical JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def equal(a: Any, b: Any) -> bool:
    """Deep equality; numbers by value, and a truth value is no number."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    return bool(a == b)


def _field(expression: Any, value: Any) -> Any:
    for name in expression["path"].split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def _remove_first(_: Any, items: Any, item: Any) -> Any:
    if items is None:
        return None
    at = next((index for index, each in enumerate(items) if equal(each, item)), len(items))
    return items[:at] + items[at + 1 :]


def _fold(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def folded(_: Any, *arguments: Any) -> Any:
        result = arguments[0]
        for argument in arguments[1:]:
            if result is None or argument is None:
                return None
            result = operation(_number(result), _number(argument))
        return result if result is None else _number(result)

    return folded


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"not a number: {value!r}")
    return value


def _extreme(operation: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def found(_: Any, *arguments: Any) -> Any:
        present = [argument for argument in arguments if argument is not None]
        return reduce(lambda best, each: each if operation(each, best) else best, present) if present else None

    return found


def _compare(operation: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    def compared(_: Any, a: Any, b: Any) -> bool:
        if a is None or b is None:
            return False
        if isinstance(a, str) != isinstance(b, str):
            raise UserError(f"cannot compare {a!r} and {b!r}")
        return operation(a, b)

    return compared


def _fail(expression: Any, *_: Any) -> Any:
    raise UserError(expression["message"])


EAGER: dict[str, Callable[..., Any]] = {
    "field": _field,
    "set": lambda e, a, b: {**(a or {}), e["name"]: b},
    "list": lambda _, *items: list(items),
    "append": lambda _, a, b: [*(a or []), b],
    "concat_lists": lambda _, a, b: [*(a or []), *(b or [])],
    "remove_first": _remove_first,
    "length": lambda _, a: None if a is None else len(a),
    "str": lambda _, a: text(a),
    "concat": lambda _, *items: "".join(map(text, items)),
    "upper": lambda _, a: None if a is None else a.upper(),
    "lower": lambda _, a: None if a is None else a.lower(),
    "split": lambda e, a: None if a is None else a.split(e["sep"]),
    "add": _fold(lambda a, b: a + b),
    "sub": _fold(lambda a, b: a - b),
    "mul": _fold(lambda a, b: a * b),
    "mod": lambda _, a, b: None if a is None or b is None else a % b,
    "min": _extreme(lambda each, best: each < best),
    "max": _extreme(lambda each, best: each > best),
    "eq": lambda _, a, b: equal(a, b),
    "ne": lambda _, a, b: not equal(a, b),
    "gt": _compare(lambda a, b: a > b),
    "ge": _compare(lambda a, b: a >= b),
    "lt": _compare(lambda a, b: a < b),
    "le": _compare(lambda a, b: a <= b),
    "is_null": lambda _, a: a is None,
    "not": lambda _, a: a is not True,
    "fail": _fail,
}


def _object(expression: Any, variables: Variables) -> Any:
    return {name: evaluate(each, variables) for name, each in expression["fields"].items()}


def _if(expression: Any, variables: Variables) -> Any:
    condition, then, otherwise = expression["args"]
    return evaluate(then if evaluate(condition, variables) is True else otherwise, variables)


def _coalesce(expression: Any, variables: Variables) -> Any:
    values = (evaluate(each, variables) for each in expression["args"])
    return next((value for value in values if value is not None), None)


LAZY: dict[str, Callable[[Any, Variables], Any]] = {
    "object": _object,
    "if": _if,
    "coalesce": _coalesce,
    "store_get": lambda e, variables: variables["get_store"](e["store"], evaluate(e["args"][0], variables)),
    "versioned_get": lambda e, variables: variables["get_version"](
        e["store"], *(evaluate(each, variables) for each in e["args"])
    ),
    "and": lambda e, variables: all(evaluate(each, variables) is True for each in e["args"]),
    "or": lambda e, variables: any(evaluate(each, variables) is True for each in e["args"]),
}
