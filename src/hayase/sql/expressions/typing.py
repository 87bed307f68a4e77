"""Types of expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from hayase.sql.ast.expressions import (
    Arithmetic,
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
from hayase.sql.ast.text import expression_text
from hayase.sql.errors import StatementError
from hayase.sql.expressions.arithmetic import arithmetic_type
from hayase.sql.expressions.coercion import common_type, decimal_type
from hayase.sql.expressions.comparisons import conversions, with_times_of_texts
from hayase.sql.expressions.constructors import COLLECTIONS, array_type, map_type, struct_type
from hayase.sql.functions.registry import BoundScalar, FunctionKind, FunctionRegistry
from hayase.sql.functions.signatures import Argument, LambdaArgument, UnitArgument
from hayase.sql.grammar.limits import nesting_errors
from hayase.sql.types.coercion import is_number
from hayase.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    ArrayType,
    MapType,
    SqlType,
    StructType,
)

Variables = tuple[tuple[str, SqlType | None], ...]
"""The parameters of the lambdas around an expression with their types, the innermost last."""

_LITERAL_TYPES: dict[type[Expression], SqlType] = {
    BooleanLiteral: BOOLEAN,
    IntegerLiteral: INTEGER,
    BigintLiteral: BIGINT,
    DoubleLiteral: DOUBLE,
    StringLiteral: STRING,
}


def type_of(expression: Expression, columns: Mapping[str, SqlType], functions: FunctionRegistry) -> SqlType | None:
    """The type of an expression; `None` is the type of NULL.

    Raises:
        StatementError: a column or function is unknown, or types do not fit. Literals that do not fit into IN and casts
            that do not exist are found when the expression is compiled.
    """
    with nesting_errors():
        return Typer(columns, functions).type_of(expression)


@lru_cache(maxsize=256)
def _fields_of(type_: StructType) -> dict[str, SqlType]:
    """The fields of a STRUCT by name; of two with one name the first."""
    return dict(reversed(type_.fields))


def is_literal(expression: Expression) -> bool:
    """Whether it is a literal other than NULL."""
    return isinstance(expression, DecimalLiteral) or type(expression) in _LITERAL_TYPES


class Typer:
    """Gives types to the expressions over some columns, each once."""

    def __init__(self, columns: Mapping[str, SqlType], functions: FunctionRegistry) -> None:
        self.columns = columns
        self.functions = functions
        # The expression itself is kept beside its type: an id means nothing once its object is gone.
        self._types: dict[tuple[int, Variables], tuple[Expression, SqlType | None]] = {}
        self._calls: dict[tuple[int, Variables], tuple[Expression, BoundScalar]] = {}

    def type_of(self, expression: Expression, variables: Variables = ()) -> SqlType | None:
        """The type of an expression inside of lambdas with these parameters."""
        known = self._types.get((id(expression), variables))
        if known is None:
            try:
                known = expression, self._compute(expression, variables)
            except StatementError as error:
                error.locate(expression.location)
                raise
            self._types[id(expression), variables] = known
        return known[1]

    def call(self, call: FunctionCall, variables: Variables = ()) -> BoundScalar:
        """The scalar function of a call."""
        known = self._calls.get((id(call), variables))
        if known is None:
            known = call, self._bound(call, variables)
            self._calls[id(call), variables] = known
        return known[1]

    def common_type(self, expressions: Sequence[Expression], variables: Variables) -> SqlType | None:
        """The type that all expressions become."""
        return common_type(expressions, lambda one: self.type_of(one, variables))

    def _compute(self, expression: Expression, variables: Variables) -> SqlType | None:
        literal_type = _LITERAL_TYPES.get(type(expression))
        if literal_type is not None:
            return literal_type
        match expression:
            case NullLiteral():
                return None
            case DecimalLiteral(value):
                return decimal_type(value)
            case ColumnRef(name):
                return self._column(expression, name)
            case LambdaVariable(name):
                return self._variable(expression, name, variables)
            case Cast(operand, target):
                self.type_of(operand, variables)
                return target
            case Arithmetic():
                return self._arithmetic(expression, variables)
            case Negative(operand):
                return self._negative(expression, self.type_of(operand, variables))
            case FunctionCall():
                return self._call_type(expression, variables)
            case SearchedCase(whens, default):
                return self._case(expression, whens, default, variables)
            case SimpleCase(operand, whens, default):
                for when in whens:
                    self._compare(ComparisonOperator.EQUAL, operand, when.condition, variables)
                return self._case_result(expression, whens, default, variables)
        return self._predicate_or_part(expression, variables)

    def _predicate_or_part(self, expression: Expression, variables: Variables) -> SqlType | None:
        match expression:
            case Comparison(operator, left, right):
                self._compare(operator, left, right, variables)
            case Between(operand, low, high):
                self._compare(ComparisonOperator.GREATER_OR_EQUAL, operand, low, variables)
                self._compare(ComparisonOperator.LESS_OR_EQUAL, operand, high, variables)
            case Logical(operator, left, right):
                self._boolean(expression, left, variables)
                self._boolean(expression, right, variables)
            case Not(operand):
                self._boolean(expression, operand, variables)
            case IsNull(operand):
                self.type_of(operand, variables)
            case InList(operand, items):
                for one in (operand, *items):
                    self.type_of(one, variables)
            case Like(operand, pattern):
                self._text(expression, operand, variables)
                self._text(expression, pattern, variables)
            case _:
                return self._part(expression, variables)
        return BOOLEAN

    def _part(self, expression: Expression, variables: Variables) -> SqlType | None:
        match expression:
            case FieldRef(base, field_name):
                return self._field(expression, self.type_of(base, variables), field_name)
            case Subscript(base, index):
                return self._item(expression, self.type_of(base, variables), self.type_of(index, variables))
            case ArrayConstructor(items):
                return array_type(items, lambda one: self.type_of(one, variables))
            case MapConstructor(entries):
                return map_type(entries, lambda one: self.type_of(one, variables))
            case StructConstructor(fields):
                return struct_type(fields, lambda one: self.type_of(one, variables))
        text = expression_text(expression)
        if isinstance(expression, TimeUnit):
            problem = f"{text} is a unit of time here; a column of this name is written `{text}`"
        else:
            problem = f"{text} can only be an argument of a function"
        raise _error(expression, "MISPLACED_EXPRESSION", problem)

    def _column(self, expression: Expression, name: str) -> SqlType:
        type_ = self.columns.get(name)
        if type_ is None:
            raise _error(expression, "UNKNOWN_COLUMN", f"Unknown column {name}.")
        return type_

    def _variable(self, expression: Expression, name: str, variables: Variables) -> SqlType | None:
        for variable, type_ in reversed(variables):
            if variable == name:
                return type_
        raise _error(expression, "UNKNOWN_LAMBDA_VARIABLE", f"Unknown lambda variable {name}.")

    def _arithmetic(self, expression: Arithmetic, variables: Variables) -> SqlType:
        left, right = self.type_of(expression.left, variables), self.type_of(expression.right, variables)
        type_ = arithmetic_type(expression.operator, left, right)
        if type_ is None:
            raise _error(
                expression,
                "UNSUPPORTED_ARITHMETIC",
                f"Error processing expression: {expression_text(expression)}. {_unsupported(left, right)}",
            )
        return type_

    def _negative(self, expression: Expression, type_: SqlType | None) -> SqlType | None:
        if not is_number(type_):
            text = expression_text(expression)
            raise _error(
                expression, "UNSUPPORTED_ARITHMETIC", f"Error processing expression: {text}. {type_} is no number"
            )
        return type_

    def _compare(self, operator: ComparisonOperator, left: Expression, right: Expression, variables: Variables) -> None:
        left, right = with_times_of_texts(left, self.type_of(left, variables), right, self.type_of(right, variables))
        conversions(operator, left, self.type_of(left, variables), right, self.type_of(right, variables))

    def _boolean(self, expression: Expression, operand: Expression, variables: Variables) -> None:
        type_ = self.type_of(operand, variables)
        if type_ not in (BOOLEAN, None):
            raise _error(
                operand,
                "BOOLEAN_EXPECTED",
                f"{expression_text(operand)} ({type_}) in {expression_text(expression)} should be BOOLEAN",
            )

    def _text(self, expression: Expression, operand: Expression, variables: Variables) -> None:
        type_ = self.type_of(operand, variables)
        if type_ not in (STRING, None):
            raise _error(
                operand,
                "STRING_EXPECTED",
                f"{expression_text(operand)} ({type_}) in {expression_text(expression)} should be STRING",
            )

    def _case(
        self, expression: Expression, whens: Sequence[When], default: Expression | None, variables: Variables
    ) -> SqlType:
        for when in whens:
            type_ = self.type_of(when.condition, variables)
            if type_ != BOOLEAN:
                raise _error(
                    when.condition,
                    "BOOLEAN_EXPECTED",
                    f"WHEN operand type should be boolean.\n"
                    f"Type for '{expression_text(when.condition)}' is {type_ or 'NULL'}",
                )
        return self._case_result(expression, whens, default, variables)

    def _case_result(
        self, expression: Expression, whens: Sequence[When], default: Expression | None, variables: Variables
    ) -> SqlType:
        common: SqlType | None = None
        for when in whens:
            type_ = self.type_of(when.result, variables)
            if type_ is not None and common not in (None, type_):
                raise _error(
                    when.result,
                    "CASE_TYPES",
                    "Invalid Case expression. Type for all 'THEN' clauses should be the same.\n"
                    f"THEN expression '{expression_text(when.result)}' has type: {type_}.\nPrevious THEN: {common}",
                )
            common = common or type_
        default_type = None if default is None else self.type_of(default, variables)
        if default_type is not None and common not in (None, default_type):
            raise _error(
                expression,
                "CASE_TYPES",
                "Invalid Case expression. Type for the default clause should be the same as for 'THEN' clauses.\n"
                f"THEN type: {common}.\nDEFAULT type: {default_type}.",
            )
        result = common or default_type
        if result is None:
            raise _error(expression, "CASE_TYPES", "Invalid Case expression. All case branches have NULL type")
        return result

    def _field(self, expression: Expression, base: SqlType | None, name: str) -> SqlType:
        if not isinstance(base, StructType):
            raise _error(
                expression,
                "STRUCT_EXPECTED",
                f"Expected STRUCT type, got: {base or 'NULL'} in {expression_text(expression)}",
            )
        field = _fields_of(base).get(name)
        if field is not None:
            return field
        raise _error(
            expression,
            "UNKNOWN_FIELD",
            f"Could not find field '{name}' in '{expression_text(expression)}': the fields are "
            + ", ".join(field_name for field_name, _ in base.fields),
        )

    def _item(self, expression: Expression, base: SqlType | None, index: SqlType | None) -> SqlType:
        match base:
            case ArrayType(item):
                if index not in (INTEGER, BIGINT):
                    raise _error(
                        expression,
                        "SUBSCRIPT_TYPE",
                        f"The index of an ARRAY is INTEGER or BIGINT, not {index or 'NULL'}: "
                        f"{expression_text(expression)}",
                    )
                return item
            case MapType(_, value):
                if isinstance(index, COLLECTIONS):
                    raise _error(
                        expression, "SUBSCRIPT_TYPE", f"{index} is no key of a MAP: {expression_text(expression)}"
                    )
                return value
        raise _error(
            expression,
            "SUBSCRIPT_TYPE",
            f"UnsupportedOperation: Subscript expression does not apply to {base or 'NULL'}: "
            f"{expression_text(expression)}",
        )

    def _call_type(self, call: FunctionCall, variables: Variables) -> SqlType | None:
        kind = self.functions.kind(call.name)
        if kind is FunctionKind.TABLE:
            return self.functions.table(call.name, self._arguments(call, variables)).return_type
        if kind is FunctionKind.AGGREGATE:
            literals = {
                position: getattr(argument, "value", None)
                for position, argument in enumerate(call.arguments)
                if is_literal(argument)
            }
            arguments = self._arguments(call, variables)
            return self.functions.aggregate(call.name, arguments, literals).return_type
        return self.call(call, variables).return_type

    def _bound(self, call: FunctionCall, variables: Variables) -> BoundScalar:
        bound = self.functions.scalar(call.name, self._arguments(call, variables))
        for position in bound.literals:
            if not is_literal(call.arguments[position]):
                raise _error(
                    call.arguments[position],
                    "LITERAL_EXPECTED",
                    f"Parameter {position + 1} passed to function {bound.name} must be a literal constant, but was "
                    f"expression: '{expression_text(call.arguments[position])}'",
                )
        return bound

    def _arguments(self, call: FunctionCall, variables: Variables) -> list[Argument]:
        return [self._argument(argument, variables) for argument in call.arguments]

    def _argument(self, argument: Expression, variables: Variables) -> Argument:
        match argument:
            case Lambda(parameters, body):

                def body_type(types: tuple[SqlType | None, ...]) -> SqlType | None:
                    return self.type_of(body, (*variables, *zip(parameters, types, strict=True)))

                return LambdaArgument(len(parameters), body_type)
            case TimeUnit():
                return UnitArgument()
        return self.type_of(argument, variables)


def _error(expression: Expression, condition: str, message: str, **context: Any) -> StatementError:
    return StatementError(condition, message, location=expression.location, **context)


def _unsupported(left: SqlType | None, right: SqlType | None) -> str:
    if left is None or right is None:
        return f"Arithmetic on types {left or 'null'} and {right or 'null'} are not supported."
    return f"Unsupported arithmetic types. {left} {right}"
