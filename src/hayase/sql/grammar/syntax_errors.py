"""What a syntax error says: where, what was found, and what was expected, in ksqlDB's wording."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from lark import Token
from lark.parsers.lalr_interactive_parser import InteractiveParser

from hayase.sql.ast.location import Location
from hayase.sql.ast.words import RESERVED
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.tokens import KEYWORDS, SYMBOLS

_SHOWN = {type_: f"'{symbol}'" for symbol, type_ in SYMBOLS.items()} | {
    "STRING_WORD": "'STRING'",
    "TEXT": "STRING",
    "$END": "';'",
}
_ORDER = [*_SHOWN, *sorted(KEYWORDS)]
_ERROR = "Syntax Error\n"
_NO_ORDER = (
    "Rows have an order only in pull queries of the server, without EMIT, that read tables alone: leave ORDER BY out, "
    "or create a table and query that."
)
_MOST_SHOWN = 14  # as many as there are units of time


def location_of(token: Token) -> Location:
    """Where a token begins."""
    return Location(token.line or 1, token.column or 1)


def syntax_error(parser: InteractiveParser, tokens: Sequence[Token], index: int, text: str) -> ParseFailedError:
    """The error of a statement that cannot go on with the token at `index`."""
    location = location_of(tokens[index])
    detail, hint = _detail(parser, tokens, index)
    message = f"line {location.line}:{location.column}: {detail}\nStatement: {text}"
    return ParseFailedError("SYNTAX_ERROR", message + (f"\n{hint}" if hint else ""), location=location, statement=text)


def _detail(parser: InteractiveParser, tokens: Sequence[Token], index: int) -> tuple[str, str]:
    """What is wrong, and a hint that stands behind the statement."""
    accepted = parser.accepts()
    token = tokens[index]
    found = "<EOF>" if token.type == "$END" else str(token)
    if index == 0:
        return f"{_ERROR}{_unknown_statement(found, accepted)}", ""
    if "RPAR" in accepted and token.type in _fed(parser, "RPAR").accepts():
        return f"{_ERROR}missing ')' at '{found}'", ""
    expected = _shown(_closing(parser, accepted))
    if str(token).upper() in RESERVED and "$END" not in accepted:
        hint = f"{found} is a reserved word; as a name, write `{found}`" if "IDENTIFIER" in accepted else expected
        # Clients look for either wording, so ksqlDB says it twice.
        return f"{_ERROR}Syntax error at or near '{found}' at line {token.line}:{token.column}", hint
    if "$END" not in accepted:
        return f"{_ERROR}{expected}", ""
    if _is_order_by(tokens, index):
        return _ERROR, _NO_ORDER
    return _ERROR, f"The statement does not go on with '{found}'; it may end before it."


def _is_order_by(tokens: Sequence[Token], index: int) -> bool:
    """Whether ORDER BY stands there; ORDER is the alias of a source where one may follow."""
    words = [str(token).upper() for token in tokens[index - 1 : index + 2]]
    return ["ORDER", "BY"] in (words[:2], words[1:])


def _closing(parser: InteractiveParser, accepted: set[str]) -> set[str]:
    """The tokens that close most of what is open: after `(a INT`, comma and parenthesis, not PRIMARY KEY as well."""
    depths = {type_: len(_fed(parser, type_).parser_state.state_stack) for type_ in accepted - {"$END"}}
    return {type_ for type_, depth in depths.items() if depth == min(depths.values())}


def _fed(parser: InteractiveParser, type_: str) -> InteractiveParser:
    trial: InteractiveParser = parser.copy(deepcopy_values=False)
    trial.feed_token(Token(type_, ""))
    return trial


def _unknown_statement(found: str, accepted: set[str]) -> str:
    if found == "<EOF>":
        return "The statement is empty"
    close = difflib.get_close_matches(found.upper(), sorted(accepted), n=1)
    return f"Unknown statement '{found}'" + (f"\nDid you mean '{close[0]}'?" if close else "")


def _shown(types: set[str]) -> str:
    names = [_SHOWN.get(type_, f"'{type_}'" if type_ in KEYWORDS else type_) for type_ in sorted(types, key=_rank)]
    more = ", …" if len(names) > _MOST_SHOWN else ""
    return f"Expecting {{{', '.join(names[:_MOST_SHOWN])}{more}}}"


def _rank(type_: str) -> tuple[int, str]:
    return (_ORDER.index(type_) if type_ in _ORDER else len(_ORDER), type_)
