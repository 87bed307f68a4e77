"""What all operators have in common."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

Fields = tuple[tuple[str, pl.Expr], ...]
"""A value made of expressions: field names in order, each with its expression."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Base of all; a node has one of its subclasses."""


class UserCode(Operator):
    """Base of those that run an object of the user with a context: it may schedule, and read all global stores."""

    __slots__ = ()
