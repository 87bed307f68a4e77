"""Expressions from parse trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

from lark import Token

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArithmeticOperator,
    ArrayConstructor,
    Between,
    BigintLiteral,
    BooleanLiteral,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOperator,
    DecimalLiteral,
    DoubleLiteral,
    Expression,
    FieldRef,
    FunctionCall,
    InList,
    IntegerLiteral,
    IsNull,
    Lambda,
    LambdaVariable,
    Like,
    Logical,
    LogicalOperator,
    MapConstructor,
    Negative,
    Not,
    NullLiteral,
    SearchedCase,
    SimpleCase,
    StringLiteral,
    StructConstructor,
    Subscript,
    TimeUnit,
    When,
)
from hayase.sql.ast.location import Location
from hayase.sql.ast.words import UNITS
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.build_types import build_type
from hayase.sql.grammar.limits import LEVELS_OF_A_CALL, MAX_NESTING
from hayase.sql.grammar.names import Node, branch, branches, leaf, limited, location_of, name_of, text_of
from hayase.sql.types.decimals import negate

_ARITHMETIC = {operator.name.lower(): operator for operator in ArithmeticOperator}
_COMPARISONS = {operator.name.lower(): operator for operator in ComparisonOperator}
_LOGICAL = {"and_": LogicalOperator.AND, "or_": LogicalOperator.OR}
_NEGATED = {"not_between": "between", "not_in_list": "in_list", "not_like": "like"}
_CALLS = {"call", "array", "map", "struct", "searched_case", "simple_case"}
_TAKE_UNITS = {"DATEADD", "DATESUB", "TIMEADD", "TIMESUB", "TIMESTAMPADD", "TIMESTAMPSUB"}

Scope = frozenset[str]
"""Parameters of the lambdas around an expression."""


def build_expression(node: Node, scope: Scope = frozenset(), depth: int = 0) -> Expression:
    """The expression that a tree stands for.

    Raises:
        ParseFailedError: nested too deeply, a number too large, or a construct that is only parsed.
    """
    return _Builder(scope, depth).build(node)


class _Builder:
    """One walk down the tree. A new one is made for a lambda's body, where its parameters hide columns."""

    def __init__(self, scope: Scope, depth: int) -> None:
        self._scope = scope
        self._depth = depth

    def build(self, node: Node) -> Expression:
        levels = LEVELS_OF_A_CALL if node.data in _CALLS else 1
        if self._depth + levels > MAX_NESTING:
            raise ParseFailedError(
                "TOO_DEEP",
                f"The expression has more than {MAX_NESTING} levels, which is the limit (functions, constructors and "
                f"CASE count as {LEVELS_OF_A_CALL}); give parts of it a statement of their own, or use IN for a long "
                "OR",
                location=location_of(node),
            )
        self._depth += levels
        try:
            return self._expression(node, node.data)
        finally:
            self._depth -= levels

    def _expression(self, node: Node, rule: str) -> Expression:
        location = location_of(node)
        if rule in _ARITHMETIC:
            return Arithmetic(_ARITHMETIC[rule], *self._pair(node), location=location)
        if rule in _COMPARISONS:
            return Comparison(_COMPARISONS[rule], *self._pair(node), location=location)
        if rule in _LOGICAL:
            return Logical(_LOGICAL[rule], *self._pair(node), location=location)
        if rule in _NEGATED:
            return Not(self._expression(node, _NEGATED[rule]), location=location)
        handler: Callable[[Node, Location | None], Expression] = getattr(self, f"_{rule}")
        return handler(node, location)

    def _pair(self, node: Node) -> tuple[Expression, Expression]:
        return self.build(branch(node)), self.build(branch(node, 1))

    def _all(self, nodes: Sequence[Node], what: str, location: Location | None) -> tuple[Expression, ...]:
        return limited([self.build(node) for node in nodes], what, location)

    # Literals

    def _null(self, _node: Node, location: Location | None) -> Expression:
        return NullLiteral(location=location)

    def _true(self, _node: Node, location: Location | None) -> Expression:
        return BooleanLiteral(True, location=location)

    def _false(self, _node: Node, location: Location | None) -> Expression:
        return BooleanLiteral(False, location=location)

    def _text(self, node: Node, location: Location | None) -> Expression:
        return StringLiteral(text_of(leaf(node)), location=location)

    def _integer(self, node: Node, location: Location | None) -> Expression:
        return number(leaf(node), location)

    _decimal = _double = _integer

    def _negative(self, node: Node, location: Location | None) -> Expression:
        operand = branch(node)
        if operand.data in {"integer", "decimal", "double"}:
            return number(leaf(operand), location, negative=True)
        match self.build(operand):
            case IntegerLiteral(value) | BigintLiteral(value) if -value < 2**63:
                return whole_number(-value, location)
            case DecimalLiteral(decimal):
                return DecimalLiteral(negate(decimal), location=location)
            case DoubleLiteral(double):
                return DoubleLiteral(-double, location=location)
            case expression:
                return Negative(expression, location=location)

    def _positive(self, node: Node, _location: Location | None) -> Expression:
        return self.build(branch(node))

    # Columns and parts of values

    def _column(self, node: Node, location: Location | None) -> Expression:
        name = name_of(branch(node))
        return LambdaVariable(name, location=location) if name in self._scope else ColumnRef(name, location=location)

    def _column_of_source(self, node: Node, location: Location | None) -> Expression:
        return ColumnRef(name_of(branch(node, 1)), name_of(branch(node)), location=location)

    def _field(self, node: Node, location: Location | None) -> Expression:
        return FieldRef(self.build(branch(node)), name_of(branch(node, 1)), location=location)

    def _subscript(self, node: Node, location: Location | None) -> Expression:
        return Subscript(*self._pair(node), location=location)

    # Predicates

    def _not_(self, node: Node, location: Location | None) -> Expression:
        return Not(self.build(branch(node)), location=location)

    def _is_null(self, node: Node, location: Location | None) -> Expression:
        return IsNull(self.build(branch(node)), location=location)

    def _is_not_null(self, node: Node, location: Location | None) -> Expression:
        return IsNull(self.build(branch(node)), negated=True, location=location)

    def _between(self, node: Node, location: Location | None) -> Expression:
        operand, low, high = map(self.build, branches(node))
        return Between(operand, low, high, location=location)

    def _in_list(self, node: Node, location: Location | None) -> Expression:
        items = self._all(branches(branch(node, 1)), "values of IN", location)
        return InList(self.build(branch(node)), items, location=location)

    def _like(self, node: Node, location: Location | None) -> Expression:
        operand, pattern, *escape = branches(node)
        character = text_of(leaf(escape[0])) if escape else None
        if character is not None and len(character) != 1:
            raise ParseFailedError(
                "INVALID_ESCAPE", f"Expected escape character, but got {character!r}", location=location
            )
        return Like(self.build(operand), self.build(pattern), character, location=location)

    # CASE and CAST

    def _searched_case(self, node: Node, location: Location | None) -> Expression:
        whens, default = self._whens(branches(node), location)
        return SearchedCase(whens, default, location=location)

    def _simple_case(self, node: Node, location: Location | None) -> Expression:
        operand, *parts = branches(node)
        whens, default = self._whens(parts, location)
        return SimpleCase(self.build(operand), whens, default, location=location)

    def _whens(self, parts: list[Node], location: Location | None) -> tuple[tuple[When, ...], Expression | None]:
        whens = [When(*self._pair(part)) for part in parts if part.data == "when"]
        default = self.build(branch(parts[-1])) if parts[-1].data == "else_" else None
        return limited(whens, "WHENs of a CASE", location), default

    def _cast(self, node: Node, location: Location | None) -> Expression:
        return Cast(self.build(branch(node)), build_type(branch(node, 1)), location=location)

    # Functions and constructors

    def _call(self, node: Node, location: Location | None) -> Expression:
        name = name_of(branch(node))
        arguments = [child for child in node.children[1:] if not isinstance(child, Token)]
        built = [self._argument(argument, name, position) for position, argument in enumerate(arguments)]
        return FunctionCall(name, limited(built, "arguments of a function", location), location=location)

    def _argument(self, node: Node, function: str, position: int) -> Expression:
        if node.data == "column" and leaf(branch(node)).type == "IDENTIFIER":
            name = name_of(branch(node))
            plural = name if name.endswith("S") else f"{name}S"
            is_unit = name == plural or (function in _TAKE_UNITS and position == 0)
            if plural in UNITS and is_unit and name not in self._scope:
                return TimeUnit(plural, location=location_of(node))
        return self.build(node)

    def _lambda(self, node: Node, location: Location | None) -> Expression:
        *parameters, body = branches(node)
        names = tuple(map(name_of, parameters))
        if len(set(names)) < len(names):
            raise ParseFailedError(
                "DUPLICATE_PARAMETER", f"Lambda arguments have the same name: {', '.join(names)}", location=location
            )
        return Lambda(names, _Builder(self._scope.union(names), self._depth).build(body), location=location)

    def _array(self, node: Node, location: Location | None) -> Expression:
        return ArrayConstructor(self._all(branches(node), "items of ARRAY", location), location=location)

    def _map(self, node: Node, location: Location | None) -> Expression:
        entries = [self._pair(entry) for entry in branches(node)]
        return MapConstructor(limited(entries, "entries of MAP", location), location=location)

    def _struct(self, node: Node, location: Location | None) -> Expression:
        fields = [(name_of(branch(field)), self.build(branch(field, 1))) for field in branches(node)]
        return StructConstructor(limited(fields, "fields of STRUCT", location), location=location)

    # What the grammar knows and the language does not have

    def _typed_text(self, node: Node, location: Location | None) -> Expression:
        name = name_of(branch(node))
        raise ParseFailedError(
            "UNSUPPORTED",
            f"Literals with a type are not supported: {name} {leaf(node, 1)}; write CAST({leaf(node, 1)} AS {name})",
            location=location,
        )

    def _at_time_zone(self, _node: Node, location: Location | None) -> Expression:
        raise ParseFailedError(
            "UNSUPPORTED", "AT TIME ZONE is not supported; use the function CONVERT_TZ", location=location
        )


def number(token: Token, location: Location | None, *, negative: bool = False) -> Expression:
    """The literal of a number: by its form, and by its size."""
    text = f"-{token}" if negative else str(token)
    if token.type == "DECIMAL_VALUE":
        return DecimalLiteral(negate(Decimal(token)) if negative else Decimal(token), location=location)
    if token.type == "FLOATING_POINT_VALUE":
        double = float(text)
        if math.isinf(double):
            # ksqlDB counts the column of this error from 2.
            at = "" if location is None else f"line {location.line}:{location.column + 1}: "
            raise ParseFailedError(
                "NUMBER_TOO_LARGE",
                f"Failed to prepare statement: {at}Number overflows DOUBLE: {text}",
                location=location,
            )
        return DoubleLiteral(double, location=location)
    value = int(text) if len(token.lstrip("0")) < 20 else None
    if value is None or not -(2**63) <= value < 2**63:
        raise ParseFailedError("NUMBER_TOO_LARGE", f"Invalid numeric literal: {text}", location=location)
    return whole_number(value, location)


def whole_number(value: int, location: Location | None) -> Expression:
    """The literal of a whole number that fits BIGINT."""
    kind = IntegerLiteral if -(2**31) <= value < 2**31 else BigintLiteral
    return kind(value, location=location)
