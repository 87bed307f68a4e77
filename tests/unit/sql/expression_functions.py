"""Functions that the tests of expressions call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hayase.sql.functions.declarations import declared_in
from hayase.sql.functions.registry import FunctionRegistry, scalar
from hayase.sql.types.sql_types import SqlType


@scalar("FILTER", "(ARRAY<T>, (T) => BOOLEAN) -> ARRAY<T>")
def filter_(items: list[Any], condition: Callable[[Any], Any]) -> list[Any]:
    return [item for item in items if condition(item)]


@scalar("TRANSFORM", "(ARRAY<T>, (T) => U) -> ARRAY<U>")
def transform(items: list[Any], step: Callable[[Any], Any]) -> list[Any]:
    return [step(item) for item in items]


@scalar("REDUCE", "(ARRAY<T>, S, (S, T) => S) -> S")
def reduce(items: list[Any], state: Any, step: Callable[[Any, Any], Any]) -> Any:
    for item in items:
        state = step(state, item)
    return state


@scalar("COALESCE", "(T, T...) -> T", lazy=True)
def coalesce(*values: Callable[[], Any]) -> Any:
    return next((value for compute in values if (value := compute()) is not None), None)


@scalar("ABS", "(INT) -> INT")
@scalar("ABS", "(DOUBLE) -> DOUBLE")
def absolute(value: Any) -> Any:
    return abs(value)


@scalar("FAIL", "(ANY) -> STRING")
def fail(value: Any) -> str:
    raise ValueError(f"fails with {value}")


@scalar("SHOWN", "(ANY) -> STRING", null_aware=True, types=True, settings=True)
def shown(settings: Mapping[str, object], types: tuple[SqlType | None, ...], value: Any) -> str:
    return f"{settings['prefix']} {types[0]} {value}"


@scalar("SHIFT", "(UNIT, INT) -> STRING")
def shift(unit: str, amount: int) -> str:
    return f"{amount} {unit}"


@scalar("DAYS_OF", "(DATE) -> INT")
def days_of(date: int) -> int:
    return date


@scalar("CHANCE", "() -> DOUBLE", pure=False)
def chance() -> float:
    return 0.5


@scalar("REPEAT", "(STRING, INT) -> STRING", literals=(1,))
def repeat(text: str, count: int) -> str:
    return text * count


def registry() -> FunctionRegistry:
    """A registry with these functions."""
    return FunctionRegistry(declared_in(__name__))
