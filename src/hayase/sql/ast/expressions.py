"""Expressions.

Names are as they count: bare identifiers in upper case, quoted ones as written. `location` never takes part in
comparisons, so that equal expressions at two places are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from hayase.sql.ast.location import Location
from hayase.sql.types.sql_types import SqlType


@dataclass(frozen=True, slots=True)
class Expression:
    """Base of all expressions."""

    location: Location | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class NullLiteral(Expression):
    """NULL."""


@dataclass(frozen=True, slots=True)
class BooleanLiteral(Expression):
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class IntegerLiteral(Expression):
    """A whole number that fits INT."""

    value: int


@dataclass(frozen=True, slots=True)
class BigintLiteral(Expression):
    """A whole number that needs BIGINT."""

    value: int


@dataclass(frozen=True, slots=True)
class DecimalLiteral(Expression):
    """A number with a point, exact: `1.50` has two digits behind the point."""

    value: Decimal


@dataclass(frozen=True, slots=True)
class DoubleLiteral(Expression):
    """A number in scientific notation."""

    value: float


@dataclass(frozen=True, slots=True)
class StringLiteral(Expression):
    """A text in single quotes, unescaped."""

    value: str


@dataclass(frozen=True, slots=True)
class TimeUnit(Expression):
    """A bare time unit as an argument of a function: `DATEADD(DAYS, 1, d)`. `name` is in the plural: `DAYS`."""

    name: str


@dataclass(frozen=True, slots=True)
class ColumnRef(Expression):
    """A column, with the name or alias of its source where one was written: `a`, `t.a`."""

    name: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class LambdaVariable(Expression):
    """A parameter of the lambda around it."""

    name: str


@dataclass(frozen=True, slots=True)
class FieldRef(Expression):
    """A field of a struct: `s->f`."""

    base: Expression
    field_name: str


@dataclass(frozen=True, slots=True)
class Subscript(Expression):
    """An item of an array or map: `a[1]`, `m['k']`."""

    base: Expression
    index: Expression


class ArithmeticOperator(Enum):
    """Operators of numbers; `ADD` joins texts as well."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULUS = "%"


class ComparisonOperator(Enum):
    """Comparisons, with SQL's nulls except for the two DISTINCT ones."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IS_DISTINCT_FROM = "IS DISTINCT FROM"
    IS_NOT_DISTINCT_FROM = "IS NOT DISTINCT FROM"


class LogicalOperator(Enum):
    """AND and OR, with three values."""

    AND = "AND"
    OR = "OR"


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`left operator right` of numbers or texts; `||` is `+`."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """A minus sign before an expression. Of a literal, the parser makes a negative literal instead."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """`left operator right`."""

    operator: ComparisonOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logical(Expression):
    """`left AND right`, `left OR right`."""

    operator: LogicalOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """NOT operand."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """`operand IS NULL`, negated: `IS NOT NULL`."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Expression):
    """`operand [NOT] BETWEEN low AND high`; NOT is a `Not` around it."""

    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class InList(Expression):
    """`operand IN (items)`; NOT is a `Not` around it."""

    operand: Expression
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """`operand LIKE pattern [ESCAPE escape]`; NOT is a `Not` around it."""

    operand: Expression
    pattern: Expression
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class When:
    """One WHEN … THEN … of a CASE."""

    condition: Expression
    result: Expression


@dataclass(frozen=True, slots=True)
class SearchedCase(Expression):
    """CASE WHEN condition THEN … [ELSE …] END."""

    whens: tuple[When, ...]
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class SimpleCase(Expression):
    """CASE operand WHEN value THEN … [ELSE …] END."""

    operand: Expression
    whens: tuple[When, ...]
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """CAST(operand AS target)."""

    operand: Expression
    target: SqlType


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """A call of a scalar, aggregate or table function; `COUNT(*)` has no arguments. The name is in upper case."""

    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Lambda(Expression):
    """`x => body`, `(x, y) => body`; an argument of a function."""

    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class ArrayConstructor(Expression):
    """ARRAY[…]."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MapConstructor(Expression):
    """MAP(key := value, …)."""

    entries: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class StructConstructor(Expression):
    """STRUCT(name := value, …)."""

    fields: tuple[tuple[str, Expression], ...]


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression, in order of the text."""
    match expression:
        case FieldRef(base):
            return (base,)
        case Subscript(base, index):
            return (base, index)
        case Arithmetic(_, left, right) | Comparison(_, left, right) | Logical(_, left, right):
            return (left, right)
        case Negative(operand) | Not(operand) | IsNull(operand) | Cast(operand):
            return (operand,)
        case Between(operand, low, high):
            return (operand, low, high)
        case InList(operand, items):
            return (operand, *items)
        case Like(operand, pattern):
            return (operand, pattern)
        case SearchedCase(whens, default):
            return (*(part for when in whens for part in (when.condition, when.result)), *_present(default))
        case SimpleCase(operand, whens, default):
            parts = (part for when in whens for part in (when.condition, when.result))
            return (operand, *parts, *_present(default))
        case FunctionCall(_, arguments):
            return arguments
        case Lambda(_, body):
            return (body,)
        case ArrayConstructor(items):
            return items
        case MapConstructor(entries):
            return tuple(part for entry in entries for part in entry)
        case StructConstructor(fields):
            return tuple(value for _, value in fields)
    return ()


def _present(expression: Expression | None) -> tuple[Expression, ...]:
    return () if expression is None else (expression,)
