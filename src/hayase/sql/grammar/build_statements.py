"""Statements from parse trees."""

from __future__ import annotations

from collections.abc import Callable

from lark import Token

from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.location import Location
from hayase.sql.ast.statements import (
    AlterSource,
    AlterSystem,
    AssertNullValues,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnDefinition,
    ColumnKind,
    CreateAsSelect,
    CreateConnector,
    CreateSource,
    CreateType,
    DefineVariable,
    Describe,
    DescribeConnector,
    DescribeFunction,
    DropConnector,
    DropSource,
    DropType,
    Explain,
    InsertInto,
    InsertValues,
    ListStatement,
    PrintTopic,
    Properties,
    QueryAction,
    QueryControl,
    RunScript,
    SelectQuery,
    SetProperty,
    SourceKind,
    Statement,
    UndefineVariable,
    UnsetProperty,
)
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.build_expressions import build_expression
from hayase.sql.grammar.build_functions import create_function, drop_function
from hayase.sql.grammar.build_queries import build_query
from hayase.sql.grammar.build_types import build_type
from hayase.sql.grammar.names import (
    Node,
    branch,
    branches,
    duration_of,
    find,
    identifier,
    integer_of,
    leaf,
    limited,
    location_of,
    name_of,
    name_or_text_of,
    source_name_of,
    text_of,
)
from hayase.sql.types.sql_types import quoted_name


def build_statement(node: Node) -> Statement:
    """The statement that a tree stands for.

    Raises:
        ParseFailedError: something that the grammar lets through and the language does not.
    """
    return _BUILDERS[node.data](node, location_of(node))


def _select(node: Node, location: Location | None) -> Statement:
    return SelectQuery(build_query(branch(node)), location=location)


def _create_source(node: Node, location: Location | None) -> Statement:
    kind = _kind(node)
    return CreateSource(
        kind,
        _source_name(node),
        _elements(node, kind),
        _properties(node),
        or_replace=_has(node, "or_replace"),
        is_source=_has(node, "source_flag"),
        if_not_exists=_has(node, "if_not_exists"),
        location=location,
    )


def _create_as(node: Node, location: Location | None) -> Statement:
    return CreateAsSelect(
        _kind(node),
        _source_name(node),
        build_query(branch(node, -1)),
        _properties(node),
        or_replace=_has(node, "or_replace"),
        if_not_exists=_has(node, "if_not_exists"),
        location=location,
    )


def _insert_into(node: Node, _location: Location | None) -> Statement:
    # Errors point at the target, not at INSERT.
    query = build_query(branch(node, -1))
    return InsertInto(_source_name(node), query, _properties(node), location=location_of(branch(node)))


def _insert_values(node: Node, _location: Location | None) -> Statement:
    return InsertValues(_source_name(node), _columns(node), _values(node), location=location_of(branch(node)))


def _drop_source(node: Node, location: Location | None) -> Statement:
    return DropSource(
        _kind(node),
        _source_name(node),
        if_exists=_has(node, "if_exists"),
        delete_topic=_has(node, "delete_topic"),
        location=location,
    )


def _alter_source(node: Node, location: Location | None) -> Statement:
    columns = [
        ColumnDefinition(name_of(branch(column)), build_type(branch(column, 1)), location=location_of(column))
        for column in branches(node)
        if column.data == "added_column"
    ]
    return AlterSource(_kind(node), _source_name(node), limited(columns, "columns", location), location=location)


def _create_type(node: Node, location: Location | None) -> Statement:
    *_, name, type_ = branches(node)
    return CreateType(name_of(name), build_type(type_), if_not_exists=_has(node, "if_not_exists"), location=location)


def _drop_type(node: Node, location: Location | None) -> Statement:
    return DropType(name_of(branch(node, -1)), if_exists=_has(node, "if_exists"), location=location)


def _set_property(node: Node, location: Location | None) -> Statement:
    return SetProperty(text_of(leaf(node)), text_of(leaf(node, 1)), location=location)


def _unset_property(node: Node, location: Location | None) -> Statement:
    return UnsetProperty(text_of(leaf(node)), location=location)


def _alter_system(node: Node, location: Location | None) -> Statement:
    return AlterSystem(text_of(leaf(node)), text_of(leaf(node, 1)), location=location)


def _define(node: Node, location: Location | None) -> Statement:
    return DefineVariable(str(leaf(branch(node))), text_of(leaf(node, 1)), location=location)


def _undefine(node: Node, location: Location | None) -> Statement:
    return UndefineVariable(str(leaf(branch(node))), location=location)


def _query_control(node: Node, location: Location | None) -> Statement:
    token = leaf(branch(node))
    query_id = None if token.type == "ALL" else identifier(token)
    return QueryControl(QueryAction[node.data.upper()], query_id, location=location)


def _list(node: Node, location: Location | None) -> Statement:
    what = " ".join(word.upper() for word in branch(node).children if isinstance(word, Token))
    return ListStatement(what, extended=_has(node, "extended"), location=location)


def _describe_source(node: Node, location: Location | None) -> Statement:
    return Describe(_source_name(node), extended=_has(node, "extended"), location=location)


def _describe_all(node: Node, location: Location | None) -> Statement:
    what = leaf(branch(node)).upper()
    return Describe(what, extended=_has(node, "extended"), all_of_kind=True, location=location)


def _describe_function(node: Node, location: Location | None) -> Statement:
    return DescribeFunction(name_of(branch(node)), location=location)


def _describe_connector(node: Node, location: Location | None) -> Statement:
    return DescribeConnector(name_of(branch(node)), location=location)


def _explain_statement(node: Node, location: Location | None) -> Statement:
    return Explain(build_statement(branch(node)), location=location)


def _explain_query(node: Node, location: Location | None) -> Statement:
    return Explain(None, name_of(branch(node)), location=location)


def _print_topic(node: Node, location: Location | None) -> Statement:
    # A topic's name is case-sensitive, so a bare one is taken as written.
    topic = node.children[0]
    name = text_of(topic) if isinstance(topic, Token) else _as_written(leaf(topic))
    interval, limit = find(node, "print_interval"), find(node, "print_limit")
    return PrintTopic(
        name,
        from_beginning=_has(node, "from_beginning"),
        interval=None if interval is None else integer_of(leaf(interval)),
        limit=None if limit is None else integer_of(leaf(limit)),
        location=location,
    )


def _as_written(token: Token) -> str:
    return identifier(token) if token.type == "QUOTED_IDENTIFIER" else str(token)


def _create_connector(node: Node, location: Location | None) -> Statement:
    kind = leaf(branch(node)).upper()
    name = next(child for child in branches(node) if child.data == "name")
    return CreateConnector(
        kind, name_of(name), _properties(node), if_not_exists=_has(node, "if_not_exists"), location=location
    )


def _drop_connector(node: Node, location: Location | None) -> Statement:
    return DropConnector(name_of(branch(node, -1)), if_exists=_has(node, "if_exists"), location=location)


def _assert_topic(node: Node, location: Location | None) -> Statement:
    name = next(child for child in branches(node) if child.data == "name")
    return AssertTopic(
        _as_written(leaf(name)),
        _properties(node),
        exists=not _has(node, "not_exists"),
        timeout_ms=_timeout(node),
        location=location,
    )


def _assert_schema(node: Node, location: Location | None) -> Statement:
    subject, id_ = find(node, "schema_subject"), find(node, "schema_id")
    return AssertSchema(
        None if subject is None else _subject(subject.children[0]),
        None if id_ is None else integer_of(leaf(id_)),
        exists=not _has(node, "not_exists"),
        timeout_ms=_timeout(node),
        location=location,
    )


def _subject(child: Node | Token) -> str:
    return text_of(child) if isinstance(child, Token) else _as_written(leaf(child))


def _timeout(node: Node) -> int | None:
    timeout = find(node, "timeout")
    return None if timeout is None else duration_of(branch(timeout))


def _assert_values(node: Node, location: Location | None) -> Statement:
    return AssertValues(_source_name(node), _columns(node), _values(node), location=location)


def _assert_null_values(node: Node, location: Location | None) -> Statement:
    return AssertNullValues(_source_name(node), _columns(node), _values(node), location=location)


def _assert_source(node: Node, location: Location | None) -> Statement:
    kind = _kind(node)
    return AssertSource(kind, _source_name(node), _elements(node, kind), _properties(node), location=location)


def _run_script(node: Node, location: Location | None) -> Statement:
    return RunScript(text_of(leaf(node)), location=location)


# Parts of statements


def _has(node: Node, rule: str) -> bool:
    return find(node, rule) is not None


def _kind(node: Node) -> SourceKind:
    kind = find(node, "kind")
    assert kind is not None
    return SourceKind[leaf(kind).upper()]


def _source_name(node: Node) -> str:
    name = find(node, "source_name")
    assert name is not None
    return source_name_of(name)


def _columns(node: Node) -> tuple[str, ...] | None:
    columns = find(node, "columns")
    if columns is None:
        return None
    return limited([name_of(name) for name in branches(columns)], "columns", location_of(columns))


def _values(node: Node) -> tuple[Expression, ...]:
    values = find(node, "values")
    assert values is not None
    return limited([build_expression(value) for value in branches(values)], "values", location_of(values))


def _properties(node: Node) -> Properties:
    properties = find(node, "with_properties")
    if properties is None:
        return ()
    pairs = [(name_or_text_of(pair.children[0]), build_expression(branch(pair, -1))) for pair in branches(properties)]
    return limited(pairs, "properties", location_of(properties))


def _elements(node: Node, kind: SourceKind) -> tuple[ColumnDefinition, ...] | None:
    elements = find(node, "table_elements")
    if elements is None:
        return None
    return limited([_element(element, kind) for element in branches(elements)], "columns", location_of(elements))


_COLUMN_KINDS = {
    "key_column": ColumnKind.KEY,
    "primary_key_column": ColumnKind.PRIMARY_KEY,
    "headers_column": ColumnKind.HEADERS,
    "header_column": ColumnKind.HEADER,
}


def _element(node: Node, source_kind: SourceKind) -> ColumnDefinition:
    name, type_, *constraints = branches(node)
    location = location_of(node)
    kind, header_key = ColumnKind.VALUE, None
    for constraint in constraints:
        kind = _COLUMN_KINDS[constraint.data]
        header_key = text_of(leaf(constraint)) if kind is ColumnKind.HEADER else None
    column = ColumnDefinition(name_of(name), build_type(type_), kind, header_key, location=location)
    _check_key(column, source_kind)
    return column


def _check_key(column: ColumnDefinition, source_kind: SourceKind) -> None:
    is_table = source_kind is SourceKind.TABLE
    wrong, right = (ColumnKind.KEY, ColumnKind.PRIMARY_KEY) if is_table else (ColumnKind.PRIMARY_KEY, ColumnKind.KEY)
    if column.kind is not wrong:
        return
    at = "" if column.location is None else f"Line: {column.location.line}, Col: {column.location.column}: "
    raise ParseFailedError(
        "INVALID_KEY_COLUMN",
        f"{at}Column {quoted_name(column.name)} is a '{wrong.value}' column: please use '{right.value}' for "
        f"{'tables' if is_table else 'streams'}.",
        location=column.location,
    )


_BUILDERS: dict[str, Callable[[Node, Location | None], Statement]] = {
    "select_statement": _select,
    "create_source": _create_source,
    "create_as": _create_as,
    "insert_into": _insert_into,
    "insert_values": _insert_values,
    "drop_source": _drop_source,
    "alter_source": _alter_source,
    "create_type": _create_type,
    "create_function": create_function,
    "drop_function": drop_function,
    "drop_type": _drop_type,
    "set_property": _set_property,
    "unset_property": _unset_property,
    "alter_system": _alter_system,
    "define": _define,
    "undefine": _undefine,
    "terminate": _query_control,
    "pause": _query_control,
    "resume": _query_control,
    "list_topics": _list,
    "list_extensible": _list,
    "list_other": _list,
    "describe_source": _describe_source,
    "describe_all": _describe_all,
    "describe_function": _describe_function,
    "describe_connector": _describe_connector,
    "explain_statement": _explain_statement,
    "explain_query": _explain_query,
    "print_topic": _print_topic,
    "create_connector": _create_connector,
    "drop_connector": _drop_connector,
    "assert_topic": _assert_topic,
    "assert_schema": _assert_schema,
    "assert_values": _assert_values,
    "assert_null_values": _assert_null_values,
    "assert_source": _assert_source,
    "run_script": _run_script,
}
