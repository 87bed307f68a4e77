"""The parser: scripts, statements and expressions as syntax trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lark import Token

from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.location import Location
from hayase.sql.ast.statements import DefineVariable, Statement, UndefineVariable
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.build_expressions import build_expression
from hayase.sql.grammar.build_statements import build_statement
from hayase.sql.grammar.build_types import build_type
from hayase.sql.grammar.limits import MAX_STATEMENT_CHARACTERS, MAX_TOKENS
from hayase.sql.grammar.names import branch
from hayase.sql.grammar.syntax import Start, parse_tree
from hayase.sql.grammar.syntax_errors import location_of
from hayase.sql.grammar.tokens import RawStatement, raw_statements, tokens_of
from hayase.sql.grammar.variables import Variables, substitute
from hayase.sql.types.sql_types import SqlType

TOO_LONG = "TOO_LONG"
"""Condition of the error of a statement with more characters or tokens than it may have."""


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A statement with its text, semicolon included, and where it begins in the script."""

    text: str
    statement: Statement
    location: Location


def parse_script(
    text: str, variables: Variables | None = None, *, test_statements: bool = False
) -> list[ParsedStatement]:
    """The statements of a script, each ending with a semicolon.

    Args:
        text: the script.
        variables: what `${name}` stands for; DEFINE and UNDEFINE in the script change it.
        test_statements: whether RUN SCRIPT and the ASSERTs of test scripts are statements, too.

    Raises:
        ParseFailedError: with line and column in the script.
    """
    return list(iterate_script(text, variables, test_statements=test_statements))


def iterate_script(
    text: str, variables: Variables | None = None, *, test_statements: bool = False
) -> Iterator[ParsedStatement]:
    """The statements of a script one by one: `variables` may be changed between them."""
    known = Variables() if variables is None else variables
    for raw in raw_statements(text):
        if raw.end is None:
            location = location_of(raw.tokens[-1])
            raise ParseFailedError(
                "SYNTAX_ERROR",
                f"line {location.line}:{location.column}: Syntax Error\nmissing ';' at '<EOF>'\nStatement: {raw.text}",
                location=location,
                statement=raw.text,
            )
        if raw.tokens:
            yield _parsed(raw, known, "only_test_statement" if test_statements else "only_statement")


def parse_statement(text: str, variables: Variables | None = None) -> ParsedStatement:
    """One statement, with or without its semicolon.

    Raises:
        ParseFailedError: with line and column; or `text` is several statements.
    """
    statements = [raw for raw in raw_statements(text) if raw.tokens]
    if len(statements) != 1:
        raise ParseFailedError(
            "NOT_ONE_STATEMENT", f"Expected exactly one KSQL statement; found {len(statements)} instead"
        )
    return _parsed(statements[0], variables or Variables(), "only_statement")


def parse_expression(text: str) -> Expression:
    """One expression.

    Raises:
        ParseFailedError: with line and column.
    """
    return build_expression(branch(parse_tree(bounded_tokens(text), "only_expression", text, None)))


def parse_type(text: str) -> SqlType:
    """One type.

    Raises:
        ParseFailedError: with line and column.
    """
    return build_type(branch(parse_tree(bounded_tokens(text), "only_type", text, None)))


def bounded_tokens(text: str) -> list[Token]:
    """The tokens of one statement, or of a part of it.

    Raises:
        ParseFailedError: `TOO_LONG`: it has more characters or tokens than a statement may have; others with line and
            column.
    """
    _check_characters(text)
    tokens = list(tokens_of(text))
    _check_tokens(tokens, text)
    return tokens


def _parsed(raw: RawStatement, variables: Variables, start: Start) -> ParsedStatement:
    _check_characters(raw.text)
    _check_tokens(raw.tokens, raw.text)
    try:
        tokens = substitute(raw.tokens, variables)
        statement = build_statement(branch(parse_tree(tokens, start, raw.text, raw.end)))
    except ParseFailedError as error:
        error.statement = error.statement or raw.text
        raise
    if isinstance(statement, DefineVariable):
        variables[statement.name] = statement.value
    elif isinstance(statement, UndefineVariable):
        variables.pop(statement.name, None)
    return ParsedStatement(raw.text, statement, location_of(raw.tokens[0]))


def _check_characters(text: str) -> None:
    if len(text) > MAX_STATEMENT_CHARACTERS:
        raise ParseFailedError(
            TOO_LONG,
            f"A statement has {len(text)} characters; at most {MAX_STATEMENT_CHARACTERS} are allowed: {text[:80]}…",
        )


def _check_tokens(tokens: Sequence[Token], text: str) -> None:
    if len(tokens) > MAX_TOKENS:
        raise ParseFailedError(
            TOO_LONG,
            f"A statement has {len(tokens)} words and signs; at most {MAX_TOKENS} are allowed: {text[:80]}…",
            location=location_of(tokens[0]),
        )
