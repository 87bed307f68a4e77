"""Variables of DEFINE, and `${name}` replaced by them.

A variable stands for one token: a name, a number or text, so that its value cannot add clauses to a statement. Inside
of quotes it is replaced as text; `$${name}` keeps a reference as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping

from lark import Token

from hayase.sql.ast.location import Location
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.tokens import tokens_of

_REFERENCE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_VALUES = {"IDENTIFIER", "QUOTED_IDENTIFIER", "TEXT", "INTEGER_VALUE", "DECIMAL_VALUE", "FLOATING_POINT_VALUE"}
_WORDS = {"TRUE", "FALSE", "NULL"}


class Variables(MutableMapping[str, str]):
    """Values by name, whatever the case of its letters; listed as they were written first."""

    def __init__(self, values: MutableMapping[str, str] | None = None) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        self.update(values or {})

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][1]

    def __setitem__(self, name: str, value: str) -> None:
        self._values[name.lower()] = (name, value)

    def __delitem__(self, name: str) -> None:
        del self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._values.values())

    def __len__(self) -> int:
        return len(self._values)


def substitute(tokens: list[Token], variables: Variables) -> list[Token]:
    """The tokens, with the values of variables in place of references."""
    if not any("${" in token for token in tokens):
        return tokens
    return [replaced for token in tokens for replaced in _replaced(token, variables)]


def _replaced(token: Token, variables: Variables) -> list[Token]:
    if token.type in {"TEXT", "QUOTED_IDENTIFIER"}:
        return [token.update(value=_replaced_inside(token, variables))]
    if token.type != "VARIABLE":
        return [token]
    name = token[2:-1]
    if name not in variables:
        raise _error(token, f"Variable {name} is not defined; write DEFINE {name} = '…' before the statement")
    parts = list(tokens_of(variables[name]))
    if not _is_one_value(parts):
        raise _error(
            token,
            f"Variable {name} is {variables[name]!r}, which is neither a name nor a literal; a variable stands for one "
            "of them",
        )
    return [Token.new_borrow_pos(part.type, part.value, token) for part in parts]


def _is_one_value(parts: list[Token]) -> bool:
    if len(parts) == 2 and parts[0].type == "MINUS":
        return parts[1].type.endswith("_VALUE")
    return len(parts) == 1 and (parts[0].type in _VALUES | _WORDS or parts[0].type == parts[0].upper())


def _replaced_inside(token: Token, variables: Variables) -> str:
    quote = token[0]

    def value(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return match.group()[1:]
        return variables[name].replace(quote, quote * 2) if name in variables else match.group()

    return quote + _REFERENCE.sub(value, token[1:-1]) + quote


def _error(token: Token, message: str) -> ParseFailedError:
    return ParseFailedError("VARIABLE", message, location=Location(token.line or 1, token.column or 1))
