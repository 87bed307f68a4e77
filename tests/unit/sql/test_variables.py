"""Variables in scripts."""

from __future__ import annotations

import pytest

from hayase.sql.ast.expressions import IntegerLiteral, StringLiteral
from hayase.sql.ast.statements import CreateSource, InsertValues
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.parser import parse_script
from hayase.sql.grammar.variables import Variables


def test_a_variable_takes_the_place_of_a_name_a_number_or_a_text() -> None:
    *_, parsed = parse_script(
        "DEFINE s = 'orders'; DEFINE n = '-3'; DEFINE t = '''x'''; DEFINE b = 'true';"
        "INSERT INTO ${S} VALUES (${n}, ${t}, ${B});"
    )
    statement = parsed.statement
    assert isinstance(statement, InsertValues)
    assert statement.target == "ORDERS"
    assert statement.values[:2] == (IntegerLiteral(-3), StringLiteral("x"))


def test_inside_of_quotes_it_is_replaced_as_text() -> None:
    variables = Variables({"format": "JSON", "name": "it's"})
    (parsed,) = parse_script(
        "CREATE STREAM s WITH (value_format='${FORMAT}', place='a-${name}', other='$${name}', kept='${unknown}');",
        variables,
    )
    assert isinstance(parsed.statement, CreateSource)
    assert [value for _, value in parsed.statement.properties] == [
        StringLiteral("JSON"),
        StringLiteral("a-it's"),
        StringLiteral("${name}"),
        StringLiteral("${unknown}"),
    ]


def test_a_variable_cannot_add_clauses() -> None:
    with pytest.raises(ParseFailedError, match="neither a name nor a literal"):
        parse_script("DEFINE x = 'a, b'; SELECT ${x} FROM s;")


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(ParseFailedError, match="Variable x is not defined"):
        parse_script("DEFINE x = '1'; UNDEFINE X; SELECT ${x} FROM s;")


def test_a_script_leaves_its_variables_behind() -> None:
    variables = Variables({"A": "1"})
    parse_script("DEFINE b = '2'; UNDEFINE a;", variables)
    assert dict(variables) == {"b": "2"}
