"""Syntax errors: where they are and what they say."""

from __future__ import annotations

import time

import pytest

from hayase.sql.ast.location import Location
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.limits import MAX_STATEMENT_CHARACTERS, MAX_TOKENS
from hayase.sql.grammar.parser import parse_expression, parse_script, parse_statement


def message(script: str) -> str:
    with pytest.raises(ParseFailedError) as raised:
        parse_script(script)
    return raised.value.message


def test_an_error_has_line_and_column_in_the_script() -> None:
    with pytest.raises(ParseFailedError) as raised:
        parse_script("SELECT a FROM s;\nSELECT a\n  FROM 'x';")
    assert raised.value.location == Location(3, 8)
    assert raised.value.statement == "SELECT a\n  FROM 'x';"


def test_few_expected_tokens_are_named() -> None:
    assert message("CREATE STREAM s (a INT b) WITH (x=1);").startswith(
        "line 1:24: Syntax Error\nExpecting {',', ')'}\nStatement: CREATE STREAM s (a INT b)"
    )
    assert "Expecting {'STRING', INTEGER_VALUE}" in message("CREATE STREAM s (a INT (b));")


def test_a_missing_parenthesis_is_named() -> None:
    assert "line 1:35: Syntax Error\nmissing ')' at ','" in message("SELECT a FROM s GROUP BY x, (y + z, a);")


def test_a_reserved_word_is_named_with_the_way_out() -> None:
    text = message("SELECT a AS select FROM s;")
    assert text.startswith("line 1:13: Syntax Error\nSyntax error at or near 'select' at line 1:13\nStatement: ")
    assert "`select`" in text


def test_an_unknown_statement_is_named_with_the_one_that_was_meant() -> None:
    assert "line 1:1: Syntax Error\nUnknown statement 'CRATE'\nDid you mean 'CREATE'?" in message("CRATE STREAM s;")


def test_a_statement_that_could_end_says_so() -> None:
    assert message("SELECT a FROM s x y;") == (
        "line 1:19: Syntax Error\n\nStatement: SELECT a FROM s x y;\n"
        "The statement does not go on with 'y'; it may end before it."
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT a FROM s ORDER BY a;", "line 1:23: Syntax Error\n\nStatement: SELECT a FROM s ORDER BY a;\n"),
        ("SELECT a FROM s WHERE b = 1 ORDER BY a;", "line 1:29: Syntax Error\n\nStatement: "),
        ("CREATE TABLE t AS SELECT a FROM s ORDER BY a;", "line 1:41: Syntax Error\n\nStatement: "),
    ],
)
def test_order_by_is_refused_with_where_it_may_stand(text: str, found: str) -> None:
    assert message(text).startswith(found)
    assert message(text).endswith("leave ORDER BY out, or create a table and query that.")


def test_a_column_that_is_called_order_is_no_order_by() -> None:
    assert message("SELECT a FROM s order x;").endswith("does not go on with 'x'; it may end before it.")


def test_a_statement_that_ends_early_is_an_error_at_its_end() -> None:
    assert "line 1:14: Syntax Error" in message("SELECT a FROM;")


def test_the_last_statement_ends_with_a_semicolon() -> None:
    assert "missing ';' at '<EOF>'" in message("SELECT a FROM s; SELECT b FROM s")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 'a FROM s;", "line 1:8: Syntax Error\nthe text that begins here has no end: put ' behind it, and"),
        (
            "SELECT `a FROM s;",
            "the identifier that begins here has no end: put ` behind it, and write `` for a `",
        ),
        ("SELECT a /* FROM s;", "the comment that begins here has no end: put */ behind it"),
        ("SELECT a ? FROM s;", "line 1:10: Syntax Error\ntoken recognition error at: '?'"),
        ("SELECT ä FROM s;", "token recognition error at: 'ä'"),
    ],
)
def test_texts_that_are_no_tokens(text: str, expected: str) -> None:
    assert expected in message(text)


@pytest.mark.long
def test_the_number_of_words_is_limited() -> None:
    with pytest.raises(ParseFailedError, match=f"at most {MAX_TOKENS} are allowed"):
        parse_expression("a OR " * MAX_TOKENS)


def test_empty_scripts_have_no_statements() -> None:
    assert parse_script("  -- nothing\n ;; ") == []


@pytest.mark.parametrize("text", ["", "SELECT a FROM s; SELECT b FROM s"])
def test_one_statement_is_one(text: str) -> None:
    with pytest.raises(ParseFailedError, match="Expected exactly one KSQL statement"):
        parse_statement(text)


def test_the_length_of_a_statement_is_limited() -> None:
    with pytest.raises(ParseFailedError, match=f"at most {MAX_STATEMENT_CHARACTERS} are allowed"):
        parse_expression(f"'{'x' * MAX_STATEMENT_CHARACTERS}'")


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "(" * MAX_TOKENS,
        "ARRAY[" * 9_000,
        "CASE " * 9_000,
        "a OR " * 9_000,
        "f(x => " * 4_000,
        "((x)" * 4_000,
        "--" * 99,
    ],
)
def test_monstrous_expressions_are_refused_fast(text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(ParseFailedError):
        parse_expression(text)
    assert time.monotonic() - begin < 20


@pytest.mark.long
def test_a_long_script_parses_in_seconds() -> None:
    script = "".join(
        f"CREATE STREAM s{n} AS SELECT a, b + {n} AS c, UCASE(d) FROM t WHERE a > {n} AND e LIKE 'x%' EMIT CHANGES;\n"
        for n in range(1_000)
    )
    begin = time.monotonic()
    assert len(parse_script(script)) == 1_000
    assert time.monotonic() - begin < 30
