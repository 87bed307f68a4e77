"""Code of calls of scalar functions, and of their lambdas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hayase.sql.ast.expressions import Expression, FunctionCall, Lambda
from hayase.sql.expressions.code import Value
from hayase.sql.expressions.emitter import Emitter, Handler, null_checks
from hayase.sql.functions.matching import LambdaTypes
from hayase.sql.functions.registry import BoundScalar
from hayase.sql.functions.signatures import UnitArgument
from hayase.sql.types.casts import Caster, caster, same
from hayase.sql.types.sql_types import SqlType


def _call(emitter: Emitter, call: FunctionCall) -> Value:
    bound = emitter.typer.call(call, emitter.variables)
    emitter.pure = emitter.pure and bound.pure
    if bound.lazy:
        arguments = [_thunk(emitter, argument, bound, position) for position, argument in enumerate(call.arguments)]
    else:
        arguments = [_argument(emitter, argument, bound, position) for position, argument in enumerate(call.arguments)]
    leading = [emitter.code.bind(emitter.settings)] if bound.settings else []
    if bound.types is not None:
        leading.append(emitter.code.bind(bound.types))
    names = [*leading, *(argument.name for argument in arguments)]
    invocation = f"{emitter.code.bind(bound.function)}({', '.join(names)})"
    emitter.code.fallible()
    nulls = "" if bound.null_aware or bound.lazy else null_checks(*arguments)
    return emitter.code.assign(f"None if {nulls} else {invocation}" if nulls else invocation)


def _argument(emitter: Emitter, argument: Expression, bound: BoundScalar, position: int) -> Value:
    target = bound.argument_types[position]
    if isinstance(argument, Lambda):
        assert isinstance(target, LambdaTypes)
        return _lambda(emitter, argument, target)
    if isinstance(target, UnitArgument):
        return emitter.emit(argument)
    convert = _conversion(emitter, argument, target)
    return emitter.constant(argument, convert) or emitter.isolated(argument, convert)


def _conversion(emitter: Emitter, argument: Expression, target: Any) -> Caster:
    source = emitter.type_of(argument)
    return same if source is None or not isinstance(target, SqlType) else caster(source, target)


def _thunk(emitter: Emitter, argument: Expression, bound: BoundScalar, position: int) -> Value:
    """An argument as a function without arguments."""
    name = emitter.code.name("t")
    with emitter.code.indented(f"def {name}():"):
        convert = _conversion(emitter, argument, bound.argument_types[position])
        emitter.code.line(f"return {emitter.isolated(argument, convert).name}")
    return Value(name, nullable=False)


def _lambda(emitter: Emitter, expression: Lambda, types: LambdaTypes) -> Value:
    """A lambda as a Python function, which sees the columns and the lambdas around it."""
    outer = emitter.variables, emitter.parameters
    names = [emitter.code.name("x") for _ in expression.parameters]
    emitter.variables = (*emitter.variables, *zip(expression.parameters, types.parameters, strict=True))
    emitter.parameters = {**emitter.parameters, **dict(zip(expression.parameters, names, strict=True))}
    name = emitter.code.name("l")
    with emitter.code.indented(f"def {name}({', '.join(names)}):"):
        body = emitter.emit(expression.body)
        if types.body is not None and types.result is not None:
            body = emitter.convert(body, caster(types.body, types.result))
        emitter.code.line(f"return {body.name}")
    emitter.variables, emitter.parameters = outer
    return Value(name, nullable=False)


CALLS: Mapping[type[Expression], Handler] = {
    FunctionCall: _call,
}
"""The handlers of calls."""
