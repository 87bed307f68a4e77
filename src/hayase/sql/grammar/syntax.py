"""The grammar, loaded once; tokens to parse trees."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Collection, Sequence
from functools import cache
from importlib import metadata
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Literal, get_args

from lark import Lark, Token, Tree, UnexpectedToken
from lark.parsers.lalr_analysis import Shift
from lark.parsers.lalr_parser_state import ParserState

from hayase.core.cache import cache_root, cached_folder
from hayase.core.errors import HayaseError
from hayase.core.private_files import write_file
from hayase.sql.ast.words import NON_RESERVED
from hayase.sql.grammar.syntax_errors import syntax_error

Start = Literal["only_statement", "only_test_statement", "only_expression", "only_type"]

_TABLES = "tables"
_NO_CACHE = (OSError, RuntimeError, HayaseError)
"""It cannot be written, there is no home folder, or it is another user's."""
_DAMAGED = (pickle.UnpicklingError, EOFError, ValueError, KeyError, AttributeError)
_NAMES_TOO = (NON_RESERVED - {"STRING"}) | {"STRING_WORD"}
_BEGINS_STATEMENT = {"ALTER", "ASSERT", "DEFINE", "EXPLAIN", "SET", "SHOW", "UNDEFINE"}
_KEYWORD_BEFORE: dict[str, Collection[str]] = {
    "ARRAY": ("LSQB", "LESSTHAN"),
    "EMIT": ("CHANGES", "FINAL"),
    "ESCAPE": ("TEXT",),
    "IF": ("NOT", "EXISTS"),
    "MAP": ("LPAR", "LESSTHAN"),
    "PARTITION": ("BY",),
    "SESSION": ("LPAR",),
    "STRUCT": ("LPAR", "LESSTHAN", "_NOT_EQUAL"),
}
"""Where keyword and name are both possible, a word is the keyword before one of these tokens."""


@cache
def _grammar() -> Lark:
    """The parser. Its tables, which take a quarter of a second to make, are kept in the cache folder."""
    text = files("hayase.sql.grammar").joinpath("sql.lark").read_text("utf-8")
    made_with = "\n".join((text, metadata.version("lark"), sys.version))
    folder = cache_root() / f"sql-grammar-{hashlib.blake2b(made_with.encode(), digest_size=8).hexdigest()}"
    try:
        kept = cached_folder(folder, lambda made: _write_tables(made, _made(text)))
        with (kept / _TABLES).open("rb") as tables:
            return Lark.load(tables)
    except (*_NO_CACHE, *_DAMAGED):
        return _made(text)


def _made(text: str) -> Lark:
    return Lark(
        text,
        parser="lalr",
        lexer="basic",
        start=list(get_args(Start)),
        propagate_positions=True,
        maybe_placeholders=False,
    )


def _write_tables(folder: Path, grammar: Lark) -> None:
    tables = BytesIO()
    grammar.save(tables)
    write_file(folder / _TABLES, tables.getvalue())


def parse_tree(tokens: Sequence[Token], start: Start, text: str, end: Token | None) -> Tree[Token]:
    """The parse tree of one statement or expression.

    Raises:
        ParseFailedError: the tokens are none; with line, column and what was expected.
    """
    tokens = _marked_lambdas(tokens)
    parser = _grammar().parse_interactive(start=start)
    state = parser.parser_state
    for index, token in enumerate(tokens):
        if token.type in _NAMES_TOO and not _stays_keyword(state, tokens, index):
            token = token.update(type="IDENTIFIER")
        try:
            state.feed_token(token)
        except UnexpectedToken:
            raise syntax_error(parser, tokens, index, text) from None
    last = end or (tokens[-1] if tokens else None)
    end_token = Token.new_borrow_pos("$END", "", last) if last is not None else Token("$END", "", 0, 1, 1)
    try:
        tree = state.feed_token(end_token, is_end=True)
    except UnexpectedToken:
        raise syntax_error(parser, [*tokens, end_token], len(tokens), text) from None
    assert isinstance(tree, Tree)
    return tree


def _stays_keyword(state: ParserState[Token], tokens: Sequence[Token], index: int) -> bool:
    if not _accepts(state, tokens[index].type):
        return False
    return not _accepts(state, "IDENTIFIER") or _is_keyword(tokens, index)


def _accepts(state: ParserState[Token], type_: str) -> bool:
    """Whether a token can come next: the table alone does not say, since reductions may lead to an error."""
    table = state.parse_conf.states
    stack = list(state.state_stack)
    while (action := table[stack[-1]].get(type_)) is not None:
        if action[0] is Shift:
            return True
        rule = action[1]
        if rule.expansion:
            del stack[-len(rule.expansion) :]
        stack.append(table[stack[-1]][rule.origin.name][1])
    return False


def _is_keyword(tokens: Sequence[Token], index: int) -> bool:
    word = tokens[index].type
    following = tokens[index + 1].type if index + 1 < len(tokens) else None
    if word in _KEYWORD_BEFORE:
        return following in _KEYWORD_BEFORE[word]
    if word == "COLUMN":  # ADD COLUMN name type; without the keyword, the type's end follows the name's type
        after = tokens[index + 2].type if index + 2 < len(tokens) else None
        return after not in {None, "COMMA", "LPAR", "LESSTHAN"}
    return following is not None if word in _BEGINS_STATEMENT or word == "FUNCTION" else True


def _marked_lambdas(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, with the parentheses around the parameters of lambdas made a token of their own."""
    marked = list(tokens)
    for index, token in enumerate(tokens):
        if token.type == "_FAT_ARROW" and index > 0 and tokens[index - 1].type == "RPAR":
            opening = index - 2
            while opening >= 0 and tokens[opening].type not in {"LPAR", "RPAR"}:
                opening -= 1
            if opening >= 0 and tokens[opening].type == "LPAR":
                marked[opening] = tokens[opening].update(type="_LAMBDA_LPAR")
    return marked
