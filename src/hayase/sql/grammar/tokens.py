"""Tokens of a script.

The words of a script are split here and not by Lark: a script is cut into statements first, variables take the place of
single tokens, and a keyword such as EMIT is a name or not by what follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lark import Token

from hayase.sql.ast.location import Location
from hayase.sql.ast.words import NON_RESERVED, RESERVED
from hayase.sql.errors import ParseFailedError

KEYWORDS = RESERVED | NON_RESERVED

SYMBOLS = {
    ";": "SEMICOLON",
    ",": "COMMA",
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "<": "LESSTHAN",
    ">": "MORETHAN",
    ".": "DOT",
    "*": "STAR",
    "+": "PLUS",
    "-": "MINUS",
    "/": "SLASH",
    "%": "PERCENT",
    "=": "EQUAL",
    "->": "_ARROW",
    "=>": "_FAT_ARROW",
    ":=": "_ASSIGN",
    "||": "_CONCAT",
    "!=": "_NOT_EQUAL",
    "<>": "_NOT_EQUAL",
    "<=": "_LESS_OR_EQUAL",
    ">=": "_GREATER_OR_EQUAL",
}

_TOKEN = re.compile(
    r"""
      (?P<SPACE>        \s+ )
    | (?P<COMMENT>      --[^\n]* | /\*.*?\*/ )
    | (?P<WORD>         [A-Z_][A-Z0-9_@]* )
    | (?P<FLOATING_POINT_VALUE>
          (?: \d+\.\d* | \.\d+ ) E [+-]? \d+ | \d+ E [+-] \d+ | \d+ E \d+ (?![A-Z0-9_@]) )
    | (?P<DECIMAL_VALUE> \d+\.\d* | \.\d+ )
    | (?P<DIGIT_IDENTIFIER> \d+ [A-Z_@][A-Z0-9_@]* )
    | (?P<INTEGER_VALUE> \d+ )
    | (?P<TEXT>         '(?:[^']|'')*' )
    | (?P<QUOTED_IDENTIFIER> `(?:[^`]|``)*` | "(?:[^"]|"")*" )
    | (?P<VARIABLE>     \$\{[A-Z_][A-Z0-9_]*\} )
    | (?P<SYMBOL>       -> | => | := | \|\| | <> | != | <= | >= | /(?!\*) | [;,()\[\]<>.*+\-%=] )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.ASCII,
)

_BYTE_ORDER_MARK = "\ufeff"
_UNCLOSED = {
    "'": ("text", "'"),
    "`": ("identifier", "`"),
    '"': ("identifier", '"'),
    "/*": ("comment", "*/"),
    "$": ("variable", "}"),
}
"""What begins so, and what ends it."""


@dataclass(frozen=True, slots=True)
class RawStatement:
    """The tokens of one statement without the semicolon, and its text with it."""

    tokens: list[Token]
    text: str
    end: Token | None
    """The semicolon; `None` if the script ends without one."""


def comments_and_others(text: str) -> Iterator[tuple[int, str]]:
    """Position and text of all in a script that is no space: comments, which begin with `--` or `/*`, and the rest.

    Nothing is refused: a character that begins no token, such as a quote without its second, is one by itself.
    """
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup != "SPACE":
            yield position, text[position] if match is None else match.group()
        position = position + 1 if match is None else match.end()


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of a script, without spaces and comments."""
    position = line_start = len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    line = 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unrecognized(text, Location(line, position - line_start + 1), position)
        kind, value = str(match.lastgroup), match.group()
        if kind not in {"SPACE", "COMMENT"}:
            yield _token(kind, value, position, line, position - line_start + 1)
        breaks = value.count("\n")
        if breaks:
            line += breaks
            line_start = position + value.rindex("\n") + 1
        position = match.end()


def _token(kind: str, value: str, start: int, line: int, column: int) -> Token:
    if kind == "WORD":
        word = value.upper()
        kind = ("STRING_WORD" if word == "STRING" else word) if word in KEYWORDS else "IDENTIFIER"
    elif kind == "DIGIT_IDENTIFIER":
        kind = "IDENTIFIER"
    elif kind == "SYMBOL":
        kind = SYMBOLS[value]
    end = start + len(value)
    return Token(kind, value, start, line, column, line, column + len(value), end)


def _unrecognized(text: str, location: Location, position: int) -> ParseFailedError:
    for opening, (what, end) in _UNCLOSED.items():
        if text.startswith(opening, position):
            detail = f"the {what} that begins here has no end: put {end} behind it"
            if len(end) == 1 and end == opening:
                detail += f", and write {end}{end} for a {end} in it"
            break
    else:
        detail = f"token recognition error at: '{text[position]}'"
    return ParseFailedError(
        "SYNTAX_ERROR", f"line {location.line}:{location.column}: Syntax Error\n{detail}", location=location
    )


def raw_statements(text: str) -> Iterator[RawStatement]:
    """A script cut at its semicolons."""
    tokens: list[Token] = []
    for token in tokens_of(text):
        if token.type == "SEMICOLON":
            start = tokens[0].start_pos if tokens else token.start_pos
            yield RawStatement(tokens, text[start : token.end_pos], token)
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield RawStatement(tokens, text[tokens[0].start_pos :].rstrip(), None)
