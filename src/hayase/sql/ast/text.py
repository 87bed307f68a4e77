"""Expressions and queries back as SQL text.

The text is what ksqlDB's messages show: operators in parentheses, names bare where they can be. Parsing it gives an
equal tree again.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from hayase.sql.ast.expressions import (
    Arithmetic,
    ArrayConstructor,
    Between,
    BigintLiteral,
    BooleanLiteral,
    Cast,
    ColumnRef,
    Comparison,
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
from hayase.sql.ast.queries import (
    AllColumns,
    AllFields,
    JoinRelation,
    Query,
    Relation,
    SelectItem,
    SingleColumn,
    SourceRelation,
    Window,
    WindowKind,
    Within,
)
from hayase.sql.ast.words import UNITS, name_text

_PLURAL_UNITS = [(unit, length_ms) for unit, length_ms in reversed(UNITS.items()) if unit.endswith("S")]


def expression_text(expression: Expression) -> str:
    """An expression as SQL."""
    match expression:
        case ColumnRef(name, source):
            return name_text(name) if source is None else f"{name_text(source)}.{name_text(name)}"
        case LambdaVariable(name):
            return name_text(name)
        case FieldRef(base, field_name):
            return f"{_base_text(base)}->{name_text(field_name)}"
        case Subscript(base, index):
            return f"{_base_text(base)}[{expression_text(index)}]"
        case Cast(operand, target):
            return f"CAST({expression_text(operand)} AS {target})"
        case FunctionCall(name, arguments):
            return f"{name_text(name)}({_list(arguments)})"
        case Lambda(parameters, body):
            names = ", ".join(map(name_text, parameters))
            return f"{names if len(parameters) == 1 else f'({names})'} => {expression_text(body)}"
        case ArrayConstructor(items):
            return f"ARRAY[{_list(items)}]"
        case MapConstructor(entries):
            return f"MAP({', '.join(f'{expression_text(key)}:={expression_text(value)}' for key, value in entries)})"
        case StructConstructor(fields):
            return f"STRUCT({', '.join(f'{name_text(name)}:={expression_text(value)}' for name, value in fields)})"
    return _literal_text(expression) or _operator_text(expression)


def _literal_text(expression: Expression) -> str | None:
    match expression:
        case NullLiteral():
            return "null"
        case BooleanLiteral(value):
            return "true" if value else "false"
        case IntegerLiteral(value) | BigintLiteral(value):
            return str(value)
        case DecimalLiteral(value):
            return _decimal_text(value)
        case DoubleLiteral(value):
            return f"{Decimal(repr(value)):E}".replace("+", "")
        case StringLiteral(value):
            return string_text(value)
        case TimeUnit(name):
            return name
    return None


def _operator_text(expression: Expression) -> str:
    match expression:
        case Arithmetic(operator, left, right) | Comparison(operator, left, right) | Logical(operator, left, right):
            return f"({expression_text(left)} {operator.value} {expression_text(right)})"
        case Negative(operand):
            text = expression_text(operand)
            return f"-({text})" if text.startswith("-") else f"-{text}"
        case Not(operand):
            return f"(NOT {expression_text(operand)})"
        case IsNull(operand, negated):
            return f"({expression_text(operand)} IS {'NOT ' if negated else ''}NULL)"
        case Between(operand, low, high):
            return f"({expression_text(operand)} BETWEEN {expression_text(low)} AND {expression_text(high)})"
        case InList(operand, items):
            return f"({expression_text(operand)} IN ({_list(items)}))"
        case Like(operand, pattern, escape):
            end = "" if escape is None else f" ESCAPE {string_text(escape)}"
            return f"({expression_text(operand)} LIKE {expression_text(pattern)}{end})"
        case SearchedCase(whens, default):
            return f"(CASE {_whens_text(whens, default)} END)"
        case SimpleCase(operand, whens, default):
            return f"(CASE {expression_text(operand)} {_whens_text(whens, default)} END)"
    raise TypeError(f"{type(expression).__name__} is no expression of SQL")


def _whens_text(whens: Iterable[When], default: Expression | None) -> str:
    parts = [f"WHEN {expression_text(when.condition)} THEN {expression_text(when.result)}" for when in whens]
    return " ".join(parts if default is None else [*parts, f"ELSE {expression_text(default)}"])


def _base_text(base: Expression) -> str:
    text = expression_text(base)
    return f"({text})" if text.startswith("-") else text


def _list(expressions: Iterable[Expression]) -> str:
    return ", ".join(map(expression_text, expressions))


def _decimal_text(value: Decimal) -> str:
    text = format(value, "f")
    return text if "." in text else f"{text}."


def string_text(value: str) -> str:
    """A text as a literal in single quotes."""
    return "'" + value.replace("'", "''") + "'"


def duration_text(duration_ms: int) -> str:
    """A duration in the largest unit that shows it exactly: `5 MINUTES`."""
    for unit, length_ms in _PLURAL_UNITS:
        if duration_ms % length_ms == 0 and duration_ms >= length_ms:
            return f"{duration_ms // length_ms} {unit}"
    return f"{duration_ms} MILLISECONDS"


def query_text(query: Query) -> str:
    """A query as SQL, a clause a line, as ksqlDB shows it."""
    lines = [
        "SELECT",
        ",\n".join(f"  {_item_text(item)}" for item in query.select),
        f"FROM {relation_text(query.source)}",
    ]
    if query.window is not None:
        lines.append(f"WINDOW {window_text(query.window)}")
    if query.where is not None:
        lines.append(f"WHERE {expression_text(query.where)}")
    if query.group_by is not None:
        lines.append(f"GROUP BY {_list(query.group_by) or '()'}")
    if query.partition_by is not None:
        lines.append(f"PARTITION BY {_list(query.partition_by) or '()'}")
    if query.having is not None:
        lines.append(f"HAVING {expression_text(query.having)}")
    if query.emit is not None:
        lines.append(f"EMIT {query.emit.value}")
    if query.limit is not None:
        lines.append(f"LIMIT {query.limit}")
    return "\n".join(lines)


def _item_text(item: SelectItem) -> str:
    match item:
        case SingleColumn(FunctionCall("COUNT", ()), alias):
            text = "COUNT(*)"
        case SingleColumn(expression, alias):
            text = expression_text(expression)
        case AllColumns(source):
            return "*" if source is None else f"{name_text(source)}.*"
        case AllFields(base):
            return f"{_base_text(base)}->*"
        case _:
            raise TypeError(f"{type(item).__name__} is no item of a projection")
    return text if alias is None else f"{text} {name_text(alias)}"


def relation_text(relation: Relation) -> str:
    """What stands behind FROM, as SQL."""
    match relation:
        case SourceRelation(name, alias):
            return f"{name_text(name)} {name_text(alias)}"
        case JoinRelation(kind, left, right, condition, within):
            window = "" if within is None else f" {within_text(within)}"
            join = f"{kind.value}{' OUTER' if kind.value != 'INNER' else ''} JOIN"
            return f"{relation_text(left)}\n{join} {relation_text(right)}{window} ON {expression_text(condition)}"
    raise TypeError(f"{type(relation).__name__} is no relation")


def within_text(within: Within) -> str:
    """WITHIN of a join, as SQL."""
    before, after = duration_text(within.before_ms), duration_text(within.after_ms)
    bounds = before if before == after else f"({before}, {after})"
    grace = "" if within.grace_ms is None else f" GRACE PERIOD {duration_text(within.grace_ms)}"
    return f"WITHIN {bounds}{grace}"


def window_text(window: Window) -> str:
    """A window as SQL, without the word WINDOW: `TUMBLING ( SIZE 5 MINUTES )`."""
    size = duration_text(window.size_ms)
    parts = [size if window.kind is WindowKind.SESSION else f"SIZE {size}"]
    if window.advance_ms is not None:
        parts.append(f"ADVANCE BY {duration_text(window.advance_ms)}")
    if window.retention_ms is not None:
        parts.append(f"RETENTION {duration_text(window.retention_ms)}")
    if window.grace_ms is not None:
        parts.append(f"GRACE PERIOD {duration_text(window.grace_ms)}")
    return f"{window.kind.value} ( {', '.join(parts)} )"
