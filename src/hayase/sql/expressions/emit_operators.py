"""Code of operators: arithmetic, comparisons, logic, IN and LIKE."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Expression,
    InList,
    IsNull,
    Like,
    Logical,
    LogicalOperator,
    Negative,
    Not,
    StringLiteral,
)
from hayase.sql.expressions import arithmetic as rules
from hayase.sql.expressions import patterns
from hayase.sql.expressions.code import Value
from hayase.sql.expressions.coercion import coerced
from hayase.sql.expressions.comparisons import DISTINCTIONS, conversions, with_times_of_texts
from hayase.sql.expressions.constants import in_order
from hayase.sql.expressions.emitter import Emitter, Handler, null_checks, present_checks
from hayase.sql.types import decimals
from hayase.sql.types.sql_types import BIGINT, DOUBLE, INTEGER, STRING, DecimalType, SqlType

_PYTHON_OPERATORS = {
    ComparisonOperator.EQUAL: "==",
    ComparisonOperator.NOT_EQUAL: "!=",
    ComparisonOperator.LESS: "<",
    ComparisonOperator.LESS_OR_EQUAL: "<=",
    ComparisonOperator.GREATER: ">",
    ComparisonOperator.GREATER_OR_EQUAL: ">=",
    ComparisonOperator.IS_DISTINCT_FROM: "!=",
    ComparisonOperator.IS_NOT_DISTINCT_FROM: "==",
}
_BITS: dict[SqlType, int] = {INTEGER: 32, BIGINT: 64}
_INTEGER_FUNCTIONS = {
    ArithmeticOperator.DIVIDE: rules.int_divide,
    ArithmeticOperator.MODULUS: rules.int_remainder,
}
_DOUBLE_FUNCTIONS = {
    ArithmeticOperator.DIVIDE: rules.double_divide,
    ArithmeticOperator.MODULUS: rules.double_remainder,
}


def _arithmetic(emitter: Emitter, expression: Arithmetic) -> Value:
    left, right = emitter.emit(expression.left), emitter.emit(expression.right)
    emitter.code.fallible()
    nulls = null_checks(left, right)
    if nulls:
        with emitter.code.indented(f"if {nulls}:"):
            emitter.code.line(f"{emitter.code.bind(rules.null_operand)}()")
    types = emitter.type_of(expression.left), emitter.type_of(expression.right)
    type_ = emitter.type_of(expression)
    if isinstance(type_, DecimalType):
        return _decimal(emitter, expression.operator, type_, (left, right), types)
    if type_ == DOUBLE:
        left, right = _as_double(emitter, left, types[0]), _as_double(emitter, right, types[1])
        return _by_operator(emitter, expression.operator, left, right, _DOUBLE_FUNCTIONS)
    value = _by_operator(emitter, expression.operator, left, right, _INTEGER_FUNCTIONS)
    return value if type_ == STRING else _wrapped(emitter, value, type_)


def _by_operator(
    emitter: Emitter,
    operator: ArithmeticOperator,
    left: Value,
    right: Value,
    functions: Mapping[ArithmeticOperator, Any],
) -> Value:
    function = functions.get(operator)
    if function is None:
        return emitter.code.assign(f"{left.name} {operator.value} {right.name}", nullable=False)
    return emitter.code.assign(f"{emitter.code.bind(function)}({left.name}, {right.name})", nullable=False)


def _as_double(emitter: Emitter, value: Value, type_: SqlType | None) -> Value:
    return value if type_ == DOUBLE else emitter.code.assign(f"float({value.name})", nullable=False)


def _decimal(
    emitter: Emitter,
    operator: ArithmeticOperator,
    type_: DecimalType,
    values: tuple[Value, Value],
    types: tuple[SqlType | None, SqlType | None],
) -> Value:
    left, right = (
        value.name if isinstance(operand, DecimalType) else f"{emitter.code.bind(Decimal)}({value.name})"
        for value, operand in zip(values, types, strict=True)
    )
    exact = rules.EXACT_FUNCTIONS.get(operator)
    if exact is not None:
        return emitter.code.assign(f"{emitter.code.bind(exact)}({left}, {right})", nullable=False)
    function = emitter.code.bind(rules.ROUNDING_FUNCTIONS[operator])
    return emitter.code.assign(f"{function}({left}, {right}, {type_.precision}, {type_.scale})", nullable=False)


def _wrapped(emitter: Emitter, value: Value, type_: SqlType | None) -> Value:
    """A whole number that has left the range of its type goes on at the other end."""
    half = 1 << _BITS[type_ or BIGINT] - 1
    with emitter.code.indented(f"if not -{half} <= {value.name} < {half}:"):
        emitter.code.line(f"{value.name} = ({value.name} + {half}) % {2 * half} - {half}")
    return value


def _negative(emitter: Emitter, expression: Negative) -> Value:
    value = emitter.emit(expression.operand)
    emitter.code.fallible()
    if value.nullable:
        with emitter.code.indented(f"if {value.name} is None:"):
            emitter.code.line(f"{emitter.code.bind(rules.null_operand)}()")
    type_ = emitter.type_of(expression)
    if isinstance(type_, DecimalType):
        return emitter.code.assign(f"{emitter.code.bind(decimals.negate)}({value.name})", nullable=False)
    result = emitter.code.assign(f"-{value.name}", nullable=False)
    return result if type_ == DOUBLE else _wrapped(emitter, result, type_)


def _comparison(emitter: Emitter, expression: Comparison) -> Value:
    left, right = _with_times(emitter, expression.left, expression.right)
    return compared(emitter, expression.operator, left, emitter.emit(left), right)


def _with_times(emitter: Emitter, left: Expression, right: Expression) -> tuple[Expression, Expression]:
    return with_times_of_texts(left, emitter.type_of(left), right, emitter.type_of(right))


def compared(
    emitter: Emitter, operator: ComparisonOperator, left: Expression, left_value: Value, right: Expression
) -> Value:
    """Compares; null beside anything is false, except in the two with DISTINCT."""
    converts = conversions(operator, left, emitter.type_of(left), right, emitter.type_of(right))
    left_value = emitter.constant(left, converts[0]) or emitter.convert(left_value, converts[0])
    right_value = emitter.constant(right, converts[1]) or emitter.convert(emitter.emit(right), converts[1])
    comparison = f"{left_value.name} {_PYTHON_OPERATORS[operator]} {right_value.name}"
    present = "" if operator in DISTINCTIONS else present_checks(left_value, right_value)
    return emitter.code.assign(f"{present}{comparison}", nullable=False)


def _between(emitter: Emitter, expression: Between) -> Value:
    operand, low = _with_times(emitter, expression.operand, expression.low)
    _, high = _with_times(emitter, expression.operand, expression.high)
    value = emitter.emit(operand)
    above = compared(emitter, ComparisonOperator.GREATER_OR_EQUAL, operand, value, low)
    result = emitter.code.name()
    emitter.code.line(f"{result} = False")
    with emitter.code.indented(f"if {above.name}:"):
        below = compared(emitter, ComparisonOperator.LESS_OR_EQUAL, operand, value, high)
        emitter.code.line(f"{result} = {below.name}")
    return Value(result, nullable=False)


def _logical(emitter: Emitter, expression: Logical) -> Value:
    """AND and OR: an operand is computed only if those before it leave the result open."""
    deciding = "False" if expression.operator is LogicalOperator.AND else "True"
    first, *others = _operands(expression, expression.operator)
    start = emitter.emit(first)
    result, nullable = emitter.code.name(), start.nullable
    emitter.code.line(f"{result} = {start.name}")
    for operand in others:
        with emitter.code.indented(f"if {result} is not {deciding}:"):
            value = emitter.emit(operand)
            unknown = f" if {value.name} is {deciding} or {result} is not None else None" if nullable else ""
            emitter.code.line(f"{result} = {value.name}{unknown}")
            nullable = nullable or value.nullable
    return Value(result, nullable)


def _negation(emitter: Emitter, expression: Not) -> Value:
    value = emitter.emit(expression.operand)
    if not value.nullable:
        return emitter.code.assign(f"not {value.name}", nullable=False)
    return emitter.code.assign(f"None if {value.name} is None else not {value.name}")


def _is_null(emitter: Emitter, expression: IsNull) -> Value:
    value = emitter.emit(expression.operand)
    return emitter.code.assign(f"{value.name} is {'not ' if expression.negated else ''}None", nullable=False)


def _in_list(emitter: Emitter, expression: InList) -> Value:
    listed = (expression.operand, *expression.items)
    variables = emitter.variables
    type_ = emitter.typer.common_type(listed, variables)
    operand, *items = (coerced(one, lambda part: emitter.typer.type_of(part, variables), type_) for one in listed)
    value = emitter.emit(operand)
    result = emitter.code.name()
    emitter.code.line(f"{result} = False")
    with emitter.code.indented(f"if {value.name} is not None:"):
        emitter.code.line("pass")
        for constants, item in in_order(items, emitter.typer.type_of):
            with emitter.code.indented(f"if not {result}:"):
                if constants:
                    emitter.code.line(f"{result} = {value.name} in {emitter.code.bind(frozenset(constants))}")
                elif item is not None:
                    emitter.code.line(f"{result} = {value.name} == {emitter.emit(item).name}")
    return Value(result, nullable=False)


def _like(emitter: Emitter, expression: Like) -> Value:
    value = emitter.emit(expression.operand)
    if isinstance(expression.pattern, StringLiteral):
        pattern = patterns.like_pattern(expression.pattern.value, expression.escape)
        emitter.code.fallible()
        match = f"{emitter.code.bind(pattern)}.matches({value.name})"
        nulls = null_checks(value)
    else:
        wanted = emitter.emit(expression.pattern)
        emitter.code.fallible()
        escape = emitter.code.bind(expression.escape)
        match = f"{emitter.code.bind(patterns.like)}({value.name}, {wanted.name}, {escape})"
        nulls = null_checks(value, wanted)
    return emitter.code.assign(f"None if {nulls} else {match}" if nulls else match, nullable=bool(nulls))


def _operands(expression: Expression, operator: LogicalOperator) -> list[Expression]:
    """The operands of a chain of one operator, in order; chains nest to the left."""
    operands: list[Expression] = []
    while isinstance(expression, Logical) and expression.operator is operator:
        operands.append(expression.right)
        expression = expression.left
    return [expression, *reversed(operands)]


OPERATORS: Mapping[type[Expression], Handler] = {
    Arithmetic: _arithmetic,
    Between: _between,
    Comparison: _comparison,
    InList: _in_list,
    IsNull: _is_null,
    Like: _like,
    Logical: _logical,
    Negative: _negative,
    Not: _negation,
}
"""The handlers of operators."""
