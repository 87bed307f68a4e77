"""Small parts of parse trees: names, texts, durations, locations, and limits on lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from lark import Token, Tree

from hayase.sql.ast.location import Location
from hayase.sql.ast.words import UNITS
from hayase.sql.errors import ParseFailedError
from hayase.sql.grammar.limits import MAX_ITEMS

Node = Tree[Token]
T = TypeVar("T")
_LARGEST = 2**63 - 1


def location_of(node: Node) -> Location | None:
    """Where a part of the tree begins."""
    return None if node.meta.empty else Location(node.meta.line, node.meta.column)


def name_of(node: Node) -> str:
    """The name that a `name` or `source_name` stands for: bare in upper case, quoted as written."""
    return identifier(leaf(node))


def identifier(token: Token) -> str:
    """The name of a token."""
    if token.type != "QUOTED_IDENTIFIER":
        return token.upper()
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def source_name_of(node: Node) -> str:
    """The name of a stream or table."""
    name = name_of(node)
    if not all(character.isascii() and (character.isalnum() or character in "_-") for character in name):
        location = location_of(node)
        at = "" if location is None else f" at Line: {location.line}, Col: {location.column}"
        raise ParseFailedError(
            "ILLEGAL_NAME",
            f"Illegal argument{at}. Source names may only contain alphanumeric values, '_' or '-'. Got: '{name}'",
            location=location,
        )
    return name


def text_of(token: Token) -> str:
    """The text that a literal in single quotes stands for."""
    return token[1:-1].replace("''", "'")


def name_or_text_of(child: Node | Token) -> str:
    """A name, or a text in its place."""
    return text_of(child) if isinstance(child, Token) else name_of(child)


def duration_of(node: Node) -> int:
    """A duration in milliseconds."""
    number, unit = leaf(node), leaf(branch(node, 1))
    duration_ms = int(number) * UNITS[unit.upper()]
    if duration_ms > _LARGEST:
        raise ParseFailedError(
            "NUMBER_TOO_LARGE",
            f"Invalid duration: {number} {unit}; the largest is {_LARGEST} milliseconds",
            location=location_of(node),
        )
    return duration_ms


def integer_of(token: Token) -> int:
    """A whole number that fits INT, as LIMIT and precisions need it."""
    value = int(token)
    if value >= 2**31:
        raise ParseFailedError(
            "NUMBER_TOO_LARGE",
            f"Invalid number: {token}; the largest here is {2**31 - 1}",
            location=Location(token.line or 1, token.column or 1),
        )
    return value


def limited(items: Sequence[T], what: str, location: Location | None) -> tuple[T, ...]:
    """Items of a list as a tuple, if they are not too many."""
    if len(items) > MAX_ITEMS:
        raise ParseFailedError(
            "TOO_MANY_ITEMS", f"{len(items)} {what}; at most {MAX_ITEMS} are allowed", location=location
        )
    return tuple(items)


def leaf(node: Node, position: int = 0) -> Token:
    """A child that is a token."""
    child = node.children[position]
    assert isinstance(child, Token)
    return child


def branch(node: Node, position: int = 0) -> Node:
    """A child that is a tree."""
    child = node.children[position]
    assert isinstance(child, Tree)
    return child


def branches(node: Node) -> list[Node]:
    """The children that are trees."""
    return [child for child in node.children if isinstance(child, Tree)]


def find(node: Node, rule: str) -> Node | None:
    """The child of a rule, if it is there."""
    return next((child for child in node.children if isinstance(child, Tree) and child.data == rule), None)
