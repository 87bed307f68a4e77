"""Code of CASE, CAST, fields, items and constructors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hayase.sql.ast.expressions import (
    ArrayConstructor,
    Cast,
    ComparisonOperator,
    Expression,
    FieldRef,
    MapConstructor,
    SearchedCase,
    SimpleCase,
    StructConstructor,
    Subscript,
    When,
)
from hayase.sql.expressions.arithmetic import array_item
from hayase.sql.expressions.code import Value
from hayase.sql.expressions.emit_operators import compared
from hayase.sql.expressions.emitter import Emitter, Handler
from hayase.sql.types.casts import caster
from hayase.sql.types.sql_types import ArrayType, MapType


def _searched_case(emitter: Emitter, expression: SearchedCase) -> Value:
    def condition(when: When) -> Value:
        return emitter.emit(when.condition)

    return _case(emitter, expression.whens, expression.default, condition)


def _simple_case(emitter: Emitter, expression: SimpleCase) -> Value:
    operand = emitter.emit(expression.operand)

    def condition(when: When) -> Value:
        return compared(emitter, ComparisonOperator.EQUAL, expression.operand, operand, when.condition)

    return _case(emitter, expression.whens, expression.default, condition)


def _case(
    emitter: Emitter, whens: Sequence[When], default: Expression | None, condition: Callable[[When], Value]
) -> Value:
    """The first branch whose condition is true; no other one is computed."""
    result, searching = emitter.code.name(), emitter.code.name()
    emitter.code.line(f"{result} = None")
    emitter.code.line(f"{searching} = True")
    for when in whens:
        with emitter.code.indented(f"if {searching}:"), emitter.code.indented(f"if {condition(when).name}:"):
            emitter.code.line(f"{searching} = False")
            emitter.code.line(f"{result} = {emitter.emit(when.result).name}")
    if default is not None:
        with emitter.code.indented(f"if {searching}:"):
            emitter.code.line(f"{result} = {emitter.emit(default).name}")
    return Value(result)


def _cast_to(emitter: Emitter, expression: Cast) -> Value:
    convert = caster(emitter.type_of(expression.operand), expression.target)
    return emitter.convert(emitter.emit(expression.operand), convert)


def _field(emitter: Emitter, expression: FieldRef) -> Value:
    base = emitter.emit(expression.base)
    name = emitter.code.bind(expression.field_name)
    return emitter.code.assign(f"None if {base.name} is None else {base.name}.get({name})")


def _subscript(emitter: Emitter, expression: Subscript) -> Value:
    base, index = emitter.emit(expression.base), emitter.emit(expression.index)
    if isinstance(emitter.type_of(expression.base), ArrayType):
        return emitter.code.assign(f"{emitter.code.bind(array_item)}({base.name}, {index.name})")
    return emitter.code.assign(f"None if {base.name} is None else {base.name}.get({index.name})")


def _array_of(emitter: Emitter, expression: ArrayConstructor) -> Value:
    type_ = emitter.type_of(expression)
    items = emitter.coerced_items(expression.items, type_.item if isinstance(type_, ArrayType) else None)
    return emitter.code.assign(f"[{', '.join(items)}]", nullable=False)


def _map_of(emitter: Emitter, expression: MapConstructor) -> Value:
    type_ = emitter.type_of(expression)
    assert isinstance(type_, MapType)
    keys = emitter.coerced_items([key for key, _ in expression.entries], type_.key)
    values = emitter.coerced_items([value for _, value in expression.entries], type_.value)
    entries = ", ".join(f"{key}: {value}" for key, value in zip(keys, values, strict=True))
    return emitter.code.assign("{" + entries + "}", nullable=False)


def _struct_of(emitter: Emitter, expression: StructConstructor) -> Value:
    fields = ", ".join(
        f"{emitter.code.bind(name)}: {emitter.isolated(field).name}" for name, field in expression.fields
    )
    return emitter.code.assign("{" + fields + "}", nullable=False)


PARTS: Mapping[type[Expression], Handler] = {
    ArrayConstructor: _array_of,
    Cast: _cast_to,
    FieldRef: _field,
    MapConstructor: _map_of,
    SearchedCase: _searched_case,
    SimpleCase: _simple_case,
    StructConstructor: _struct_of,
    Subscript: _subscript,
}
"""The handlers of conditions, parts and constructors."""
