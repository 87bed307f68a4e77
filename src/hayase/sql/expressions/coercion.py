"""Lists whose items must have one type: the items of ARRAY and MAP, the operand and list of IN.

Numbers have the wider type. Literals of text become what the other items are, numbers and booleans become texts among
texts; inside of constructors the same holds for each place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from hayase.sql.ast.expressions import (
    ArrayConstructor,
    BigintLiteral,
    BooleanLiteral,
    Cast,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    IntegerLiteral,
    MapConstructor,
    NullLiteral,
    StringLiteral,
    StructConstructor,
)
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError
from hayase.sql.types.casts import parse_boolean_exactly
from hayase.sql.types.coercion import common_number, is_number, is_time
from hayase.sql.types.java_numbers import decimal_number, decimal_text, double_text
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    BooleanType,
    DecimalType,
    MapType,
    SqlType,
    StringType,
    StructType,
)

T = TypeVar("T")
TypeOf = Callable[[Expression], SqlType | None]
_INT_LIMIT = 2**31
_BIGINT_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class _Literals(SqlType):
    """The type of literals that may still become another: `type`, with the texts of the literals."""

    type: SqlType
    texts: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.type)


_NULL = _Literals(STRING, ())
"""NULL inside of a constructor: it becomes anything."""


class _NothingInCommonError(Exception):
    """Two types have nothing in common."""


def common_type(expressions: Sequence[Expression], type_of: TypeOf) -> SqlType | None:
    """The type that all expressions become; `None` if all are NULL.

    Raises:
        StatementError: there is none.
    """
    common: SqlType | None = None
    for expression in expressions:
        shape = _shape(expression, type_of)
        try:
            common = _combined(common, shape)
        except _NothingInCommonError:
            raise StatementError(
                "NO_COMMON_TYPE",
                f"operator does not exist: {_settled(common)} = {_settled(shape)} ({expression_text(expression)})\n"
                "Hint: You might need to add explicit type casts.",
                location=expression.location,
            ) from None
    return _settled(common)


def coerced(expression: Expression, type_of: TypeOf, target: SqlType | None) -> Expression:
    """`expression` as one of the common type `target`."""
    if target is None or isinstance(expression, NullLiteral):
        return expression
    match expression, target:
        case StringLiteral(text), BooleanType():
            return BooleanLiteral(parse_boolean_exactly(text))
        case ArrayConstructor(items), ArrayType(item):
            return ArrayConstructor(tuple(coerced(one, type_of, item) for one in items))
        case MapConstructor(entries), MapType(key, value):
            return MapConstructor(
                tuple((coerced(name, type_of, key), coerced(one, type_of, value)) for name, one in entries)
            )
        case StructConstructor(fields), StructType(types):
            present = dict(fields)
            return StructConstructor(
                tuple(
                    (name, coerced(present[name], type_of, type_) if name in present else Cast(NullLiteral(), type_))
                    for name, type_ in types
                )
            )
        case StringLiteral(text), _ if is_number(target):
            return Cast(DecimalLiteral(decimal_number(text.strip())), target)
    return expression if type_of(expression) == target else Cast(expression, target)


def _shape(expression: Expression, type_of: TypeOf) -> SqlType | None:
    """The type of an expression, with what may still change marked."""
    match expression:
        case NullLiteral():
            return None
        case StringLiteral(value):
            return _Literals(STRING, (value,))
        case BooleanLiteral() | IntegerLiteral() | BigintLiteral() | DecimalLiteral() | DoubleLiteral():
            return _Literals(type_of(expression) or STRING, (literal_text(expression),))
        case ArrayConstructor(items):
            type_of(expression)
            return ArrayType(_item_shape(items, type_of))
        case MapConstructor(entries):
            type_of(expression)
            keys, values = zip(*entries, strict=True)
            return MapType(_item_shape(keys, type_of), _item_shape(values, type_of))
        case StructConstructor(fields):
            return StructType(tuple((name, _shape(field, type_of) or _NULL) for name, field in fields))
    return type_of(expression)


def _item_shape(items: Sequence[Expression], type_of: TypeOf) -> SqlType:
    shape: SqlType | None = None
    for item in items:
        shape = _combined(shape, _shape(item, type_of))
    return shape or _NULL


def literal_text(expression: Expression) -> str:
    """A literal as CAST(… AS STRING) has it."""
    match expression:
        case BooleanLiteral(value):
            return "true" if value else "false"
        case DecimalLiteral(number):
            return decimal_text(number)
        case DoubleLiteral(double):
            return double_text(double)
    return str(getattr(expression, "value", ""))


def _combined(left: SqlType | None, right: SqlType | None) -> SqlType | None:
    """What two shapes have in common."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, _Literals) and isinstance(right, _Literals) and left.type == right.type:
        return _Literals(left.type, left.texts + right.texts)
    for soft, firm in ((right, left), (left, right)):
        if isinstance(soft, _Literals) and isinstance(soft.type, StringType):
            return _with_texts(_firm(firm), soft.texts)
    if isinstance(right, _Literals) and isinstance(left, StringType):
        return STRING
    return _combined_types(_firm(left), _firm(right))


def _combined_types(left: SqlType, right: SqlType) -> SqlType:
    if left == right:
        return left
    if is_number(left) and is_number(right):
        return common_number(left, right)
    match left, right:
        case ArrayType(one), ArrayType(other):
            return ArrayType(_both(one, other))
        case MapType(key, value), MapType(other_key, other_value):
            return MapType(_both(key, other_key), _both(value, other_value))
        case StructType(fields), StructType(other_fields):
            types = dict(fields)
            joined = {name: _both(types[name], type_) if name in types else type_ for name, type_ in other_fields}
            return StructType(tuple({**joined, **{name: types[name] for name in types if name not in joined}}.items()))
    raise _NothingInCommonError


def _both(left: SqlType, right: SqlType) -> SqlType:
    combined = _combined(left, right)
    assert combined is not None
    return combined


def _with_texts(target: SqlType, texts: tuple[str, ...]) -> SqlType:
    """What `target` has in common with literals of text."""
    if isinstance(target, StringType):
        return STRING
    for text in texts:
        if target == BOOLEAN:
            _checked(parse_boolean_exactly, text, target)
        elif is_number(target):
            target = common_number(target, _number_type(text, target))
        elif not is_time(target):
            raise _NothingInCommonError
    return target


def _number_type(text: str, target: SqlType) -> SqlType:
    number = _checked(decimal_number, text.strip(), target, shown=text)
    if target == DOUBLE:
        return DOUBLE
    if text.strip().lstrip("+-").isdigit():
        if -_INT_LIMIT <= number < _INT_LIMIT:
            return INTEGER
        if -_BIGINT_LIMIT <= number < _BIGINT_LIMIT:
            return BIGINT
    return decimal_type(number)


def decimal_type(value: Decimal) -> DecimalType:
    """The smallest DECIMAL that has exactly this number."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = len(digits) + max(exponent, 0) if value else 1
    return DecimalType(max(precision, scale), scale)


def _checked(parse: Callable[[str], T], text: str, target: SqlType, shown: str | None = None) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise StatementError(
            "INVALID_LITERAL",
            f'invalid input syntax for type {target}: "{shown or text}".\n'
            "Hint: a text among other values must be a literal of their type; use CAST for other texts.",
        ) from error


def _firm(shape: SqlType) -> SqlType:
    return shape.type if isinstance(shape, _Literals) else shape


def _settled(shape: SqlType | None) -> SqlType | None:
    """A shape as a type: what may still change stays as it is."""
    match shape:
        case _Literals(type_, _):
            return type_
        case ArrayType(item):
            return ArrayType(_known(item))
        case MapType(key, value):
            return MapType(_known(key), _known(value))
        case StructType(fields):
            return StructType(tuple((name, _known(type_)) for name, type_ in fields))
    return shape


def _known(shape: SqlType) -> SqlType:
    settled = _settled(shape)
    assert settled is not None
    return settled
