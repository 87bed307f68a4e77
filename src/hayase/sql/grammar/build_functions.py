"""Statements about functions, from their parse trees."""

from __future__ import annotations

from hayase.sql.ast.location import Location
from hayase.sql.ast.statements import CreateFunction, DropFunction, Statement
from hayase.sql.grammar.build_types import build_type
from hayase.sql.grammar.names import Node, branch, branches, find, leaf, limited, name_of, text_of


def create_function(node: Node, location: Location | None) -> Statement:
    """CREATE FUNCTION."""
    *_, name, parameters, returns = branches(node)
    pairs = [(name_of(branch(each)), build_type(branch(each, 1))) for each in branches(parameters)]
    return CreateFunction(
        name_of(name),
        limited(pairs, "parameters", location),
        build_type(returns),
        text_of(leaf(node, -1)),
        or_replace=find(node, "or_replace") is not None,
        if_not_exists=find(node, "if_not_exists") is not None,
        location=location,
    )


def drop_function(node: Node, location: Location | None) -> Statement:
    """DROP FUNCTION."""
    return DropFunction(name_of(branch(node, -1)), if_exists=find(node, "if_exists") is not None, location=location)
