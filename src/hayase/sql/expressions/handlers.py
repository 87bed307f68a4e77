"""Which handler writes which kind of expression."""

from __future__ import annotations

from collections.abc import Mapping

from hayase.sql.ast.expressions import Expression
from hayase.sql.expressions.emit_calls import CALLS
from hayase.sql.expressions.emit_operators import OPERATORS
from hayase.sql.expressions.emit_parts import PARTS
from hayase.sql.expressions.emitter import Handler

HANDLERS: Mapping[type[Expression], Handler] = {**OPERATORS, **PARTS, **CALLS}
"""All kinds but those that the emitter writes itself: columns, literals and parameters of lambdas."""
